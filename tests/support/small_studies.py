"""A small study to try things on: a network of two layers, three images, two attacks and prices."""

from __future__ import annotations

import json
import shutil
import sqlite3
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from tollbox import Study, run_study
from tollbox.report import DistanceRule
from tollbox.report.page import page_data
from tollbox.report.paper_table import paper_table, with_best_of_all
from tollbox.report.ranking import standings
from tollbox.report.runs import series_of
from tollbox.studies import StudyResults
from tollbox.studies.store.codec import checksum
from tollbox.studies.store.record import Environment, ModelRecord, StudyRecord
from tollbox.studies.store.store import COLUMNS, Store

NETWORK = '''
"""A network of two layers, the same whoever makes it."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.first = nn.Parameter(torch.randn(192, 16, generator=generator))
        self.second = nn.Parameter(torch.randn(16, 5, generator=generator))

    def forward(self, images):
        return torch.tanh((images.flatten(1) - 0.5) @ self.first) @ self.second


net = Net().eval()
shift = 0


def labels(images):
    with torch.no_grad():
        return (net(images).argmax(1) + shift) % 5
'''
TEXT = """\
budget = 60
prices = [1, 10]
batch_size = 16
device = "cpu"

[images]
path = "images.npz"

[[models]]
name = "net"
source = "{module}:net"

[[attacks]]
preset = "surfree"

[[attacks]]
preset = "a-hsja"
"""


PARTIAL = """\
budget = 90
prices = [1, 3]
batch_size = 16
device = "cpu"

[images]
path = "tollbox.models.stand_ins:images"
limit = 2

[[models]]
name = "net"
source = "tollbox.models.stand_ins:convolutional"

[[attacks]]
preset = "surfree"

[[attacks]]
preset = "a-cgba"
"""


@dataclass(frozen=True)
class StudyFolder:
    """A folder with a study's file, its images, and its network in a module of its own."""

    folder: Path
    module: str

    @property
    def file(self) -> Path:
        """The study's file."""
        return self.folder / "study.toml"

    @property
    def code(self) -> Path:
        """The network's module."""
        return self.folder / f"{self.module}.py"

    def study(self) -> Study:
        """The study of the file."""
        return Study.from_toml(self.file)


def write_study(folder: Path, module: str, text: str = TEXT, images: int = 3) -> StudyFolder:
    """Write all files of a small study; `{module}` in the text is the network's module."""
    folder.mkdir(parents=True, exist_ok=True)
    written = StudyFolder(folder, module)
    written.code.write_text(NETWORK)
    written.file.write_text(text.replace("{module}", module))
    scope: dict[str, Any] = {"__name__": "small"}
    exec(NETWORK, scope)
    pixels = np.random.default_rng(1).integers(0, 256, (images, 3, 8, 8), np.uint8)
    labels = scope["labels"](torch.from_numpy(pixels).float() / 255).numpy()
    np.savez(folder / "images.npz", images=pixels, labels=labels)
    return written


def contents(folder: Path) -> dict[int, tuple[Any, ...]]:
    """All that a study has found out, by cell."""
    with StudyResults(folder) as results:
        return {
            r.index: (
                *(r.stop, r.reason, r.warnings, r.resolution, r.seed, r.name),
                *(r.ledger.counts, r.ledger.cost, r.improvements, r.trace),
                *(dict(r.ledger.alarms_in), r.first_alarm),
                None if r.adversarial is None else r.adversarial.numpy().tobytes(),
            )
            for r in results.results()
        }


@cache
def _partial() -> TemporaryDirectory[str]:
    folder = TemporaryDirectory()
    out = Path(folder.name, "out")
    run_study(Study.from_text(PARTIAL, Path(folder.name), "study.toml"), out).close()
    with Store(out / "shard-0.sqlite", write=True) as store:
        store.forget(set(range(8)) - {3, 7})
    return folder


def copy_partial_study(out: Path) -> None:
    """Write the folder of a study in which only cells 3 and 7 of 8, at c* = 3, have results."""
    shutil.copytree(Path(_partial().name, "out"), out)


def rewrite_record(store: Store, key: str, value: Any) -> None:
    """Change what a store says about its study, as only a test would."""
    store._connection.execute("UPDATE about SET value = ? WHERE key = ?", (json.dumps(value), key))
    reseal(store._connection)


def reseal(connection: sqlite3.Connection) -> None:
    """Make all checksums of a store fit its content, as only a forger would."""
    rows = connection.execute("SELECT key, value FROM about")
    about = {key: json.loads(value) for key, value in rows}
    fingerprint = json.dumps(about["fingerprint"], sort_keys=True)
    shared = checksum(about["text"], fingerprint, about["shard"])
    for table, columns in COLUMNS.items():
        key = b"" if table == "about" else shared
        for row, *values in connection.execute(f"SELECT rowid, {columns} FROM {table}").fetchall():
            change = f"UPDATE {table} SET checksum = ? WHERE rowid = ?"
            connection.execute(change, (checksum(key, table, *values), row))
    for blob in ("account", "steps", "image"):
        for cell, content in connection.execute(f"SELECT cell, {blob} FROM results").fetchall():
            if content is not None:
                sealed = checksum(shared, blob, cell, content[8:]) + content[8:]
                change = f"UPDATE results SET {blob} = ? WHERE cell = ?"
                connection.execute(change, (sealed, cell))
    connection.commit()


def sample_record(**changes: Any) -> StudyRecord:
    """The record of a study of which only the store matters."""
    values: dict[str, Any] = {
        "text": "x",
        "where": "study.toml",
        "folder": Path("/nowhere"),
        "name": "sample",
        "series": ("surfree, c* = 1",),
        "width": 40,
        "shards": 1,
        "environment": Environment("0.1.0", "2.4", "2.0", "3.11", "cpu (x86_64)"),
        "models": {"net": ModelRecord("float32", 8)},
        "attacks": ("surfree",),
        "made_by": "run",
        "fingerprint": {"the attack 'surfree'": {"attack": "SurFree", "search.tau": "0.0001"}},
    }
    return StudyRecord(**{**values, **changes})


def page_of(results: StudyResults, rule: DistanceRule = DistanceRule.HARD) -> dict[str, Any]:
    """Return the data of a page as `tollbox report` makes it without options."""
    series = series_of(results, rule)
    table = with_best_of_all(paper_table(results.study, series), series)
    return page_data(results, rule, series, table, standings(results, series, table.columns))
