"""How a label is shown: by its number, and by the name of its class where that is known."""

from __future__ import annotations

from collections.abc import Sequence


def class_name(label: int, names: Sequence[str]) -> str:
    """What a class is called; empty if that is not known."""
    return names[label] if 0 <= label < len(names) else ""


def numbered(label: int, names: Sequence[str], before: str = "") -> str:
    """The number of a class, with its name behind it if that is known: `5 (sandal)`."""
    name = class_name(label, names)
    return f"{before}{label} ({name})" if name else f"{before}{label}"


def class_words(label: int, names: Sequence[str]) -> str:
    """A class as a reader wants it: by its name, else by its number."""
    return class_name(label, names) or f"class {label}"
