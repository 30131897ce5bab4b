"""What the authors' code gives, as plain numbers, against ours.

Made by their functions (mahdisalmani/Asymmetric-Attacks, commit b898fce), which were run by
`benchmarks/authors_side.py --code DIR --numbers`: images of 3 x 224 x 224 and 3 x 32 x 32, all of
them (HSJA, m = 0.02) and a DCT subspace of factor 4 (CGBA, m = 0.06), n_0 = 30. Their optimum is
found by Nelder and Mead, so it has about five digits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
import torch
from driver import drive

import tollbox as tb
from tollbox.core.ask import Iterate
from tollbox.parts.estimates import Agrest
from tollbox.parts.subspaces import Dct, Full
from tollbox.theory import caps

COSINES = {150_528: 0.002056516209973792, 3072: 0.014396761125032933}
"""cos alpha_1 by d."""


class Row(NamedTuple):
    side: int
    d: int
    """d' of the subspace."""
    price: float
    x: float
    flagged: float
    """1 - p at x*."""
    omega: tuple[float, ...]
    """In units of delta, at t = 1, 2, 3, 10."""
    queries: tuple[int, ...]
    """n*, likewise."""

    @property
    def part(self) -> Agrest:
        full = self.d == 3 * self.side**2
        return Agrest(m=0.02, subspace=Full()) if full else Agrest(m=0.06, subspace=Dct(4))

    @property
    def problem(self) -> tb.attack.Problem:
        return tb.attack.Problem(torch.zeros(3, self.side, self.side), 0, tb.Prices(self.price, 1))


STEPS = (1, 2, 3, 10)
FLAGGED = {2: (23, 32, 39, 71), 5: (18, 26, 31, 57), 100: (16, 22, 26, 48), 1000: (16, 22, 26, 48)}
"""Flagged answers, one at a time, that end an estimate: where c_t is reached; by c*, whatever d."""
ROWS = [
    Row(
        224,
        150528,
        2,
        0.00096699524,
        0.35376612,
        (0.47021036, 0.06121967, 0.040725128, 0.020586906),
        (33, 46, 56, 104),
    ),
    Row(
        224,
        150528,
        5,
        0.0021381645,
        0.20339364,
        (1.0397023, 0.13536543, 0.090049073, 0.04552059),
        (49, 69, 84, 155),
    ),
    Row(
        224,
        150528,
        100,
        0.0050910492,
        0.024121306,
        (2.4755697, 0.32231012, 0.21441019, 0.10838621),
        (447, 626, 760, 1401),
    ),
    Row(
        224,
        150528,
        1000,
        0.0068572597,
        0.0039013127,
        (3.3344059, 0.43412745, 0.28879437, 0.14598807),
        (3065, 4292, 5212, 9606),
    ),
    Row(
        224,
        9408,
        2,
        0.0038677616,
        0.35378396,
        (1.8807348, 0.090561609, 0.058855244, 0.029563814),
        (33, 46, 56, 104),
    ),
    Row(
        224,
        9408,
        5,
        0.0085522428,
        0.20341855,
        (4.158607, 0.20024628, 0.13013841, 0.065370345),
        (49, 69, 84, 155),
    ),
    Row(
        224,
        9408,
        100,
        0.020362366,
        0.024128865,
        (9.9013884, 0.47677411, 0.30985157, 0.15564278),
        (447, 625, 760, 1400),
    ),
    Row(
        224,
        9408,
        1000,
        0.027424751,
        0.003903,
        (13.335539, 0.64213617, 0.41731901, 0.20962518),
        (3064, 4290, 5210, 9603),
    ),
    Row(
        32,
        3072,
        2,
        0.0067677081,
        0.35382385,
        (0.47008546, 0.24199899, 0.18895506, 0.11518285),
        (33, 46, 56, 104),
    ),
    Row(
        32,
        3072,
        5,
        0.014964789,
        0.20347392,
        (1.0394553, 0.53510937, 0.41781835, 0.25469288),
        (49, 69, 84, 155),
    ),
    Row(
        32,
        3072,
        100,
        0.035627276,
        0.024144922,
        (2.474673, 1.2739564, 0.99471697, 0.60635759),
        (446, 625, 759, 1400),
    ),
    Row(
        32,
        3072,
        1000,
        0.047976624,
        0.0039068369,
        (3.3324595, 1.7155431, 1.3395119, 0.81653701),
        (3062, 4287, 5206, 9595),
    ),
    Row(
        32,
        192,
        2,
        0.026993547,
        0.35470887,
        (1.8749736, 0.49487515, 0.34934257, 0.19066543),
        (33, 46, 56, 104),
    ),
    Row(
        32,
        192,
        5,
        0.059712564,
        0.2047139,
        (4.1476387, 1.0947158, 0.77278247, 0.42177198),
        (49, 69, 84, 155),
    ),
    Row(
        32,
        192,
        100,
        0.14189594,
        0.024508297,
        (9.8561012, 2.601391, 1.8363756, 1.0022636),
        (442, 619, 751, 1385),
    ),
    Row(
        32,
        192,
        1000,
        0.19042229,
        0.0039941733,
        (13.226745, 3.4910291, 2.4643894, 1.3450232),
        (3008, 4212, 5115, 9427),
    ),
]
ids = [f"{row.d}-{row.price:g}" for row in ROWS]
rows = pytest.mark.parametrize("row", ROWS, ids=ids)


@pytest.mark.parametrize(("d", "cosine"), COSINES.items())
def test_the_initial_cosine(d, cosine):
    assert caps.initial_cosine(d) == pytest.approx(cosine, rel=1e-9)


@rows
def test_the_optimal_overshoot_and_its_share(row):
    x = caps.optimal_overshoot(row.price, row.d)
    assert x == pytest.approx(row.x, rel=1e-5)
    assert caps.cap_complement(x, row.d) == pytest.approx(row.flagged, rel=5e-5)


@rows
def test_the_overshoot_by_iteration(row):
    part, problem = row.part, row.problem
    found = [part.overshoot(problem, t) / part.delta for t in STEPS]
    assert found == pytest.approx(list(row.omega), rel=1e-5)


@rows
def test_the_number_of_queries(row):
    """Theirs is rounded down."""
    for t, queries in zip(STEPS, row.queries, strict=True):
        cost = int(30 * math.sqrt(t)) * (row.price + 1) / 2
        assert math.floor(caps.optimal_queries(cost, row.price, row.d)) == queries


@pytest.mark.parametrize("row", [row for row in ROWS if row.side == 32], ids=str)
def test_where_an_estimate_ends(row):
    """If all answers are flagged, at c_t, exactly; if none is, at n*, rounded to either side."""
    problem, part = row.problem, row.part
    found = Iterate(problem.source + 0.5, 0.5 * math.sqrt(problem.dimension))
    for t, flagged, queries in zip(STEPS, FLAGGED[int(row.price)], row.queries, strict=True):
        planned = int(30 * math.sqrt(t))
        one_by_one = Agrest(m=part.m, subspace=part.subspace, chunk=1).begin(problem)
        assert len(drive(one_by_one(t, found, planned), problem, lambda _: 0).labels) == flagged
        if queries < 2000:
            done = drive(part.begin(problem)(t, found, planned), problem, lambda _: 1)
            assert len(done.labels) - queries in (0, 1)
