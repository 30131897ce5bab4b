"""The site's reference says what the code has: every public name, command, option, part and key."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import tollbox as tb
from tollbox import models, testing
from tollbox.attacks import PRESETS, WITH_SURROGATE
from tollbox.cli.app import COMMANDS
from tollbox.parts.registry import PARTS
from tollbox.studies import schema

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`docs/site/made_pages.py`, without Sphinx."""
    monkeypatch.setattr(sys, "path", [str(DOCS / "site"), *sys.path])
    return importlib.import_module("made_pages")


def made(site: ModuleType, document: str) -> str:
    text: str = site.made(document, (DOCS / f"{document}.md").read_text(encoding="utf-8"))
    return text


def test_every_public_name_is_described_once() -> None:
    text = (DOCS / "reference" / "python.md").read_text()
    listed = re.findall(r"^- `(tollbox[\w.]*)`$", text, re.MULTILINE)
    public = {f"tollbox.{name}" for name in tb.__all__}
    public |= {f"tollbox.models.{name}" for name in models.__all__}
    public |= {f"tollbox.testing.{name}" for name in testing.__all__}
    assert sorted(set(listed)) == sorted(listed)
    assert public <= set(listed)


def test_names_become_what_the_code_says_of_them(site: ModuleType) -> None:
    text = made(site, "reference/python")
    assert ".. autofunction:: tollbox.run\n" in text
    assert ".. autoclass:: tollbox.Prices\n" in text
    assert ".. autoexception:: tollbox.errors.InputError\n" in text
    assert ".. automodule:: tollbox.testing\n" in text
    assert "- `tollbox" not in text


def test_every_command_is_there_with_its_options(site: ModuleType) -> None:
    text = made(site, "reference/commands")
    heads = re.findall(r"^## tollbox (.+)$", text, re.MULTILINE)
    assert heads == list(COMMANDS)
    for option in ("--surrogate-labels STR", "--metered", "--ray-gpus FLOAT", "--price STR"):
        assert f"* `{option}`: " in text
    assert "*[default: a-hsja]*" in text
    assert "Ctrl-C ends the run" in text  # a command's whole help, not its first sentence


def test_every_preset_and_part_is_there(site: ModuleType) -> None:
    text = made(site, "reference/presets")
    parts = {part.__name__ for classes in PARTS.values() for part in classes}
    for name in {*PRESETS, *WITH_SURROGATE, *parts}:
        assert f"| `{name}` | " in text, name
    assert "`tau=2.25e-05`" in text


def test_every_key_of_a_study_is_explained(site: ModuleType) -> None:
    text = made(site, "reference/study-files")
    tables = [*schema.TABLES.values(), *schema.ARRAYS.values()]
    for table in (schema.StudyTable, schema.SurrogateTable, schema.PriceTable, *tables):
        for key in schema.keys(table):
            assert f"| `{key.name}` | {key.kind.words} | " in text
            assert f" | {key.help.partition(' Default: ')[0]} |" in text
    assert "| `charge_clean` | true or false | `true` | Charge" in text
    assert "| `device` | text | cuda if there is one, else cpu | " in text
    assert "| `path` | a path, or module:function | *required* | " in text


def test_the_example_of_a_study_has_every_key() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", (DOCS / "studies.md").read_text("utf-8"), re.DOTALL)
    example = {**tomllib.loads(blocks[1]), **tomllib.loads(blocks[0])}
    [price] = tomllib.loads(blocks[1])["prices"]
    written = {"": set(example) - {*schema.TABLES, *schema.ARRAYS}, "prices": set(price)}
    written |= {name: set(example[name]) for name in schema.TABLES}
    written |= {name: {key for each in example[name] for key in each} for name in schema.ARRAYS}
    tables = {"": schema.StudyTable, "prices": schema.PriceTable, **schema.TABLES, **schema.ARRAYS}
    assert written["attacks"] >= {"search", "estimate"}
    written["attacks"] -= {"search", "estimate"}  # fields of parts
    assert written == {name: {key.name for key in schema.keys(t)} for name, t in tables.items()}


def test_the_index_is_the_table_of_contents(site: ModuleType) -> None:
    text = made(site, "index")
    entries = set(re.findall(r"^.+ <(.+)>$", text, re.MULTILINE))
    pages = {p.relative_to(DOCS).with_suffix("").as_posix() for p in DOCS.rglob("*.md")}
    assert entries == pages - {"index"}
    assert ":caption: How to\n" in text


def test_tables_of_commands_get_a_heading(site: ModuleType) -> None:
    for document in site.HEADINGS:
        heads = re.findall(r"^# ", made(site, document), re.MULTILINE)
        assert len(heads) == 1, document


def test_docstrings_become_lists_and_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(DOCS / "site"), *sys.path])
    mended = importlib.import_module("docstrings").mended
    assert mended(["seed, live: whole,", "    or not."]) == [
        "``seed``, ``live``",
        "    whole,",
        "    or not.",
    ]
    assert mended(["So:", "", "    x = 1"]) == ["So::", "", "    x = 1"]
    plain = ["A price: what it costs.", "", "Note: this is", "no list"]
    assert mended(plain) == plain
