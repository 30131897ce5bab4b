"""Studies with a detector: whatever ends them they go on with the same alarms, and with no other
detector; wherever alarms are shown the benign panel is."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from small_studies import contents, write_study
from test_studies import Case, Net

from tollbox import Study, run_study
from tollbox.errors import FileError, InputError
from tollbox.report.page import alarms as alarms_of
from tollbox.studies import StudyResults
from tollbox.studies.status import StudyStatus
from tollbox.studies.store.store import Store, shard_path
from tollbox.workers.executors import Stopper

GUARD = """
import torch
from tollbox.testing import NearDuplicates

calls = []


def detector():
    return NearDuplicates({radius}, window=20, every=3)


def none():
    return 3


class Raises:
    def begin(self, image):
        calls.append(image)
        raise ValueError("no such image")
"""
WATCH = '\n[detector]\nsource = "{module}:detector"\nalarm_price = 7.0\n'


@pytest.fixture
def case(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    """A study of twelve cells that is watched."""
    made = Case(tmp_path)
    module = f"guard_{abs(hash(request.node.name)) % 10**9}"
    made.guard = tmp_path / f"{module}.py"
    made.guard.write_text(GUARD.replace("{radius}", "0.5"))
    made.text += WATCH.replace("{module}", module)
    return made


def alarms(folder: Path) -> dict[int, tuple]:
    with StudyResults(folder) as results:
        return {
            r.index: (
                dict(r.ledger.alarms_in),
                r.first_alarm,
                r.ledger.cost,
                r.detection is not None,
            )
            for r in results.results()
        }


@pytest.mark.parametrize("policy", ["", "max_alarms = 3\n", "metered", "max_flagged"])
def test_a_study_that_is_ended_again_and_again_ends_with_the_same_alarms(case: Case, policy: str):
    if policy == "metered":
        case.text = "metered = true\n" + case.text
    elif policy == "max_flagged":
        case.text = "max_flagged = 20\n" + case.text
    else:
        case.text += policy
    whole = case.folder / "whole"
    net = Net()
    case.run(net, out=whole)
    wanted, expected, asked = contents(whole), alarms(whole), net.rows
    assert sum(sum(by_phase.values()) for by_phase, *_ in expected.values()) > 20
    stops = {end[0] for end in wanted.values()}
    assert (policy != "max_flagged") or "max_flagged" in stops
    assert (policy != "max_alarms = 3\n") or "alarm" in stops
    rng, rows = random.Random(policy), 0
    for _ in range(6):
        net, stopper = Net(), Stopper()
        net.at, net.do = rng.randrange(1, 30), stopper
        case.run(net, stopper)
        rows += net.rows
    net = Net()
    case.run(net)
    assert contents(case.out) == wanted
    assert alarms(case.out) == expected
    if policy == "metered":
        assert rows + net.rows == asked


def test_a_crash_loses_no_alarm(case: Case):
    """An error between two batches stands for a kill: the stores are as they were committed."""
    whole = case.folder / "whole"
    case.run(Net(), out=whole)

    class Killed(KeyboardInterrupt):
        pass

    def kill() -> None:
        raise Killed

    for at in (3, 11, 17):
        net = Net()
        net.at, net.do = at, kill
        with pytest.raises(Killed):
            case.run(net)
    case.run(Net())
    assert contents(case.out) == contents(whole)
    assert alarms(case.out) == alarms(whole)


def test_another_detector_is_refused(case: Case):
    net, stopper = Net(), Stopper()
    net.at, net.do = 10, stopper
    case.run(net, stopper)
    module = case.guard.stem
    __import__("sys").modules.pop(module)
    case.guard.write_text(GUARD.replace("{radius}", "0.75"))
    words = f"radius of the detector {module}:detector changed from 0.5 to 0.75"
    net = Net()
    with pytest.raises(FileError, match=words):
        case.run(net)
    __import__("sys").modules.pop(module)
    case.guard.write_text(GUARD.replace("{radius}", "0.5"))
    case.run(Net())


def test_a_cell_is_replayed_from_its_record_without_the_detector(case: Case):
    case.run(Net())
    case.guard.unlink()
    with StudyResults(case.out) as results:
        for cell in range(12):
            [result] = [r for r in results.results() if r.index == cell]
            again = results.replayed(cell)
            assert again.ledger.alarms_in == result.ledger.alarms_in
            assert again.ledger.cost == result.ledger.cost
            assert again.improvements == result.improvements
            less = results.replayed(cell, budget=60)
            assert less.ledger.cost <= 60
            assert less.distance == result.distance_at(60)


def test_what_is_shown_of_alarms_is_beside_the_benign_panel(case: Case):
    case.run(Net())
    with StudyStatus(case.out) as status:
        watching, *panel = status.detector
        series = status.status()
    assert (
        watching == f"The detector {case.guard.stem}:detector sees all queries: an alarm costs 7."
    )
    assert " of 12 benign sessions raise" in panel[0]
    assert "walk" in panel[0]
    with StudyResults(case.out) as results:
        rows, all_results = list(results.rows()), results.results()
        dearer = list(results.rows(price=10))
    assert sum(each.alarms for each in series) == sum(row["alarms"] for row in rows)
    assert all_results.benign.all.sessions == 12
    assert "alarms at" in repr(all_results)
    assert "benign sessions" in repr(all_results)
    for row, result in zip(rows, all_results, strict=True):
        first = result.first_alarm or (None, None)
        assert (row["first_alarm_queries"], row["first_alarm_flagged"]) == first
    for row, result in zip(dearer, all_results, strict=True):
        counted = result.ledger.other + 10 * result.ledger.flagged + 7 * result.ledger.alarms
        assert row["cost"] == counted


def test_the_page_of_a_report_has_alarms_beside_benign_sessions(case: Case):
    case.run(Net())
    with StudyResults(case.out) as results:
        data, ends = alarms_of(results), results.finished()
    assert len(data["rows"]) == 4
    assert [row["runs"] for row in data["rows"]] == [3] * 4
    [benign] = data["benign"]
    assert (benign["model"], benign["runs"]) == ("net", 12)
    first, firsts = data["rows"][0], [end.first_alarm for end in ends[:3] if end.first_alarm]
    assert first["share"] == pytest.approx(len(firsts) / 3, abs=1e-4)
    assert first["queries"] == sorted(one.queries for one in firsts)[len(firsts) // 2]
    alarms_a_query = sum(end.alarms for end in ends[:3]) / sum(end.queries for end in ends[:3])
    assert first["per_query"] == alarms_a_query
    assert " of 12 benign sessions raise" in data["sentences"][1]


def test_the_record_is_read_as_it_was_written(case: Case):
    case.run(Net())
    path = shard_path(case.out, 0)
    with Store(path, write=False) as store:
        record = store.study
    [parts] = [v for k, v in record.fingerprint.items() if k.startswith("the detector")]
    assert parts == {
        "detector": "NearDuplicates",
        "radius": "0.5",
        "window": "20",
        "every": "3",
    }
    assert json.dumps(record.to_json(), default=str)
    assert record.detector.max_alarms is None


def test_a_detector_that_fails_is_one_cells_failure_and_can_be_run_again(case: Case):
    case.text = case.text.replace(":detector", ":Raises")
    case.run(Net())
    ends = contents(case.out).values()
    [(stop, reason)] = {(end[0], end[1]) for end in ends}
    assert stop == "detector_error"
    assert reason.startswith("the detector failed: ValueError: no such image (guard_")
    with StudyStatus(case.out) as status:
        assert "The detector failed on it" in status.detector[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((":detector", ":nothing"), "module 'guard_.*' has no attribute 'nothing'"),
        ((":detector", ":none"), "is 3: expected a detector, with a method `begin`"),
        (("_price = 7.0", "_price = -7.0"), "alarm_price is -7.0: expected a finite number of 0"),
        (("_price = 7.0", "_price = 1e9"), "price '1': budget is 120: expected at least 1e.09"),
        (("_price = 7.0", "_prise = 7.0"), "alarm_prise"),
        ((":detector", ""), "expected module:function, which is a detector or gives one"),
        (("alarm_price = 7.0", "max_alarms = 0"), "max_alarms is 0: expected a whole number of 1"),
    ],
)
def test_what_is_wrong_is_told_with_the_key(case: Case, change, message):
    case.text = case.text.replace(*change)
    with pytest.raises((InputError, FileError), match=message):
        case.run(Net())
    assert not case.out.exists()


def test_a_watched_study_made_in_memory_is_read_again(case: Case):
    study = case.study()
    assert study.detector.alarm_price == 7.0
    parts = {name: getattr(study, name) for name in ("images", "models", "attacks", "tariffs")}
    made = Study(name="made", folder=case.folder, detector=study.detector, **parts)
    again = Study.from_text(made.text, case.folder, "made.toml", files=False)
    assert again.detector == study.detector


@pytest.mark.slow
def test_workers_share_a_watched_study(tmp_path: Path):
    study = write_study(tmp_path / "one", "watched_one")
    guard = tmp_path / "one" / "guard_shared.py"
    guard.write_text(GUARD.replace("{radius}", "0.5"))
    text = study.file.read_text() + WATCH.replace("{module}", "guard_shared")
    study.file.write_text(text)
    run_study(study.study(), study.folder / "alone").close()
    study.file.write_text("workers = 2\n" + text)
    run_study(study.study(), study.folder / "shared").close()
    assert contents(study.folder / "shared") == contents(study.folder / "alone")
    assert alarms(study.folder / "shared") == alarms(study.folder / "alone")
