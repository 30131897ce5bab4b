"""`tollbox theory` as a user types it: its numbers, its tables, its mistakes."""

import dataclasses
import json
import math
import os
import subprocess
import sys

import pytest

from tollbox.cli.app import main
from tollbox.cli.theory import TheoryOptions
from tollbox.theory import caps, search_costs

TOLLBOX = (sys.executable, "-c", "from tollbox.__main__ import main; main()")


def typed(capsys: pytest.CaptureFixture[str], *tokens: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["theory", *tokens])
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


def rows(out: str) -> dict[str, list[str]]:
    """The words after each name of a line, which is what stands before two spaces."""
    lines = (line.strip().split("  ", 1) for line in out.replace("|", " ").splitlines())
    return {line[0]: line[1].split() for line in lines if len(line) == 2}


def test_the_tables_say_what_the_theorems_say(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = typed(capsys, "--price", "1000", "--dim", "150528")
    assert (code, err) == (0, "")
    assert out.startswith("c* = 1,000, d = 150,528\n")
    assert "c_t = 15,015" in out
    assert "E cos(alpha_1) = 0.0020565" in out
    found = rows(out)
    x = caps.optimal_overshoot(1000, 150_528)
    n = caps.optimal_queries(15_015, 1000, 150_528)
    assert found["overshoot x"] == ["0", f"{x:.5g}"]
    assert found["s = x sqrt(d)"] == ["0", "2.6605"]  # the notes have 2.660
    assert found["adversarial answers p"] == found["weight beta"] == ["0.5", "0.9961"]
    assert found["flagged answers 1 - p"] == ["0.5", "0.0039012"]
    assert found["queries n"] == ["30", f"{n:,.0f}"]
    assert found["J"][1] == f"{caps.objective(x, 150_528, n):.5g}"
    assert found["expected cosine"] == [
        f"{caps.expected_cosine(0, 150_528, 30):.5g}",
        f"{caps.expected_cosine(x, 150_528, n):.5g}",
    ]
    for t in (1, 10, 100):
        cosine = caps.scheduled_cosine(t, caps.initial_cosine(150_528), 0.02)
        assert found[f"{t}"] == [f"{cosine:.5g}", f"{x * 0.0045 / cosine:.5g}"]
    costs = {name: found[name][-1] for name in ("binary", "asymmetric", "optimal")}
    assert costs == {
        "binary": f"{search_costs.expected_search_cost(10_000, 1000, 1):,.0f}",
        "asymmetric": f"{search_costs.expected_search_cost(10_000, 1000):,.0f}",
        "optimal": f"{search_costs.optimal_splits(10_000, 1000.0).cost(10_000):,.0f}",
    }
    assert found["asymmetric"][0] == "0.000999"
    assert found["optimal"][0] == "0.005238"
    for stages, name in ((1, "line, 1 stage"), (2, "line, 2 stages")):
        cost = search_costs.expected_line_search_cost(10_000, 1000, stages)
        assert found[name] == ["-", f"{cost:,.0f}"]


@pytest.mark.parametrize("price", ["1e-15", "0.01", "1", "2.5", "1e5", "1e15", "inf"])
@pytest.mark.parametrize("dim", [2, 3, 768, 10_000_000])
def test_json_holds_the_same(capsys: pytest.CaptureFixture[str], price: str, dim: int) -> None:
    options = ["--price", price, "--dim", f"{dim}", "--cells", "300", "--queries", "100"]
    options += ["--rate", "0.5", "--delta", "0.1"]
    code, out, err = typed(capsys, *options, "--json")
    assert (code, err) == (0, "")

    def never(name: str) -> None:
        raise AssertionError(name)

    found = json.loads(out, parse_constant=never)  # no NaN, no Infinity
    ratio = 1e5 if price == "inf" else float(price)
    assert (found["ratio"], found["dimension"], found["price"]) == (ratio, dim, price)
    cost = found["estimate"]["cost"]
    assert cost == 100 * (ratio + 1) / 2
    vanilla, optimal = found["estimate"]["vanilla"], found["estimate"]["optimal"]
    assert vanilla["n"] == pytest.approx(100)
    assert optimal["x"] == caps.optimal_overshoot(ratio, dim)
    assert optimal["n"] == pytest.approx(caps.optimal_queries(cost, ratio, dim))
    assert optimal["p"] + optimal["flagged"] == pytest.approx(1)
    for estimate in (vanilla, optimal):
        assert estimate["n"] * estimate["cost_of_a_query"] == pytest.approx(cost)
        assert 0 < estimate["expected_cosine"] < 1
    assert optimal["J"] >= vanilla["J"] * (1 - 1e-12)
    step = found["schedule"]["steps"][1]
    cosine = caps.scheduled_cosine(10, caps.initial_cosine(dim), 0.5)
    assert step == {"t": 10, "cosine": cosine, "omega": optimal["x"] * 0.1 / cosine}
    search = found["search"]
    best = search["optimal"]["cost"]
    others = ("binary", "asymmetric", "line, 1 stage", "line, 2 stages")
    assert all(search[name]["cost"] >= best * (1 - 1e-12) for name in others)
    assert typed(capsys, *options)[0] == 0
    assert math.isclose(search["asymmetric"]["share"], 1 / (ratio + 1))


def test_infinity_is_told_as_it_is_planned_for(capsys: pytest.CaptureFixture[str]) -> None:
    out = typed(capsys, "--price", "inf", "--cells", "1")[1]
    assert out.startswith("c* = inf (planned for 100,000), d = 150,528\n")
    assert rows(out)["optimal"][-1] == "0"


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = typed(capsys, "--help")
    assert code == 0
    assert all(f"--{field.name}" in out for field in dataclasses.fields(TheoryOptions))
    assert "--no-" not in out


@pytest.mark.parametrize(
    ("tokens", "told"),
    [
        ("", "--price"),
        ("--price", "--price requires an argument"),
        ("--price 0", "--price is '0': expected a number above 0"),
        ("--price -1", "--price is '-1': expected a number above 0"),
        ("--price -inf", "--price is '-inf': expected a number above 0"),
        ("--price nan", "--price is 'nan': expected a number above 0"),
        ("--price dear", "--price is 'dear': expected a number above 0"),
        ("--price 1e300", "--price is '1e300': expected a number above 0, from 1e-15 to 1e+15"),
        ("--price 1e400", "--price is '1e400': expected a number above 0"),
        ("--price " + "x" * 500, "(500 characters)'"),
        ("--price 5 --dim 1", "--dim is 1: expected 2 to 1000000000"),
        ("--price 5 --dim -3", "--dim is -3: expected 2"),
        ("--price 5 --dim 1e4", "--dim: it is '1e4': expected a whole number"),
        ("--price 5 --cells 0", "--cells is 0: expected 1 to 1000000"),
        ("--price 5 --cells 4194305", "--cells is 4194305: expected 1 to 1000000"),
        ("--price 5 --cells many", "--cells: it is 'many': expected a whole number"),
        ("--price 5 --queries 0", "--queries is 0: expected 1"),
        ("--price 5 --rate -1", "--rate is -1.0: expected 0 to 10"),
        ("--price 5 --rate nan", "--rate is nan: expected 0 to 10"),
        ("--price 5 --rate fast", "--rate"),
        ("--price 5 --delta 0", "--delta is 0: expected above 0"),
        ("--price 5 --delta nan", "--delta is nan: expected above 0"),
        ("--price 5 --delta inf", "--delta is inf: expected above 0"),
        ("--price 5 7", "7"),
        ("--price 5 --jsn", "Did you mean --json?"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], tokens: str, told: str) -> None:
    code, out, err = typed(capsys, *tokens.split())
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1


def test_a_narrow_terminal_without_utf_8() -> None:
    """Everything is there, in a process of its own."""
    settings = os.environ | {"COLUMNS": "60", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run([*TOLLBOX, "theory", "--price", "20"], capture_output=True, env=settings)
    assert (done.returncode, done.stderr) == (0, b"")
    found = rows(done.stdout.decode("ascii"))
    assert found["optimal"][-1] == f"{search_costs.optimal_search_cost(10_000, 20.0):.5g}"
