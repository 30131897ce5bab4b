"""Search costs: which bin a search queries next, and its exact expected cost.

A search is over m bins, and the boundary is equally likely in each. T(0) is known to be adversarial
and T(m) to be flagged; neither is queried. A query at k costs c* and leaves the first k bins if its
answer is flagged; otherwise it costs 1 and leaves the other m - k:

    C(m) = k/m (C(k) + c*) + (1 - k/m) (C(m-k) + 1),    C(1) = 0

- Binary search uses k = ceil(m/2), and asymmetric search (Algorithm 1) k = ceil(m / (c*+1)).
- The cost-optimal search uses the k that minimises C; k/m tends to q = x^c*, where x + x^c* = 1.
- A line search with s stages (egg dropping) queries step, 2 step, ... up to the first flagged
  answer, and continues within the last step with one stage fewer: at most s flagged answers.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from ..core.validation import expect, require


def split(width: int, ratio: float) -> int:
    """Return the bin that asymmetric search queries in an interval of `width` bins, counted from
    its adversarial end: ceil(width / (c* + 1)), but never the far end (Algorithm 1)."""
    return min(math.ceil(width / (ratio + 1)), width - 1)


def expected_search_cost(bins: int, ratio: float, split_ratio: float | None = None) -> float:
    """Return the expected cost of asymmetric search over `bins` bins, by the recursion. The search
    plans with `split_ratio`, which defaults to c*; a value of 1 means binary search."""
    planned = ratio if split_ratio is None else split_ratio
    splits: dict[int, int] = {}
    pending = [bins]
    while pending:
        width = pending.pop()
        if width not in splits:
            splits[width] = k = split(width, planned)
            if 1 < k < width - 1:
                pending += (k, width - k)
    cost: dict[int, float] = {}
    for width, k in sorted(splits.items()):
        if k <= 1:  # as in all narrower intervals: bin after bin
            cost[width] = _one_by_one(width, 1, ratio)
        elif k == width - 1:  # the same from the flagged end
            cost[width] = _one_by_one(width, ratio, 1)
        else:
            flagged, passed = k * (cost[k] + ratio), (width - k) * (cost[width - k] + 1)
            cost[width] = (flagged + passed) / width
    return cost[bins]


def _one_by_one(width: int, each: float, last: float) -> float:
    """Return the expected cost of querying bin after bin; the last answer costs `last`."""
    return (width * (width - 1) // 2 * each + (width - 1) * last) / width


def line_step(width: int, stages: int) -> int:
    """Return the step of a line search with `stages` stages left in an interval of `width` bins:
    ceil(width / b), where b is the smallest integer with b^stages >= width; 1 in the last stage."""
    require(stages >= 1, "stages", stages, "1 or more")
    if stages == 1 or width <= 1:
        return 1
    if (width - 1).bit_length() <= stages:  # 2^stages >= width
        return -(-width // 2)
    b: int = max(2, math.floor(width ** (1 / stages)) - 1)
    while b**stages < width:
        b += 1
    return -(-width // b)


def expected_line_search_cost(bins: int, ratio: float, stages: int = 1) -> float:
    """Return the expected cost of a line search over `bins` bins."""
    passed, flagged = _line_answers(bins, stages)
    return (passed + flagged * ratio) / bins


@lru_cache(maxsize=1024)
def _line_answers(width: int, stages: int) -> tuple[int, int]:
    """Return the counts of low-cost and flagged answers, summed over all boundary positions."""
    if width <= 1:
        return 0, 0
    step = line_step(width, stages)
    asked = (width - 1) // step
    rest = width - asked * step  # bins after the last query; no flagged answer leads there
    passed = step * (asked * (asked - 1) // 2) + rest * asked
    flagged = step * asked
    for times, part in ((asked, step), (1, rest)):
        more = _line_answers(part, stages - 1) if stages > 1 else (0, 0)
        passed, flagged = passed + times * more[0], flagged + times * more[1]
    return passed, flagged


@lru_cache(maxsize=64)
def optimal_share(ratio: float) -> float:
    """Return q = x^c* with x + x^c* = 1: the share of an interval on the flagged side of the
    cost-optimal split, in the limit of many bins."""
    expect(0 < ratio < math.inf, f"c* = {ratio:g}", "a finite ratio above 0")
    if ratio < 1:
        return 1 - optimal_share(min(1 / ratio, 1e300))
    # log q = c* log(1 - q), solved for log q: as precise at c* = 1e9 as at 2
    log_q = brentq(lambda y: y - ratio * math.log1p(-math.exp(y)), -720.0, math.log(0.6))
    return math.exp(float(log_q))


@dataclass(frozen=True)
class OptimalSplits:
    """The exact cost-optimal search for every number of bins up to n.

    A search is a binary tree whose leaves are the bins, and whose branches cost 1 (adversarial)
    and c* (flagged). The best tree for m + 1 equally likely leaves is the best for m with its
    cheapest leaf split. So W(m), m times the expected cost, has increasing differences, and the
    search for the best split of m can start at that of m - 1.
    """

    total: NDArray[np.float64]
    """W(m), m times the expected cost over m bins."""
    first: NDArray[np.int64]
    """The bin to query among m bins, counted from the adversarial end."""

    def cost(self, bins: int) -> float:
        return float(self.total[bins]) / bins


@lru_cache(maxsize=8)
def optimal_splits(bins: int, ratio: float) -> OptimalSplits:
    """Return the cost-optimal search for every number of bins up to `bins`."""
    total = [0.0] * (bins + 1)
    leaves = [0.0]
    for m in range(2, bins + 1):
        cheapest = heapq.heapreplace(leaves, leaves[0] + 1)
        heapq.heappush(leaves, cheapest + ratio)
        total[m] = total[m - 1] + cheapest + 1 + ratio
    first, k = [0] * (bins + 1), 1
    for m in range(2, bins + 1):

        def cost(k: int, m: int = m) -> float:
            return total[k] + k * ratio + total[m - k] + m - k

        while k < m - 1 and cost(k + 1) < cost(k):
            k += 1
        first[m] = k
    return OptimalSplits(np.array(total), np.array(first, np.int64))


def optimal_search_cost(bins: int, ratio: float) -> float:
    """Return the expected cost of the cost-optimal search over `bins` bins, without a table. The
    inner nodes of its tree, the queries, are the bins - 1 possible nodes that cost least to reach.
    Each adds the cost of reaching it plus 1 + c*."""
    if ratio < 1:
        return ratio * optimal_search_cost(bins, 1 / ratio)
    if bins == 1:
        return 0.0
    inner, low, high = bins - 1, -1.0, min(float(bins), ratio * bins.bit_length())
    while low < (middle := (low + high) / 2) < high:
        if sum(math.comb(i + j + 1, j + 1) for i, j in _nodes(middle, ratio)) <= inner:
            low = middle
        else:
            high = middle
    total = inner * (1 + ratio)
    for i, j in _nodes(low, ratio):
        row = math.comb(i + j + 1, j + 1)
        total += (j + 1) * math.comb(i + j + 1, j + 2) + row * j * ratio
        inner -= row
    return (total + inner * high) / bins  # the remaining nodes all cost `high` to reach


def _nodes(most: float, ratio: float) -> list[tuple[int, int]]:
    """Return, for each j, the largest i with i + j c* <= `most`. The (i+j choose j) nodes after i
    low-cost and j flagged answers each cost i + j c* to reach."""
    return [
        (math.floor(max(0.0, most - j * ratio)), j) for j in range(math.floor(most / ratio) + 1)
    ]
