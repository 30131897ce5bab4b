"""What several tests of commands attack: three grey images, and a model of ten levels of grey."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tollbox.cli.app import main

MODULE = """
def labels(images):
    return (images.mean((1, 2, 3)) * 10).long().clamp(0, 9)


from tollbox.testing import NearDuplicates

detector = NearDuplicates(0.5, window=20, every=4)
number = 3
"""


@pytest.fixture
def attack_levels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs `tollbox attack` on three images of the classes 4, 4 and 7, with options (None: without
    one) over the usual ones, and words after them; gives code, out, err."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("ten_levels.py").write_text(MODULE)
    noise = np.random.default_rng(0).integers(0, 10, (3, 6, 7, 3))
    levels = np.array([110, 112, 185])[:, None, None, None]
    np.savez("set.npz", images=(noise + levels).astype(np.uint8), labels=[4, 4, 7])

    def run(*words: str, **options: str | None) -> tuple[int, str, str]:
        usual = {
            **{"model": "ten_levels:labels", "images": "set.npz", "out": "out", "attack": "hsja"},
            **{"price": "5", "budget": "600", "device": "cpu"},
        }
        both = {**usual, **options}
        told = [w for k, v in both.items() if v is not None for w in (f"--{k}", v)]
        with pytest.raises(SystemExit) as end:
            main(["attack", *told, *words])
        out, err = capsys.readouterr()
        return int(end.value.code or 0), " ".join(out.split()), err

    return run
