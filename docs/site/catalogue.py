"""The reference of names: the public ones, the presets, and the parts that study files can name."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from typing import Any

from tollbox.attacks import PRESETS, WITH_SURROGATE
from tollbox.parts.registry import PARTS


def directive(name: str) -> str:
    """What autodoc is to write of a public name."""
    value = found(name)
    kind = "autodata"
    options = [":no-value:"]
    if inspect.ismodule(value):
        kind, options = "automodule", [":no-members:"]
    elif inspect.isclass(value):
        error = issubclass(value, BaseException)
        kind, options = "autoexception" if error else "autoclass", []
    elif callable(value):
        kind, options = "autofunction", []
    lines = [f".. {kind}:: {name}", *(f"   {option}" for option in options)]
    return "\n".join(["```{eval-rst}", *lines, "```"])


def found(name: str) -> Any:
    """What a dotted name means."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        place, _, last = name.rpartition(".")
        return getattr(found(place), last)


def presets() -> str:
    """A table of the presets for each family."""
    families: dict[str, list[str]] = {}
    for preset in (*PRESETS.values(), *WITH_SURROGATE.values()):
        row = _row(f"`{preset.name}`", preset.words, preset.parts, preset.source)
        families.setdefault(preset.family, []).append(row)
    head = [_row("preset", "method", "parts", "settings from"), "|---|---|---|---|"]
    return "\n\n".join(
        "\n".join([f"### {family}", "", *head, *rows]) for family, rows in families.items()
    )


def parts() -> str:
    """A table of the parts of each kind, with their fields and defaults."""
    return "\n\n".join(
        "\n".join([f"### {kind.__name__}", "", _summary(kind), "", *_classes(classes)])
        for kind, classes in PARTS.items()
    )


def attacks() -> str:
    """A table of the classes of the presets, with their fields and defaults."""
    every = (*PRESETS.values(), *WITH_SURROGATE.values())
    return "\n".join(_classes(dict.fromkeys(type(preset.attack) for preset in every)))


def _classes(classes: Any) -> list[str]:
    rows = [_row(f"`{each.__name__}`", _fields(each), _summary(each)) for each in classes]
    return [_row("class", "fields and defaults", "what it is"), "|---|---|---|", *rows]


def _fields(part: type) -> str:
    return ", ".join(
        f"`{field.name}={_default(field)}`" for field in dataclasses.fields(part) if field.init
    )


def _default(field: dataclasses.Field[Any]) -> str:
    value = field.default
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    if value is dataclasses.MISSING:
        return "…"
    return f"{type(value).__name__}()" if dataclasses.is_dataclass(value) else repr(value)


def _summary(part: Any) -> str:
    """The first paragraph of its docstring, on one line."""
    return " ".join((inspect.getdoc(part) or "").split("\n\n")[0].split())


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
