"""The kinds of model that can be loaded, in the order in which they are tried.

To add one, write a module here with an `ADAPTER`, and add its name to `MODULES`. From then on
`load_model`, `tollbox attack --model` and the `source` of a study take it, and messages that say
what was expected mention it.
"""

from __future__ import annotations

import importlib

from .source import Adapter, Source

MODULES = (
    "exported",
    "scripted",
    "functions",
)
ADAPTERS: tuple[Adapter, ...] = tuple(
    importlib.import_module(f".{name}", __package__).ADAPTER for name in MODULES
)
EXPECTED = ", or ".join(adapter.expected for adapter in ADAPTERS)


def adapter_of(source: Source) -> Adapter | None:
    """The first adapter that takes a source."""
    return next((adapter for adapter in ADAPTERS if adapter.accepts(source)), None)


def is_model_name(text: str) -> bool:
    """Whether a text names a model by its form alone, so that no file of that name is needed."""
    return adapter_of(Source(text)) is not None
