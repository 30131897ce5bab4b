"""`tollbox status` says why cells failed: reason by reason, with the first cell of each."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_studies import StudyFolder, reseal
from test_cli import typed

import tollbox as tb
from tollbox.studies.status import StudyStatus
from tollbox.studies.store.store import Store, shard_path

AGAIN = "Run failed cells again with `tollbox resume out --failed`."


def fail(reasons: Mapping[int, str]) -> None:
    """Have cells of the study in `out` failed, each for a reason."""
    path = shard_path(Path("out"), 0)
    with Store(path, write=True) as store:
        for cell, reason in reasons.items():
            values = ("model_error", reason, cell)
            changed = store._connection.execute(
                "UPDATE results SET stop = ?, reason = ? WHERE cell = ?", values
            )
            assert changed.rowcount == 1
        reseal(store._connection)


def lines_of_failures(capsys: pytest.CaptureFixture[str]) -> list[str]:
    code, out, err = typed(capsys, "status", "out")
    assert (code, err) == (0, "")
    lines = [line for line in out.splitlines() if not set("─│┃") & set(line)]
    here = [n for n, line in enumerate(lines) if "failed" in line or "more reasons" in line]
    assert here == list(range(here[0], here[0] + len(here))) if here else True
    return [lines[n] for n in here]


def failures_in_json(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(typed(capsys, "status", "out", "--json")[1])[
        "failures"
    ]
    return found


def test_reasons_are_told_with_the_most_frequent_one_first(
    capsys: pytest.CaptureFixture[str], study_folder: StudyFolder
) -> None:
    tb.run_study(study_folder.study(), "out")
    assert lines_of_failures(capsys) == []
    fail({1: "the disk\n  is full.", 5: "no memory", 6: "no memory", 11: "no memory"})
    assert lines_of_failures(capsys) == [
        "3 cells failed; the first, surfree, c* = 10, image 2: no memory.",
        "1 cell failed, surfree, c* = 1, image 1: the disk is full.",
        AGAIN,
    ]
    assert failures_in_json(capsys) == [
        {
            "reason": "no memory",
            "cells": 3,
            **{"model": "net", "attack": "surfree", "price": 10, "image": "2", "seed": 0},
        },
        {
            "reason": "the disk\n  is full.",
            "cells": 1,
            **{"model": "net", "attack": "surfree", "price": 1, "image": "1", "seed": 0},
        },
    ]


def test_of_many_reasons_five_are_told(
    capsys: pytest.CaptureFixture[str], study_folder: StudyFolder
) -> None:
    tb.run_study(study_folder.study(), "out")
    fail({cell: f"reason {cell}" for cell in range(5)})
    assert len(lines_of_failures(capsys)) == 6
    fail({10: "reason 3", **{cell: f"reason {cell}" for cell in range(5, 8)}})
    lines = lines_of_failures(capsys)
    assert lines[0].endswith("image 0: reason 3.")
    assert [line[-9:-1] for line in lines[1:5]] == [f"reason {n}" for n in (0, 1, 2, 4)]
    assert lines[5:] == ["3 more reasons concern 3 cells.", AGAIN]
    assert len(failures_in_json(capsys)) == 8


def test_the_image_is_the_one_that_a_model_has(study_folder: StudyFolder) -> None:
    """With two models that get other images right, and two seeds: as the grid has it."""
    with np.load("images.npz") as arrays:
        images, labels = arrays["images"], arrays["labels"]
    labels[1] = (labels[1] + 1) % 5  # right for nobody but the second model
    np.savez("images.npz", images=images, labels=labels)
    code = study_folder.code.read_text()
    study_folder.code.write_text(
        f"{code}\n\ndef other(images):\n"
        "    found = labels(images)\n"
        f"    known = torch.tensor({(images / np.float32(255)).tolist()})\n"
        f"    same = (images[:, None] - known).abs().amax((2, 3, 4)) < 1e-3\n"
        f"    found[same[:, 1]] = {labels[1]}\n"
        "    found[same[:, 0]] = (found[same[:, 0]] + 1) % 5\n"
        "    return found\n"
    )
    text = study_folder.file.read_text().replace("[images]\n", "[images]\ncorrect_only = true\n")
    more = f'[[models]]\nname = "other"\nsource = "{study_folder.module}:other"\n\n[[attacks]]'
    study_folder.file.write_text(f"seeds = [3, 4]\n{text.replace('[[attacks]]', more, 1)}")
    tb.run_study(study_folder.study(), "out")
    with tb.studies.StudyResults("out") as results:
        cells = range(len(results.grid))
        places = {f"{cell}": results.grid.place(cell) for cell in cells}
        names = [name for _, _, name in results.images]
        assert len({place.image for place in places.values()}) == 3
    fail({cell: f"{cell}" for cell in cells})
    with StudyStatus("out") as status:
        found = status.failures()
    assert len(found) == len(places)
    for each in found:
        place = places[each.reason]
        assert (each.series, each.seed) == (place.series.number, place.seed)
        assert each.image == names[place.image]
