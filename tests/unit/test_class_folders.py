"""Folders of classes, pictures of any size, names of classes; every refusal says what and where."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tollbox.core.goal import class_words, numbered
from tollbox.data.classes import labels_of
from tollbox.data.goals import load_starts
from tollbox.data.images import load_images
from tollbox.data.resizing import Resizing
from tollbox.errors import FileError, InputError


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    values = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values)


def tree(root: Path, *names: str, size: tuple[int, int] = (5, 4)) -> Path:
    """Pictures that differ, at these paths below a folder."""
    for number, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        noise(*size, number).save(root / name)
    return root


def test_folders_are_classes_in_the_order_of_their_names(tmp_path: Path) -> None:
    root = tree(tmp_path / "set", "dog/b.png", "dog/deep/a.png", "cat/x.JPG", "Zebra/z.png")
    (root / "cat" / "notes.txt").write_text("no picture")
    (root / ".cache").mkdir()
    found = load_images(root)
    assert found.names == ("Zebra/z.png", "cat/x.JPG", "dog/b.png", "dog/deep/a.png")
    assert found.labels == (0, 1, 2, 2)
    assert found.class_names == ("Zebra", "cat", "dog")
    assert found.origins[1] == str(root / "cat/x.JPG")


def test_the_first_so_many_are_of_all_classes(tmp_path: Path) -> None:
    root = tree(tmp_path / "set", *(f"{c}/{n}.png" for c in "ab" for n in range(3)), "c/0.png")
    assert load_images(root, limit=4).names == ("a/0.png", "b/0.png", "c/0.png", "a/1.png")
    assert load_images(root).labels == (0, 1, 2, 0, 1, 0, 1)


NAMES = ("tench, Tinca tinca", "great white shark", "crane", "crane", "Box Turtle, box_tortoise")


def test_folders_go_by_the_names_of_the_classes(tmp_path: Path) -> None:
    root = tree(tmp_path / "set", "great_white_shark/a.png", "TENCH/b.png", "box tortoise/c.png")
    found = load_images(root, names=NAMES)
    assert dict(zip(found.names, found.labels, strict=True)) == {
        "great_white_shark/a.png": 1,
        "TENCH/b.png": 0,
        "box tortoise/c.png": 4,
    }
    assert found.class_names == NAMES
    assert labels_of(["Tinca tinca", "a"], ("a, b", "tinca tinca")) == [1, 0]
    assert labels_of(["b"], ("a, b", "b")) == [1]  # the whole name comes first
    for folder, told in {
        "crane": "the class 'crane' matches both 2 and 3",
        "great_wite_shark": "none of the 5 class names (the closest is 'great white shark')",
    }.items():
        other = tree(tmp_path / folder, f"{folder}/a.png")
        with pytest.raises(InputError) as error:
            load_images(other, names=NAMES)
        assert told in str(error.value)


def test_numbers_are_classes_only_in_their_order(tmp_path: Path) -> None:
    root = tree(tmp_path / "set", *(f"{n}/a.png" for n in range(10)))
    assert load_images(root).labels == tuple(range(10))
    tree(root, "10/a.png")
    with pytest.raises(InputError, match=r"^the folder '10' .* would be class 2, .* names"):
        load_images(root)
    named = load_images(root, names=tuple(map(str, range(11))))
    assert dict(zip(named.names, named.labels, strict=True))["10/a.png"] == 10
    assert load_images(tree(tmp_path / "more", "00/a.png", "01/a.png")).labels == (0, 1)
    with pytest.raises(InputError, match=r"'1' in .* would be class 0"):
        load_images(tree(tmp_path / "few", "1/a.png", "2/a.png"))


def test_a_class_may_be_a_link(tmp_path: Path) -> None:
    root = tree(tmp_path / "set", "a/1.png")
    (root / "b").symlink_to(tree(tmp_path / "elsewhere", "2.png"), target_is_directory=True)
    (root / "a" / "loop").symlink_to(root, target_is_directory=True)
    found = load_images(root)
    assert (found.names, found.labels) == (("a/1.png", "b/2.png"), (0, 1))


def test_folders_that_are_no_classes(tmp_path: Path) -> None:
    root = tree(tmp_path / "set", "a/1.png", "b/2.png")
    (root / "empty").mkdir()
    with pytest.raises(FileError, match=r"the folder .*empty has no images: .*; move it else"):
        load_images(root)
    (root / "empty").rmdir()
    tree(root, "3.png")
    with pytest.raises(
        InputError, match=r"no labels are given, but the image 3\.png is not in the folder"
    ):
        load_images(root)
    (tmp_path / "nothing").mkdir()
    with pytest.raises(FileError, match="nothing has no images"):
        load_images(tmp_path / "nothing")


def test_sizes_that_differ_need_a_resize(tmp_path: Path) -> None:
    root = tree(tmp_path / "set", "a/1.png")
    noise(9, 7).save(root / "a" / "2.png")
    with pytest.raises(InputError, match=r"2\.png is 9x7, but a/1\.png is 5x4: .*resize and crop"):
        load_images(root)
    assert load_images(root, resizing=Resizing(4, 4)).images.shape == (2, 3, 4, 4)
    assert load_images(root, resizing=Resizing(crop=(4, 5))).images.shape == (2, 3, 4, 5)
    assert load_images(root, resizing=Resizing((3, 8))).images.shape == (2, 3, 3, 8)


@pytest.mark.parametrize(
    ("size", "resizing", "scaled", "box"),
    [
        ((100, 61), Resizing(32, 24, "bicubic"), (52, 32), (14, 4)),
        ((61, 100), Resizing(32, 24), (32, 52), (4, 14)),
        ((50, 50), Resizing(33, 24, "lanczos"), (33, 33), (4, 4)),  # 4.5 is rounded to even
        ((31, 50), Resizing(None, (24, 30)), None, (0, 13)),
        ((31, 50), Resizing((24, 24), None, "nearest"), (24, 24), None),
    ],
)
def test_resizing_is_pillows(
    size: tuple[int, int],
    resizing: Resizing,
    scaled: tuple[int, int] | None,
    box: tuple[int, int] | None,
) -> None:
    picture = noise(*size)
    wanted = picture
    if scaled is not None:
        wanted = wanted.resize(scaled, Image.Resampling[resizing.interpolation.upper()])
    if box is not None:
        height, width = resizing.crop if isinstance(resizing.crop, tuple) else (24, 24)
        wanted = wanted.crop((*box, box[0] + width, box[1] + height))
    assert np.array_equal(np.asarray(resizing.applied(picture, "x")), np.asarray(wanted))


def test_a_picture_that_becomes_smaller_is_smoothed() -> None:
    checkered = Image.fromarray((np.indices((256, 256)).sum(0) % 2 * 255).astype(np.uint8))
    small = np.asarray(Resizing(32).applied(checkered, "x")).astype(int)
    assert abs(small - 127).max() <= 3


def test_resizing_that_cannot_be(tmp_path: Path) -> None:
    for wrong, told in (
        (lambda: Resizing(224, 256), "crop is 256, but resize is 224: expected a crop that is not"),
        (lambda: Resizing((48, 192), 64), "crop is 64, but resize is 192x48"),
        (lambda: Resizing(0), "resize is 0: expected a whole number from 1 to 4096"),
        (lambda: Resizing(crop=(3, 4, 5)), "crop is (3, 4, 5)"),  # type: ignore[arg-type]
        (lambda: Resizing(9, None, "cubic"), "interpolation is 'cubic': expected bilinear, bicu"),
        (lambda: Resizing.of(None, 8, "bicubic"), "interpolation is 'bicubic', but resize is not"),
    ):
        with pytest.raises(InputError) as error:
            wrong()
        assert told in str(error.value)
    assert Resizing.of(None, None, None) is None
    root = tree(tmp_path / "set", "a/1.png")
    with pytest.raises(FileError, match=r"^crop is 5, but the image .*1\.png is 5x4: .* resize"):
        load_images(root, resizing=Resizing(crop=5))
    Image.new("L", (3000, 1)).save(root / "a" / "1.png")
    with pytest.raises(FileError, match=r"1\.png would be 96000x32 when resized"):
        load_images(root, resizing=Resizing(32, 32))
    np.savez(tmp_path / "x.npz", images=np.zeros((1, 3, 4, 5), np.uint8), labels=[0])
    with pytest.raises(InputError, match=r"^resize is given, but .*x\.npz has arrays"):
        load_images(tmp_path / "x.npz", resizing=Resizing(4))


def test_a_photograph_is_turned_before_it_is_resized(tmp_path: Path) -> None:
    root = tree(tmp_path / "set", "a/1.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    upright = noise(40, 80)
    upright.transpose(Image.Transpose.ROTATE_90).save(root / "a" / "1.png", exif=exif)
    [image] = load_images(root, resizing=Resizing(20, (40, 20))).images
    wanted = np.asarray(upright.resize((20, 40), Image.Resampling.BILINEAR))
    assert np.array_equal(image.mul(255).round().byte().permute(1, 2, 0).numpy(), wanted)


def test_large_photographs_are_read_if_they_are_resized(tmp_path: Path) -> None:
    root = tree(tmp_path / "set", "a/1.png")
    Image.new("L", (5000, 4000), 51).save(root / "a" / "1.png")
    with pytest.raises(FileError, match=r"5000x4000 pixels: .*; resize it first, or give resize"):
        load_images(root)
    assert load_images(root, resizing=Resizing(8, 8)).images.unique().tolist() == [
        pytest.approx(0.2)
    ]


@pytest.mark.parametrize("suffix", ["png", "webp"])
def test_an_animated_picture_is_refused(tmp_path: Path, suffix: str) -> None:
    root = tree(tmp_path / "set", "a/1.png")
    noise(5, 4, 1).save(
        root / "a" / f"2.{suffix}", save_all=True, append_images=[noise(5, 4, 2)], duration=50
    )
    with pytest.raises(FileError, match=rf"2\.{suffix} is animated, with 2 frames: expected a si"):
        load_images(root)


def test_cmyk_and_a_phones_pictures_are_read(tmp_path: Path) -> None:
    root = tree(tmp_path / "set", "a/1.png")
    grey = Image.new("RGB", (5, 4), (51, 51, 51))
    grey.convert("CMYK").save(root / "a" / "2.jpg", quality=100)
    grey.save(root / "a" / "3.jpg", "MPO", save_all=True, append_images=[noise(5, 4)], quality=100)
    found = load_images(root)
    assert found.names == ("a/1.png", "a/2.jpg", "a/3.jpg")
    assert torch.allclose(found.images[1:], torch.tensor(0.2), atol=0.01)


def test_pictures_that_are_none(tmp_path: Path) -> None:
    root = tree(tmp_path / "set", "a/1.png", size=(64, 64))
    whole = io.BytesIO()
    noise(64, 64).save(whole, "JPEG")
    for content in (b"", b"GIF89a nonsense", whole.getvalue()[: len(whole.getvalue()) // 2]):
        (root / "a" / "2.jpg").write_bytes(content)
        with pytest.raises(FileError, match=r"2\.jpg cannot be read: "):
            load_images(root, resizing=Resizing(32))


def test_labels_are_shown_with_names() -> None:
    names = ("cat", "hot dog")
    assert class_words(1, names) == "hot dog"
    assert class_words(9, names) == class_words(9, ()) == "class 9"
    assert (numbered(0, ("cat",)), numbered(1, ("cat",))) == ("0 (cat)", "1")


def test_a_start_is_resized_unless_it_has_the_size_already(tmp_path: Path) -> None:
    root = tree(tmp_path / "set", "a/1.png", "a/2.png", size=(40, 30))
    resizing = Resizing(16, 8)
    images = load_images(root, resizing=resizing)
    noise(33, 21).save(tmp_path / "large.png")
    noise(8, 8).save(tmp_path / "small.png")
    large = load_starts(tmp_path / "large.png", images, None)[0]
    wanted = np.asarray(resizing.applied(noise(33, 21), "x"))
    assert large is not None
    assert np.array_equal(large.mul(255).round().byte().permute(1, 2, 0).numpy(), wanted)
    small = load_starts(tmp_path / "small.png", images, None)[1]
    assert small is not None
    assert np.array_equal(
        small.mul(255).round().byte().permute(1, 2, 0).numpy(), np.asarray(noise(8, 8))
    )
