"""Studies on the real networks, written into a folder: the study's file, and beside it a module
that names the network, the images, or a whole model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nets
from common import with_delta

import tollbox as tb

MODULE = "benchmarked"
CODE = '''"""What a benchmark's study is about."""

import sys

sys.path.insert(0, {here!r})
import common, nets


def images():
    """Images and labels."""
    return {images}


def model():
    """A network, or a model."""
    return {model}


def surrogate():
    """A network that guides attacks."""
    return {surrogate}
'''


def write(
    folder: Path,
    name: str,
    *,
    images: str,
    model: str,
    attacks: Sequence[str],
    delta: float | None,
    settings: Mapping[str, Any],
    model_settings: Mapping[str, Any],
    surrogate: str | None = None,
) -> Path:
    """The study's file. `images` and `model` are expressions, of `common` and `nets`, `surrogate`
    the name of a network; the settings are those of the study and of its one model, but None."""
    folder.mkdir(parents=True, exist_ok=True)
    here = str(Path(__file__).resolve().parent)
    guide = f"nets.network({surrogate!r})"
    code = CODE.format(here=here, images=images, model=model, surrogate=guide)
    (folder / f"{MODULE}.py").write_text(code)
    lines = [f"name = {json.dumps(name)}", *_lines(settings)]
    lines += ["", "[images]", f'path = "{MODULE}:images"']
    lines += ["", "[[models]]", f'source = "{MODULE}:model"', *_lines(model_settings)]
    for attack in attacks:
        lines += ["", "[[attacks]]", f"preset = {json.dumps(attack)}"]
        if attack in tb.attacks.WITH_SURROGATE:
            mean, std = nets.NORMALISATION[surrogate or ""]
            table = {"source": f"{MODULE}:surrogate", "mean": mean, "std": std}
            lines += [f"surrogate.{line}" for line in _lines(table)]
            continue
        preset = tb.preset(attack)
        if with_delta(preset, delta) != preset:
            lines.append(f"estimate.delta = {delta}")
    file = folder / f"{name}.toml"
    file.write_text("\n".join(lines) + "\n")
    return file


def _lines(settings: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {json.dumps(value)}" for key, value in settings.items() if value is not None]
