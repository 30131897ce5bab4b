"""The examples of docs/neighbours.md run, one after another."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).parents[2] / "docs" / "neighbours.md"


def test_the_examples_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 4
    scope: dict[str, Any] = {}
    for block in blocks:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what Foolbox and ART import
            exec(compile(block, DOCUMENT.name, "exec"), scope)
    assert scope["attack"] == scope["tb"].preset("a-hsja")
    assert scope["success"][-1].all()
    answers = scope["classifier"].predict(scope["adversarial"]).argmax(1)
    assert answers.tolist() == scope["targets"].tolist()
