"""A preset with some fields of some parts changed, by their names.

    search.tau = 1e-3                   a field of a part
    estimate.subspace.factor = 8        of a part of a part
    search.part = "OptimalSearch"       another part instead, with its own defaults
    queries = 50                        of the attack itself
    inner.queries = 50                  of an attack inside another

1. A value is of the field's type: a float field takes whole numbers, an int field no floats.
2. `part` starts from the defaults of the class it names, whatever the preset had there; the other
   fields beside it are changed after that.
3. What a part itself refuses (its `__post_init__`) is reported with the key.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

from ..core.problem import Attack
from ..data.tables import shortened
from ..errors import InputError, UnknownNameError
from ..parts.registry import PARTS
from .toml import Item

PART = "part"
"""The key that replaces a part."""


def overridden(attack: Attack, changes: Item, beside: frozenset[str] = frozenset()) -> Attack:
    """The attack with the fields changed that a table of the file names; `beside` is no field."""
    fields = {k: v for k, v in changes.table().items() if k not in beside}
    changes.check_names({*_kinds(type(attack)), *beside}, _kind_of_name(attack))
    result: Attack = _replaced(attack, fields)
    return result


def _kinds(part: type) -> dict[str, Any]:
    """The annotation of each field."""
    hints = typing.get_type_hints(part)
    return {field.name: hints[field.name] for field in dataclasses.fields(part)}


def _kind_of_name(part: Any) -> str:
    return f"field of {type(part).__name__}"


def _replaced(part: Any, changes: Mapping[str, Item]) -> Any:
    """The part with the fields changed."""
    if not changes:
        return part
    kinds = _kinds(type(part))
    values = {k: _value(kinds[k], getattr(part, k), item) for k, item in changes.items()}
    try:
        return dataclasses.replace(part, **values)
    except InputError as error:
        first = next(iter(changes.values()))
        keys = {name: item.key for name, item in changes.items()}
        raise first.source.about(error, keys, first.key) from None


def _value(kind: Any, current: Any, item: Item) -> Any:
    """What the file gives for a field of that kind."""
    if kind in PARTS:
        return _part(kind, current, item)
    if kind is Attack:
        return _inner_attack(current, item)
    plain = [k for k in _members(kind) if k in (bool, int, float, str)]
    if bool in plain:
        return item.flag()
    if float in plain:
        return item.number()
    if int in plain:
        return item.whole()
    if str in plain:
        return item.text()
    raise item.wrong("nothing here, since this field cannot be given in a study; leave it out")


def _members(kind: Any) -> tuple[Any, ...]:
    """The types of a union; of `int | None` both."""
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return typing.get_args(kind)
    return (kind,)


def _inner_attack(current: Any, item: Item) -> Any:
    """The attack inside another, with its fields changed."""
    if not isinstance(item.value, dict):
        raise item.wrong("a table of its fields")
    item.check_names(set(_kinds(type(current))), _kind_of_name(current))
    return _replaced(current, item.table())


def _part(kind: Any, current: Any, item: Item) -> Any:
    """The part with its fields changed, or another."""
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
    item.check_names({PART, *_kinds(type(current))}, _kind_of_name(current))
    return _replaced(current, changes)
