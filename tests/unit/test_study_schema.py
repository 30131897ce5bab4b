"""The schema of study files: a key that is declared once is read, written and documented."""

from __future__ import annotations

import importlib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from tollbox.cli.options import option
from tollbox.errors import FileError, InputError
from tollbox.studies import study as study_module
from tollbox.studies import template
from tollbox.studies.kinds import whole
from tollbox.studies.schema import (
    ARRAYS,
    TABLES,
    ModelTable,
    PriceTable,
    StudyTable,
    SurrogateTable,
    Table,
    key,
    keys,
    read,
)
from tollbox.studies.toml import Item, Source

EVERY = (StudyTable, PriceTable, SurrogateTable, *TABLES.values(), *ARRAYS.values())
DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True, kw_only=True)
class WithShots(ModelTable):
    """A table with a key more."""

    shots: int | None = key(whole("3", 1, 9), "Images of each class in the prompt. Default: none.")


@pytest.fixture
def study_keys(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(DOCS / "site")
    return importlib.import_module("study_keys")


def item(text: str) -> Item:
    """The first of [[models]] of a text."""
    value = tomllib.loads(text)["models"][0]
    return Item(Source("study.toml", text), ("models", 0), value)


HEAD = '[[models]]\nsource = "net:make"\n'


def test_a_key_is_declared_once(study_keys: ModuleType) -> None:
    values, _ = read(WithShots, item(f"{HEAD}shots = 5\n"))
    assert values == {"source": "net:make", "shots": 5}
    made = WithShots(**values)
    lines = list(study_module.table_lines(made.values(), Path()))
    assert lines == ['source = "net:make"', "shots = 5"]
    assert read(WithShots, item("\n".join(["[[models]]", *lines])))[0] == values
    assert list(study_module.table_lines(WithShots(source="a:b").values(), Path())) == [
        'source = "a:b"'
    ]
    sentence = "Images of each class in the prompt. Default: none."
    assert f"# shots = 3                       # {sentence}" in template.table_lines(WithShots, {})
    row = "| `shots` | a whole number | none | Images of each class in the prompt. |"
    assert row in study_keys.section("", WithShots)
    assert option(WithShots, "shots").help == sentence


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "shots = 10",
            "shots in [[models]] number 1 is 10: expected a whole number from 1 to 9",
        ),
        ('shots = "5"', "is '5': expected a whole number; write it without quotes."),
        ("shot = 5", "unknown key in [[models]] number 1 'shot': did you mean 'shots'"),
    ],
)
def test_its_mistakes_are_reported_with_line_and_key(line: str, message: str) -> None:
    with pytest.raises(FileError) as error:
        read(WithShots, item(HEAD + line))
    assert str(error.value).startswith("study.toml, line 3: ")
    assert message in str(error.value)
    with pytest.raises(InputError, match=r"^shots is 10: expected a whole number from 1 to 9"):
        WithShots(source="net:make", shots=10)


@pytest.mark.parametrize("table", EVERY, ids=lambda table: table.__name__)
def test_every_key_is_a_sentence_with_an_example_of_its_kind(table: type[Table]) -> None:
    for each in keys(table):
        assert each.help.endswith(".")
        assert each.help[0].isupper() or each.help.startswith(("module:function", "c*"))
        assert not set("\n|") & set(each.help)
        value = tomllib.loads(f"key = {each.kind.example}")["key"]
        source = Source("study.toml", f"{each.name} = {each.kind.example}", files=False)
        if each.name != "ratio" or not isinstance(value, str):
            each.kind.read(Item(source, (each.name,), value))
