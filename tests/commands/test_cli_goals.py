"""`tollbox attack` with flagged classes and a mask: files, the table that is shown, mistakes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tollbox.cli.app import main


@pytest.fixture
def command(attack_levels):
    """Runs `tollbox attack` with flagged classes, of which two are labels, a mask and a start."""
    with np.load("set.npz") as found:
        images = found["images"]
    np.savez("set.npz", images=images, labels=[4, 3, 7])
    Path("set.txt").write_text("3-5  # three levels of grey\n")
    mask = np.zeros((6, 7), np.uint8)
    mask[:, :6] = 255
    Image.fromarray(mask).save("mask.png")
    Image.fromarray(np.full((6, 7, 3), 230, np.uint8)).save("bright.png")
    usual = {"budget": "900", "flagged": "set.txt", "mask": "mask.png", "start": "bright.png"}
    return lambda **options: attack_levels(**{**usual, **options})


def rows() -> list[dict[str, str]]:
    with open("out/results.csv", newline="") as file:
        return list(csv.DictReader(file))


def level(images: np.ndarray) -> list[int]:
    return (torch.from_numpy(images).mean((1, 2, 3)) * 10).long().tolist()


@pytest.mark.parametrize("target", [None, "8"])
def test_flagged_classes_and_a_mask(command, target: str | None) -> None:
    code, out, err = command(target=target)
    assert code == 0, err
    assert "flagged classes 3, 4, 5" in out
    assert "within a mask" in out
    found = rows()
    assert [row["stop"] == "already_misclassified" for row in found] == [False, False, True]
    told = json.loads(Path("out/ledger.json").read_text())
    assert (told["settings"]["flagged"], told["settings"]["mask"]) == ("set.txt", "mask.png")
    for row, account in zip(found, told["images"], strict=True):
        counts = [(int(k), n) for tally in account["counts"].values() for k, n in tally.items()]
        flagged = sum(n for label, n in counts if label in (3, 4, 5))
        assert int(row["flagged"]) == flagged
        assert account["flagged_labels"] == [3, 4, 5]
        assert float(row["cost"]) == 5 * flagged + sum(n for _, n in counts) - flagged
    with np.load("out/adversarial.npz") as stored, np.load("set.npz") as given:
        points, sources = stored["images"], given["images"].transpose(0, 3, 1, 2)
    assert len(points) == 2
    for point, source in zip(points, sources, strict=False):
        assert (point[:, :, 6] == source[:, :, 6].astype(np.float32) / 255).all()
    reached = level(points)
    assert reached == [8, 8] if target else not {3, 4, 5} & {*reached}
    for row, point in zip(found, points, strict=False):
        picture = np.array(Image.open(f"out/{row['png']}")).transpose(2, 0, 1) / 255
        still = level(picture[None].astype(np.float32))[0]
        kept = still == 8 if target else still not in (3, 4, 5)
        assert row["png_adversarial"] == str(kept).lower(), (row, level(point[None]))


def test_an_attack_that_is_ended_is_resumed(command, capsys) -> None:
    assert command()[0] == 0
    whole = rows()
    Path("out").rename("whole")
    command(**{"time-limit": "0.000001s"})
    assert rows() != whole
    with pytest.raises(SystemExit) as end:
        main(["resume", "out"])
    assert (end.value.code or 0) == 0, capsys.readouterr().err
    assert rows() == whole
    assert "flagged classes 3, 4, 5, within a mask" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"flagged": "none.txt"}, "--flagged none.txt does not exist"),
        ({"flagged": "mask.png"}, "--flagged mask.png is not UTF-8 text"),
        ({"flagged": "ten_levels.py"}, "ten_levels.py, line 2: the class is 'def labels(images):'"),
        ({"target": "4"}, "--target is 4, which is flagged"),
        ({"mask": "none.png"}, "--mask none.png does not exist"),
        ({"mask": "set.txt"}, "the image set.txt cannot be read"),
        ({"mask": "wide.png"}, "--mask wide.png is 9x6, but the images are 7x6"),
        ({"mask": "black.png"}, "--mask black.png is black everywhere, so that nothing may change"),
        ({"mask": "masks"}, "--mask is masks, which has no mask for the image 0"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(command, options: dict[str, str], told: str) -> None:
    Image.fromarray(np.full((6, 9), 255, np.uint8)).save("wide.png")
    Image.fromarray(np.zeros((6, 7), np.uint8)).save("black.png")
    Path("masks").mkdir()
    code, out, err = command(**options)
    assert (code, out) == (2, ""), err
    assert err.count("\n") == 1, err
    assert told in err
    assert not Path("out").exists()
