"""`tollbox attack` with a detector and a limit on flagged answers: the table, files, mistakes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

DETECTOR = ("--detector", "ten_levels:detector")


def test_alarms_are_shown_and_saved_beside_the_benign_panel(attack_levels) -> None:
    code, out, _ = attack_levels(*DETECTOR, "--alarm-price", "3", "--max-flagged", "60")
    assert code == 0
    for words in ("alarms", "first alarm, median query", "benign sessions with an alarm"):
        assert words in out
    assert "The detector ten_levels:detector sees all queries: an alarm costs 3." in out
    assert "of 12 benign sessions raise" in out
    ledger = json.loads(Path("out/ledger.json").read_text())
    with open("out/results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert ledger["settings"]["benign"]["kinds"]["walk"]["sessions"] == 3
    for row, account in zip(rows, ledger["images"], strict=True):
        assert int(row["alarms"]) == sum(account["alarms"].values()) > 0
        first = account["first_alarm"]
        assert [int(row["first_alarm_queries"]), int(row["first_alarm_flagged"])] == [
            *first.values()
        ]
        answers = int(row["other"]) + 5 * int(row["flagged"])
        assert float(row["cost"]) == answers + 3 * int(row["alarms"]) <= 600
        assert int(row["flagged"]) <= 60


def test_alarms_end_a_run(attack_levels) -> None:
    assert attack_levels(*DETECTOR, "--max-alarms", "2")[0] == 0
    with open("out/results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["stop"], row["alarms"]) for row in rows} == {("alarm", "2")}


def test_without_a_detector_nothing_is_said_of_alarms(attack_levels) -> None:
    _, out, _ = attack_levels()
    assert "alarm" not in out
    with open("out/results.csv", newline="") as file:
        assert {row["alarms"] for row in csv.DictReader(file)} == {""}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--alarm-price", "3"],
            "--alarm-price is given, and --detector is not: expected",
        ),
        (["--max-alarms", "3"], "--max-alarms is given, and --detector is not"),
        (["--detector", "nowhere"], "--detector is 'nowhere': expected module:function"),
        (["--detector", "ten_levels:nothing"], "has no attribute 'nothing'"),
        (["--detector", "ten_levels:number"], "--detector is 3: expected a detector"),
        (
            [*DETECTOR, "--alarm-price", "-1"],
            "--alarm-price is -1.0: expected a finite number",
        ),
        (
            [*DETECTOR, "--alarm-price", "1e4"],
            "--budget is 600: expected at least 10005",
        ),
        (
            [*DETECTOR, "--max-alarms", "0"],
            "--max-alarms is 0: expected a whole number of 1",
        ),
        (["--max-flagged", "0"], "--max-flagged is 0: expected a whole number of 1 or more"),
    ],
)
def test_mistakes_are_told_in_a_sentence_and_nothing_is_written(
    attack_levels, words, message
) -> None:
    code, _, err = attack_levels(*words)
    assert code == 2
    assert message in " ".join(err.split())
    assert not Path("out").exists()
