"""Names of classes from a text file: one class a line, in the order of the labels.

After a tab a line may have a prompt, for models that are asked with texts (CLIP); otherwise that is
`PROMPT` with the name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from ..core.arguments import shown
from ..errors import FileError, InputError
from .tables import shortened

MOST_CHARACTERS = 200
"""Of a name."""
PROMPT = "a photo of a {}"
EXPECTED = "a text file with a class on each line, in the order of the labels"


@dataclass(frozen=True)
class ClassNames:
    """The name of each class, and what a model of images and texts is asked with."""

    names: tuple[str, ...]
    prompts: tuple[str, ...]

    @classmethod
    def of(cls, lines: Sequence[str]) -> ClassNames:
        """From lines, each a name, or a name, a tab and a prompt."""
        pairs = [line.strip().partition("\t") for line in lines]
        names = tuple(name.strip() for name, _, _ in pairs)
        prompts = tuple(
            prompt.strip() or PROMPT.format(name)
            for name, (_, _, prompt) in zip(names, pairs, strict=True)
        )
        return cls(names, prompts)


def class_names(given: str | PathLike[str] | Sequence[str]) -> ClassNames:
    """The names in a file, or those of a list."""
    if isinstance(given, str | PathLike):
        return _read(Path(given))
    if (
        not isinstance(given, Sequence)
        or not given
        or not all(isinstance(name, str) and name.strip() for name in given)
    ):
        raise InputError(f"is {shown(given)}", expected=f"{EXPECTED}, or a list", input="names")
    return ClassNames.of(given)


def _read(file: Path) -> ClassNames:
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise FileError(
            f"{file} cannot be read: {error.strerror}", expected=EXPECTED, input="names"
        ) from None
    except ValueError:  # what is not UTF-8, or NUL in the name
        raise FileError(f"{file} is not UTF-8 text", expected=EXPECTED, input="names") from None
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise FileError(f"{file} is empty", expected=EXPECTED, input="names")
    for number, line in enumerate(lines, 1):
        name = line.partition("\t")[0].strip()
        if not name or len(name) > MOST_CHARACTERS or not name.isprintable():
            raise FileError(
                f"has {shortened(name)!r} for class {number - 1}"
                if name
                else f"has no name for class {number - 1}",
                expected=f"a name of at most {MOST_CHARACTERS} characters on each line",
                input="names",
                where=f"{file}, line {number}",
            )
    return ClassNames.of(lines)
