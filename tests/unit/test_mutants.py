"""Every mutant of tests/mutants.py finds the text that it replaces exactly once."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("mutants", TESTS / "mutants.py")
assert SPEC is not None
mutants = sys.modules["mutants"] = importlib.util.module_from_spec(SPEC)
assert SPEC.loader is not None
SPEC.loader.exec_module(mutants)


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_finds_its_text_exactly_once(mutant):
    source = TESTS.parent / "src" / "tollbox" / mutant.file
    assert source.read_text().count(mutant.old) == 1
