import importlib.util
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, Phase, settings
from small_studies import StudyFolder, write_study

from tollbox import Study

torch.set_num_threads(1)  # the tests run in two processes on two cores
os.environ.setdefault("OMP_NUM_THREADS", "1")  # and so do those that they start

settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "search", parent=settings.get_profile("ci"), derandomize=False, max_examples=1000
)
settings.register_profile(  # for `make mutants`: a failure is enough, it need not be small
    "mutants", parent=settings.get_profile("ci"), phases=[Phase.generate]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

if importlib.util.find_spec("selenium") is None:  # `make test-slow` installs it
    collect_ignore = ["browser"]

SLOW = (
    "browser/",
    "commands/test_missing_packages.py",
    "commands/test_torture.py",
    "properties/test_executors.py",
    "properties/test_known_boundaries.py",
    "properties/test_masked_boundaries.py",
    "properties/test_workers.py",
    "whole/test_cut_channel.py",
    "whole/test_examples.py",
    "whole/test_network_store.py",
    "whole/test_notebooks.py",
    "whole/test_pages.py",
    "whole/test_paper_pictures.py",
)
"""Files of the slow tier (`make test-slow`); elsewhere single tests are marked `slow`."""
_MODULES = itertools.count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(place in item.nodeid for place in SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def modules_of_a_test(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a test has written and imported is forgotten with it."""
    before = set(sys.modules)
    yield
    folder = str(tmp_path_factory.getbasetemp())
    for name in sys.modules.keys() - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(folder):
            del sys.modules[name]


@pytest.fixture
def study_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StudyFolder:
    """A folder with the files of a small study; one stands in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a module changes within a second
    return write_study(tmp_path, f"study_net_{next(_MODULES)}")


@pytest.fixture
def tiny_study(study_folder: StudyFolder) -> Study:
    """A small study, whose files are there."""
    return study_folder.study()
