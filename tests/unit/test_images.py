"""Images in: folders, label files, npz; every refusal says what and where."""

import io
import os
import struct
import sys
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import EpsImagePlugin, Image

from tollbox.data.image_files import read_image
from tollbox.data.images import load_images
from tollbox.errors import FileError, InputError


def picture(file: Path, mode: str = "RGB", size: tuple[int, int] = (5, 4), value: int = 51) -> None:
    Image.new("L", size, value).convert(mode).save(file)


def folder(
    tmp_path: Path, lines: list[str], modes: dict[str, str] | None = None
) -> tuple[Path, Path]:
    where = tmp_path / "pictures"
    where.mkdir()
    for name, mode in (modes or {"a.png": "RGB", "b.png": "RGB"}).items():
        picture(where / name, mode)
    table = tmp_path / "labels.csv"
    table.write_text("\n".join(lines) + "\n")
    return where, table


def test_folder_in_the_order_of_the_label_file(tmp_path: Path) -> None:
    where, table = folder(tmp_path, ["\ufeffLabel,note,File", "3,x,b.png", "", "1,y,./a.png"])
    found = load_images(where, table)
    assert found.names == ("b.png", "a.png")
    assert found.labels == (3, 1)
    assert found.images.shape == (2, 3, 4, 5)
    assert found.images.dtype == torch.float32
    assert torch.equal(found.images, torch.full((2, 3, 4, 5), 51 / 255))
    assert load_images(where, table, limit=1).names == ("b.png",)


@pytest.mark.parametrize(
    ("modes", "channels"),
    [
        ({"a.png": "L", "b.png": "L"}, 1),
        ({"a.png": "L", "b.png": "1"}, 1),
        ({"a.png": "L", "b.png": "RGB"}, 3),
        ({"a.png": "RGBA", "b.png": "P"}, 3),
        ({"a.png": "LA", "b.jpg": "RGB"}, 3),
    ],
)
def test_channels(tmp_path: Path, modes: dict[str, str], channels: int) -> None:
    where, table = folder(tmp_path, ["file,label", *(f"{name},0" for name in modes)], modes)
    found = load_images(where, table)
    assert found.images.shape == (2, channels, 4, 5)
    assert torch.allclose(found.images[0], torch.tensor(51 / 255), atol=0.005)


def test_palette_with_transparency_and_colour_order(tmp_path: Path) -> None:
    where = tmp_path / "pictures"
    where.mkdir()
    colours = Image.new("RGB", (2, 1))
    colours.putdata([(255, 0, 0), (0, 0, 255)])
    colours.quantize(4).save(where / "a.png", transparency=b"\xff\xff")
    (tmp_path / "l.csv").write_text("file,label\na.png,0\n")
    image = load_images(where, tmp_path / "l.csv").images[0]
    assert image[:, 0, 0].tolist() == [1, 0, 0]
    assert image[:, 0, 1].tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a.png,1", "b.png,2"], "line 1: the header is 'a.png,1'"),
        (["file,label", "a.png,1"], "no label for the image b.png"),
        (["file,label", "a.png,1", "b.png,x"], "line 3: the label is 'x'"),
        (["file,label", "a.png,1", "b.png,1.5"], "line 3: the label is '1.5'"),
        (["file,label", "a.png,1", "c.png,1"], "line 3: the image 'c.png' is not in the folder"),
        (["file,label", "a.png,1", "../labels.csv,1"], "line 3: the image '../labels.csv'"),
        (["file,label", "a.png,1", "a.png,1"], "line 3: the image 'a.png' has a label already"),
        (["file,label", "a.png"], "line 2: 'a.png' lacks a value"),
        (["file,label", "../a.png,1"], "expected a path relative to that folder"),
        (["file,label", "/a.png,1"], "expected a path relative to that folder"),
        (["file,label", f"a.png,{'9' * 5000}"], "line 2: the label is '999"),
        (["file,label", f"a.png,{2**63}"], "line 2: the label is '9223372036854775808'"),
        ([""], "line 1: the header is ''"),
    ],
)
def test_label_files_that_are_wrong(tmp_path: Path, lines: list[str], message: str) -> None:
    where, table = folder(tmp_path, lines)
    with pytest.raises(FileError) as error:
        load_images(where, table)
    assert message in str(error.value)
    assert "labels.csv" in str(error.value)


def test_folders_that_are_wrong(tmp_path: Path) -> None:
    lines = ["file,label", "a.png,1", "b.png,1"]
    where, table = folder(tmp_path, lines)
    with pytest.raises(InputError, match="no labels are given"):
        load_images(where)
    with pytest.raises(FileError, match=r"nowhere\.csv does not exist: expected a CSV file"):
        load_images(where, tmp_path / "nowhere.csv")
    table.write_bytes(b"file,label\n\xff\xfe,1\n")
    with pytest.raises(FileError, match="not UTF-8"):
        load_images(where, table)
    table.write_text("\n".join(lines))
    picture(where / "b.png", size=(6, 4))
    with pytest.raises(InputError, match=r"b\.png is 6x4, but a\.png is 5x4"):
        load_images(where, table)
    (where / "b.png").write_bytes((where / "a.png").read_bytes()[:50])
    with pytest.raises(FileError, match=r"b\.png cannot be read"):
        load_images(where, table)
    Image.fromarray(np.full((4, 5), 60000, np.uint16)).save(where / "b.png")
    with pytest.raises(FileError, match="8 bits per channel"):
        load_images(where, table)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(FileError, match="has no images"):
        load_images(empty, table)
    with pytest.raises(FileError, match="does not exist"):
        load_images(tmp_path / "nowhere", table)
    with pytest.raises(InputError, match=r"^limit is 0: expected a whole number of 1 or more"):
        load_images(where, table, limit=0)


def test_postscript_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where, table = folder(tmp_path, ["file,label", "a.png,1", "b.png,1"])
    run: list[object] = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *given, **_: run.append(given))
    (where / "a.png").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 5 4\n%%EndComments\n")
    with pytest.raises(FileError, match=r"a\.png cannot be read: cannot identify image file"):
        load_images(where, table)
    assert not run


@pytest.mark.parametrize("name", ["labels", "images"])
def test_only_plain_files_are_read(tmp_path: Path, name: str) -> None:
    where, _ = folder(tmp_path, ["file,label"])
    os.mkfifo(tmp_path / "pipe")
    for file in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(FileError, match=f"{file} is not a file"):
            load_images(where, file) if name == "labels" else load_images(file)


def test_a_label_file_that_is_too_large(tmp_path: Path) -> None:
    where, table = folder(tmp_path, ["file,label", "a.png,1"])
    with open(table, "ab") as file:
        file.truncate(2**28 + 1)
    with pytest.raises(FileError, match=r"has 268,435,457 bytes: expected a CSV file, at most"):
        load_images(where, table)


def test_only_pictures_need_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where, table = folder(tmp_path, ["file,label", "a.png,1", "b.png,1"])
    np.savez(tmp_path / "x.npz", images=GOOD, labels=[0, 1])
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.delitem(sys.modules, "PIL.Image", raising=False)
    assert len(load_images(tmp_path / "x.npz")) == 2
    with pytest.raises(
        InputError, match=r"^PIL .*: image files .*; install .* 'tollbox\[cli\]'`\.$"
    ):
        load_images(where, table)


def test_npz_of_another_byte_order(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).random((2, 1, 3, 4))
    for kind in (">f4", ">f8", np.longdouble):
        np.savez(tmp_path / "x.npz", images=pixels.astype(kind), labels=np.array([4, 5], ">i2"))
        found = load_images(tmp_path / "x.npz")
        assert found.labels == (4, 5)
        assert np.array_equal(found.images.numpy(), pixels.astype(kind).astype(np.float32))


@pytest.mark.parametrize("shape", [(2, 3, 5, 6), (2, 5, 6, 3), (2, 5, 6)])
def test_npz_shapes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    np.savez(tmp_path / "x.npz", images=pixels, labels=np.array([4, 5]))
    found = load_images(tmp_path / "x.npz")
    first = {3: pixels[:, None], 4: pixels}[pixels.ndim]
    first = first if shape[-1] != 3 else first.transpose(0, 3, 1, 2)
    assert np.array_equal(found.images.numpy(), first.astype(np.float32) / 255)
    assert found.labels == (4, 5)
    assert found.names == ("0", "1")
    assert len(load_images(tmp_path / "x.npz", limit=1)) == 1


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_npz_floats(tmp_path: Path, kind: type) -> None:
    pixels = np.random.default_rng(0).random((2, 1, 3, 4)).astype(kind)
    np.savez_compressed(tmp_path / "x.npz", images=pixels, labels=np.array([4, 5], np.uint8))
    found = load_images(tmp_path / "x.npz")
    assert np.array_equal(found.images.numpy(), pixels.astype(np.float32))


GOOD = np.full((2, 1, 3, 4), 0.5)
BROKEN = np.concatenate([GOOD[:1], GOOD[:1] * np.inf])


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (GOOD * 4, [0, 1], "image 0 has values from 2 to 2: expected [0,1]; divide by 255?"),
        (GOOD - 1, [0, 1], "image 0 has values from -0.5"),
        (BROKEN, [0, 1], "image 1 has values that are not finite"),
        (GOOD, [0], "labels has shape (1,) for 2 images"),
        (GOOD, [[0], [1]], "labels has shape (2, 1)"),
        (GOOD, [0.0, 1.0], "expected integers"),
        (GOOD[:0], [], "expected at least one image"),
        (GOOD[0, 0], [0, 1, 2], "images has shape (3, 4)"),
        (GOOD.astype(np.int32), [0, 1], "expected uint8 or floats"),
        (np.zeros((2, 3, 3, 3)), [0, 1], "not clear which has the channels"),
        (np.array([None, None]), [0, 1], "cannot be read"),
    ],
)
def test_npz_that_are_wrong(tmp_path: Path, images: object, labels: object, message: str) -> None:
    file = tmp_path / "x.npz"
    np.savez(file, images=np.asarray(images), labels=np.asarray(labels, None if labels else int))
    with pytest.raises(FileError) as error:
        load_images(file)
    assert message in str(error.value)
    assert "x.npz" in str(error.value)


def test_files_that_are_no_npz(tmp_path: Path) -> None:
    file = tmp_path / "x.npz"
    np.savez(file, pixels=GOOD, labels=[0, 1])
    with pytest.raises(FileError, match="has no array 'images': it has 'pixels', 'labels'"):
        load_images(file)
    whole = file.read_bytes()
    for content in (b"", b"nonsense", whole[: len(whole) // 2]):
        file.write_bytes(content)
        with pytest.raises(FileError, match=r"x\.npz cannot be read") as error:
            load_images(file)
        assert "allow_pickle" not in str(error.value)  # NumPy's advice is to unpickle such a file
    np.save(tmp_path / "y.npy", GOOD)
    with pytest.raises(FileError, match="it has none by name"):
        load_images(tmp_path / "y.npy")
    np.savez(file, images=GOOD, labels=[0, 1])
    with pytest.raises(InputError, match=r"^labels is .*\.csv, but .* contains its labels; leave"):
        load_images(file, tmp_path / "labels.csv")


def test_paths_in_label_files_are_normalised(tmp_path: Path) -> None:
    where, table = folder(tmp_path, [])
    (where / "sub").mkdir()
    for name in ("c.png", "d.png"):
        picture(where / "sub" / name)
    rows = [f"{where.absolute()}/a.png", "../pictures/b.png", "sub/./c.png", "./sub//d.png"]
    table.write_text("\n".join(["file, label", *(f'"{name}", {i}' for i, name in enumerate(rows))]))
    found = load_images(where, table)
    assert found.names == ("a.png", "b.png", "sub/c.png", "sub/d.png")
    assert found.labels == (0, 1, 2, 3)
    assert found.origins == tuple(f"{table}, line {line}" for line in (2, 3, 4, 5))


def test_what_is_no_image_file_is_passed_over(tmp_path: Path) -> None:
    where, table = folder(tmp_path, ["file,label", "a.png,1", "b.png,1"])
    (where / "folder.png").mkdir()
    (where / ".git").mkdir()
    picture(where / ".git" / "x.png")
    picture(where / ".hidden.png")
    os.mkfifo(where / "pipe.png")
    assert load_images(where, table).names == ("a.png", "b.png")
    for name, message in {
        "folder.png": "is not a file",
        "pipe.png": "is not a file",
        ".git/x.png": "is hidden",
    }.items():
        table.write_text(f"file,label\n{name},1\n")
        with pytest.raises(FileError, match=f"line 2: the image '{name}' {message}"):
            load_images(where, table)


def test_channels_are_those_of_all_images_not_of_the_first(tmp_path: Path) -> None:
    modes = {"a.png": "L", "b.png": "RGB"}
    where, table = folder(tmp_path, ["file,label", "a.png,1", "b.png,1"], modes)
    assert load_images(where, table, limit=1).images.shape == (1, 3, 4, 5)


def deep_png(colour: int, channels: int) -> bytes:
    """A PNG of 5x4 with 16 bits a channel, which Pillow cannot write."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    rows = b"".join(b"\0" + b"\x12\x34" * 5 * channels for _ in range(4))
    header = struct.pack(">IIBBBBB", 5, 4, 16, colour, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


@pytest.mark.parametrize(("colour", "channels"), [(0, 1), (2, 3), (4, 2), (6, 4)])
def test_sixteen_bits_are_refused(tmp_path: Path, colour: int, channels: int) -> None:
    where, table = folder(tmp_path, ["file,label", "a.png,1", "b.png,1"])
    (where / "b.png").write_bytes(deep_png(colour, channels))
    with Image.open(where / "b.png") as whole:
        whole.load()  # it is a good PNG
    with pytest.raises(FileError, match=r"b\.png has pixels of kind .*8 bits per channel"):
        load_images(where, table)


def test_large_pictures_do_not_warn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where, table = folder(tmp_path, ["file,label", "a.png,1", "b.png,1"])
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 15)
    with pytest.warns(Image.DecompressionBombWarning):
        Image.open(where / "a.png").close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(load_images(where, table)) == 2
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 5)
    with pytest.raises(FileError, match=r"a\.png has more pixels than can be read: expected at mo"):
        load_images(where, table)


def test_a_picture_too_large_is_refused_before_it_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, table = folder(tmp_path, ["file,label", "a.png,1", "b.png,1"])
    Image.new("1", (4097, 4096)).save(where / "a.png")
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda self: pytest.fail("decoded"))
    with pytest.raises(
        FileError,
        match=r"a\.png has 4097x4096 pixels: expected at most 16,777,216 in all; resize it first",
    ):
        load_images(where, table)


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_pictures_are_turned_as_they_say(tmp_path: Path, mode: str) -> None:
    where, table = folder(tmp_path, ["file,label", "a.png,1"], {"a.png": mode})
    row = Image.new(mode, (3, 1))
    row.putdata([0, 100, 200] if mode == "L" else [(v, v, v) for v in (0, 100, 200)])
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright: the left end is the top
    row.save(where / "a.png", exif=exif)
    image = load_images(where, table).images[0]
    assert image.shape == (1 if mode == "L" else 3, 3, 1)
    assert image[0, :, 0].mul(255).round().tolist() == [0, 100, 200]
    start = read_image(where / "a.png", image.shape)
    assert torch.equal(start[0], image)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
@pytest.mark.parametrize("alpha", [0, 254])
def test_a_picture_that_is_transparent_is_refused(tmp_path: Path, mode: str, alpha: int) -> None:
    where, table = folder(tmp_path, ["file,label", "a.png,1"], {"a.png": "RGB"})
    picture = Image.new("RGBA", (5, 4), (51, 51, 51, 255))
    if mode == "P":
        palette = Image.new("P", (5, 4), 1)
        palette.putpalette([51] * 6)
        palette.save(where / "a.png", transparency=bytes([255, alpha]))
    else:
        picture.putpixel((2, 2), (51, 51, 51, alpha))
        picture.convert(mode).save(where / "a.png")
    with pytest.raises(FileError, match=r"a\.png is transparent in places: expected an image that"):
        load_images(where, table)
    with pytest.raises(FileError, match="is transparent in places"):
        read_image(where / "a.png", (3, 4, 5))


def test_a_single_picture_is_not_taken_for_a_set(tmp_path: Path) -> None:
    where, table = folder(tmp_path, ["file,label", "a.png,1", "b.png,1"])
    for labels in (None, table):
        with pytest.raises(FileError, match=r"is a single image: expected .*; put it into"):
            load_images(where / "a.png", labels)


def test_a_nul_in_the_label_file(tmp_path: Path) -> None:
    where, table = folder(tmp_path, ["file,label", "a.png,1", "b\0.png,1"])
    with pytest.raises(FileError, match=r"line 3: the image 'b\\x00.png' is a name that no file"):
        load_images(where, table)


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_advice_to_load_pickles_is_not_passed_on(tmp_path: Path) -> None:
    for name, content in (("a.npz", b"no archive"), ("b.npz", None)):
        if content is None:
            np.savez(tmp_path / name, images=np.array([{}]), labels=[0])
        else:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(FileError, match="it is not plain data, and pickles are not loaded"):
            load_images(tmp_path / name)


def test_npz_that_are_broken(tmp_path: Path) -> None:
    file = tmp_path / "x.npz"

    def refused() -> str:
        with pytest.raises(FileError, match=r"x\.npz cannot be read") as error:
            load_images(file)
        return str(error.value)

    labels, images = npy(np.array([0, 1])), npy(GOOD)
    shape = b"(90000000, 90000, 3, 4)"
    at = images.index(b"(2, 1, 3, 4), }")
    rest = images[at + 15 : 128]
    huge = images[:at] + shape + b", }" + rest[len(shape) - 12 :] + images[128:]
    assert len(huge) == len(images)
    for content in (b"no array", huge):
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("images.npy", content)
            archive.writestr("labels.npy", labels)
        refused()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("images", b"bytes")
        archive.writestr("labels", b"bytes")
    assert "not arrays in the .npy format" in refused()
    np.savez(file, images=GOOD, labels=[0, 1])
    whole = file.read_bytes()
    for place, value in ((6, 1), (8, 99)):  # encrypted; a compression that nobody knows
        changed = bytearray(whole)
        for mark, first in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
            at = changed.find(mark)
            while at >= 0:
                changed[at + place + first] |= value
                at = changed.find(mark, at + 1)
        file.write_bytes(changed)
        refused()


def test_npz_of_single_pixels(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", images=np.zeros((2, 1, 1, 1)), labels=[0, 1])
    found = load_images(tmp_path / "x.npz")
    assert found.images.shape == (2, 1, 1, 1)
    assert found.origins == (str(tmp_path / "x.npz"),) * 2
