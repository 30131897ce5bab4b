"""The documents name what is there: code, tests, files, links, presets and their settings."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from test_layers import WITH_TRITON

import tollbox as tb
from tollbox.attacks import PRESETS, WITH_SURROGATE
from tollbox.core.by_side import at_side

ROOT = Path(__file__).parents[2]
REFERRING = ("docs/paper.md", "docs/design.md", "docs/attacks.md")
ALL = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")),
)
PLACES = (ROOT, ROOT / "src" / "tollbox", ROOT / "tests", ROOT / "docs")
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
FILE = re.compile(r"[\w./-]+\.(py|md|json|toml|txt)")


def quoted(document: str) -> list[str]:
    """What stands in backticks, but for blocks."""
    text = re.sub(r"```.*?```", "", (ROOT / document).read_text(), flags=re.DOTALL)
    return re.findall(r"`([^`\n]+)`", text)


def names_in(file: Path) -> set[str]:
    """The tests of a file, without importing it: test_name, or Class::test_name."""
    found = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{p.name}" for p in node.body if isinstance(p, ast.FunctionDef)}
    return {name for name in found if name.split("::")[-1].startswith("test_")}


def modules() -> dict[str, ModuleType]:
    """All of tollbox that can be imported here, by name without the `tollbox.`."""
    walked = pkgutil.walk_packages(tb.__path__, "tollbox.")
    left_out = set() if importlib.util.find_spec("triton") else WITH_TRITON
    names = [found.name for found in walked if found.name not in left_out]
    return {name.removeprefix("tollbox."): importlib.import_module(name) for name in names}


def resolved(name: str, known: dict[str, ModuleType]) -> bool:
    """Whether a dotted name is that of a module, or of something in one."""
    parts = name.split(".")
    if parts[0] in ("tb", "tollbox"):
        parts = parts[1:]
        place: Any = tb
    for count in range(len(parts), 0, -1):
        if ".".join(parts[:count]) in known:
            place, parts = known[".".join(parts[:count])], parts[count:]
            break
    else:
        if name.split(".")[0] not in ("tb", "tollbox"):
            holders = [m for m in known.values() if hasattr(m, parts[0])]
            if not holders:
                return False
            place = holders[0]
    for part in parts:
        if part in getattr(place, "__annotations__", {}):
            return part == parts[-1]  # a field without a default
        if not hasattr(place, part):
            return False
        place = getattr(place, part)
    return True


@pytest.mark.parametrize("document", REFERRING)
def test_references_resolve(document: str) -> None:
    known, wrong = modules(), []
    for text in quoted(document):
        if "::" in text:
            file, _, name = text.partition("::")
            paths = (ROOT / "tests").rglob(Path(file).name)
            right = any(name in names_in(path) for path in paths)
        elif FILE.fullmatch(text):
            right = any((place / text).is_file() for place in PLACES)
        elif text.endswith("/"):
            right = any((place / text).is_dir() for place in PLACES)
        elif DOTTED.fullmatch(text.removesuffix("()")):
            right = resolved(text.removesuffix("()"), known)
        else:
            continue
        if not right:
            wrong.append(text)
    assert wrong == []


def test_references_that_do_not_resolve_are_found() -> None:
    known = modules()
    assert resolved("theory.caps.cap_probability", known)
    assert resolved("tb.run", known)
    assert resolved("attacks.geoda.GeoDA", known)
    assert resolved("Problem.start_image", known)
    assert resolved("ledger.Ledger.cost", known)
    assert not resolved("theory.caps.cap_probabilities", known)
    assert not resolved("nothing.at_all", known)
    assert not resolved("tb.walk", known)
    assert "test_references_resolve" in names_in(Path(__file__))
    assert "test_nothing" not in names_in(Path(__file__))


def heads_of(text: str) -> set[str]:
    """The headings of a document, as links have them."""
    return {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    }


@pytest.mark.parametrize("document", ALL)
def test_links_lead_somewhere(document: str) -> None:
    text = (ROOT / document).read_text()
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        file, _, head = link.partition("#")
        target = (ROOT / document).parent / file if file else ROOT / document
        assert target.exists(), link
        assert not head or head in heads_of(target.read_text()), link


def test_every_file_has_its_place_in_the_design() -> None:
    named = set(quoted("docs/design.md"))
    source = ROOT / "src" / "tollbox"
    files = {path.name for path in source.glob("*.py")} - {"__init__.py"}
    folders = {f"{path.name}/" for path in source.iterdir() if (path / "__init__.py").is_file()}
    assert files | folders <= named


def rows(document: str, first: str) -> list[list[str]]:
    """The cells of the table whose header begins with a word."""
    lines = iter((ROOT / document).read_text().splitlines())
    for line in lines:
        if line.startswith(f"| {first} |"):
            break
    next(lines)
    found = []
    for line in lines:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


def test_the_readme_lists_every_preset() -> None:
    listed = [
        name for cells in rows("README.md", "preset") for name in re.findall("`(.+?)`", cells[0])
    ]
    assert sorted(listed) == sorted({**PRESETS, **WITH_SURROGATE})


def described_attacks() -> set[str]:
    """The presets in the headings of docs/attacks.md."""
    text = (ROOT / "docs" / "attacks.md").read_text(encoding="utf-8")
    headings = [line for line in text.splitlines() if line.startswith("### ")]
    return {name for line in headings for name in re.findall("`(.+?)`", line)}


def test_every_preset_has_an_entry() -> None:
    assert described_attacks() == {*PRESETS, *WITH_SURROGATE}


def test_the_settings_of_the_presets_are_those_of_the_code() -> None:
    listed = []
    for names, *cells in rows("docs/paper.md", "presets"):
        for name in re.findall("`(.+?)`", names):
            listed.append(name)
            attack: Any = at_side(PRESETS[name].attack, 224)
            estimate = getattr(attack, "estimate", None)
            numbers = [
                getattr(attack, "queries", None),
                getattr(estimate, "delta", None),
                getattr(estimate, "m", None),
                attack.search.tau,
                getattr(estimate, "chunk", None),
            ]
            told = [None if cell == "–" else float(cell.split()[0]) for cell in cells[:5]]
            assert told == numbers, name
            assert (cells[3].endswith("x*")) == (getattr(estimate, "m", None) is not None), name
            assert (cells[3].endswith("of the path")) == attack.search.relative, name
            drawn = estimate if hasattr(attack, "estimate") else attack.directions
            space = getattr(drawn, "subspace", None)
            factor = getattr(space, "factor", None)
            block = getattr(space, "block", None)
            words = "none" if factor is None else f"DCT 1/{factor:g}"
            assert cells[5] == words + (f" in {block}x{block} blocks" if block else ""), name
            kind = {"GrowingNoise": "growing noise", "UniformNoise": "uniform noise"}
            assert cells[6].split(",")[0] == kind[type(attack.start).__name__], name
    ours = {name for name, preset in PRESETS.items() if preset.source == "docs/frugal.md"}
    others = {name for name in set(PRESETS) - ours if name not in listed}
    assert sorted(listed) == sorted(set(PRESETS) - ours - others)
    assert others <= described_attacks()
    described = (ROOT / "docs" / "frugal.md").read_text(encoding="utf-8")
    assert {name for name in ours if f"`{name}`" in described} == ours
