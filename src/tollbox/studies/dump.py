"""The text of a study that was made in memory: TOML, from which the same study is read again.

Every price, model and attack is a table of its own. What is not given, or is the default, is left
out. Paths below the study's folder are relative to it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..core.metric import Metric
from ..core.prices import Prices
from ..data.resizing import Resizing
from ..errors import InputError
from .schema import AttackSpec, GoalSpec, ImagesSpec, ModelSpec, Tariff, WatchSpec


def study_text(
    *,
    folder: Path,
    images: ImagesSpec,
    models: Iterable[ModelSpec],
    attacks: Iterable[AttackSpec],
    tariffs: Iterable[Tariff],
    goal: GoalSpec,
    norm: Metric = Metric.L2,
    watch: WatchSpec | None = None,
    **top: Any,
) -> str:
    """The TOML text of a study; `top` are its keys that are in no table."""
    tables = [
        ("", {**top, "norm": None if norm == Metric.L2 else norm}),
        ("[images]", _images(images)),
        ("[goal]", _goal(goal)),
        ("[watch]", _watch(watch)),
        *(("[[prices]]", _price(tariff)) for tariff in tariffs),
        *(("[[models]]", _model(model)) for model in models),
        *(("[[attacks]]", _attack(attack)) for attack in attacks),
    ]
    blocks = (_block(header, values, folder) for header, values in tables)
    return "\n\n".join(block for block in blocks if block) + "\n"


def _model(model: ModelSpec) -> dict[str, Any]:
    values = {each.name: (getattr(model, each.name), each.default) for each in fields(model)}
    del values["resolved"]
    return {key: value for key, (value, default) in values.items() if value != default}


def _attack(attack: AttackSpec) -> dict[str, Any]:
    surrogate = attack.surrogate
    if getattr(attack.attack, "surrogate", None) is not None:
        raise InputError(
            f"the attack {attack.name!r} has a surrogate that is loaded already",
            expected="the source of one, as surrogate=SurrogateSpec.of('module:function')",
        )
    return {
        "preset": attack.preset,
        "name": attack.name,
        **_flat(attack.overrides),
        "surrogate.source": None if surrogate is None else surrogate.sources,
        "surrogate.mean": None if surrogate is None else surrogate.mean,
        "surrogate.std": None if surrogate is None else surrogate.std,
    }


def _images(images: ImagesSpec) -> dict[str, Any]:
    return {
        "path": images.function or images.path,
        "labels": images.labels,
        "limit": images.limit,
        "list": images.listed,
        "digest": images.digest,
        "correct_only": images.correct_only or None,
        "resize": None if images.resizing is None else images.resizing.resize,
        "crop": None if images.resizing is None else images.resizing.crop,
        "interpolation": _interpolation(images.resizing),
        "names": images.names,
    }


def _goal(goal: GoalSpec) -> dict[str, Any]:
    flagged = None if goal.flagged is None else sorted(goal.flagged)
    return {
        "target": goal.target,
        "start": goal.start,
        "flagged": goal.flagged_file or flagged,
        "mask": goal.mask,
    }


def _watch(watch: WatchSpec | None) -> dict[str, Any]:
    if watch is None:
        return {}
    return {
        "source": watch.source,
        "alarm_price": watch.alarm_price or None,
        "max_alarms": _cap(watch.max_alarms),
    }


def _interpolation(resizing: Resizing | None) -> str | None:
    """Where something is interpolated."""
    return None if resizing is None or resizing.resize is None else resizing.interpolation


def _price(tariff: Tariff) -> dict[str, Any]:
    prices, ratio = tariff.prices, tariff.file or tariff.prices.source
    if tariff.file is None and prices == Prices.flagged_only():
        ratio = math.inf
    elif tariff.file is None and prices != Prices(source=prices.source):
        raise InputError(
            f"the price {tariff.name!r} is {prices!r}", expected="c*, or prices from a CSV file"
        )
    return {
        "name": tariff.name,
        "ratio": ratio,
        "budget": tariff.budget if math.isfinite(tariff.budget) else None,
        "max_queries": _cap(tariff.max_queries),
        "max_flagged": _cap(tariff.max_flagged),
    }


def _cap(value: float) -> int | None:
    return int(value) if math.isfinite(value) else None


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Tables within tables as dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        inner = _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else None
        flat |= {f"{prefix}{key}": value} if inner is None else inner
    return flat


def _block(header: str, values: Mapping[str, Any], folder: Path) -> str:
    lines = [f"{key} = {toml_value(v, folder)}" for key, v in values.items() if v is not None]
    return "\n".join([*([header] if header else []), *lines]) if lines else ""


def toml_value(value: Any, folder: Path) -> str:
    """A value as TOML has it; a path below `folder` is relative to it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(part, folder) for part in value)}]"
    if isinstance(value, Path) and value.is_relative_to(folder):
        value = value.relative_to(folder)
    text = str(value).encode("utf-8", "backslashreplace").decode()  # a name that is not UTF-8
    if any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text):
        raise InputError(f"{text!r} has control characters", expected="a name without them")
    return json.dumps(text, ensure_ascii=False)
