"""A preset with some fields of its parts changed, by name.

    search.tau = 1e-3                   a field of a part
    estimate.subspace.factor = 8        a field of a part of a part
    search.part = "OptimalSearch"       another part, with its own defaults
    queries = 50                        a field of the attack
    inner.queries = 50                  a field of an attack inside another

1. A value has the type of its field: a float field takes whole numbers, an int field no floats.
2. `part` starts from the defaults of the class that it names, whatever the preset has there. The
   other keys of the table change its fields after that.
3. A value that depends on the size of the image (core/by_side.py) is replaced for all sizes. If it
   is a part, and a key changes a field of it, the part for large images is changed.
4. A value that a part refuses (in its `__post_init__`) is reported with its key.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ..core.by_side import BySide
from ..core.problem import Attack
from ..data.tables import shortened
from ..errors import UnknownNameError
from ..parts.registry import PARTS
from .toml import Item

PART = "part"
"""Key that replaces a part."""
READERS: Mapping[type, Callable[[Item], Any]] = {
    bool: Item.flag,
    float: Item.number,
    int: Item.whole,
    str: Item.text,
}
"""Readers of fields, by type; the first one listed reads a field that allows several types."""


def overridden(attack: Attack, item: Item, other_keys: Collection[str] = ()) -> Attack:
    """Return the attack with the fields in a table changed; `other_keys` are not fields."""
    item.check_names({*_types(attack), *other_keys}, f"field of {type(attack).__name__}")
    changes = {name: one for name, one in item.table().items() if name not in other_keys}
    changed: Attack = _replaced(attack, changes)
    return changed


def _types(part: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(type(part))
    return {field.name: hints[field.name] for field in dataclasses.fields(part)}


def _replaced(part: Any, changes: Mapping[str, Item]) -> Any:
    if not changes:
        return part
    kinds = _types(part)
    values = {k: _value(kinds[k], _large(getattr(part, k)), item) for k, item in changes.items()}
    first = next(iter(changes.values()))
    with first.reporting({name: item.key for name, item in changes.items()}):
        return dataclasses.replace(part, **values)


def _large(value: Any) -> Any:
    return value.large if isinstance(value, BySide) else value


def _value(kind: Any, current: Any, item: Item) -> Any:
    if kind in PARTS:
        return _part(kind, current, item)
    if kind is Attack:
        if not isinstance(item.value, dict):
            raise item.wrong("a table of its fields")
        return overridden(current, item)
    union = isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union
    members = typing.get_args(kind) if union else (kind,)
    for member, read in READERS.items():
        if member in members:
            return read(item)
    raise item.wrong("nothing here, since a study file cannot set this field; leave it out")


def _part(kind: Any, current: Any, item: Item) -> Any:
    """Return the part with its fields changed, or another part."""
    known = {part.__name__: part for part in PARTS[kind]}
    if not isinstance(item.value, dict):
        raise item.wrong(
            f"a table of its fields, as {item.key[-1]}.{PART} = {next(iter(known))!r}; parts are "
            f"{', '.join(known)}"
        )
    changes = item.table()
    if (named := changes.pop(PART, None)) is not None:
        name = named.text(f"the name of a part, one of {', '.join(known)}")
        if name not in known:
            raise named.error(str(UnknownNameError(f"{item.key[-1]} part", shortened(name), known)))
        current = known[name]()
    item.check_names({PART, *_types(current)}, f"field of {type(current).__name__}")
    return _replaced(current, changes)
