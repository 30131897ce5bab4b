"""What searches cost: where they ask in an interval of bins, and their exact expected cost.

A search is over m bins, the boundary being equally likely in each. It knows that T(0) is
adversarial and T(m) the source; neither is asked. To ask at k costs c* and leaves the first k bins
if the answer is flagged, and costs 1 and leaves the other m - k if it is not:

    C(m) = k/m (C(k) + c*) + (1 - k/m) (C(m-k) + 1),    C(1) = 0

- Binary search has k = ceil(m/2), asymmetric search (Algorithm 1) k = ceil(m / (c*+1)).
- The cost-optimal search has the k that minimises C; its share k/m goes to q = x^c*, x + x^c* = 1.
- A line search of s stages (egg dropping) asks at step, 2 step, ... up to the first flagged answer,
  and goes on within the last step with one stage fewer: at most s flagged answers.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from ..errors import InputError

# -- asymmetric and binary ------------------------------------------------------------------------


def split(width: int, ratio: float) -> int:
    """Where asymmetric search asks in an interval of `width` bins, from its adversarial end on:
    ceil(width / (c* + 1)), and never at the far end (Algorithm 1)."""
    return min(math.ceil(width / (ratio + 1)), width - 1)


def expected_search_cost(bins: int, ratio: float, split_ratio: float | None = None) -> float:
    """Expected cost of asymmetric search over `bins` bins with the boundary uniform among them.

    By the recursion, over the widths that can occur. `split_ratio` is the c* that the search splits
    for, if it is not the price: 1 is binary search.
    """
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
        if k <= 1:  # and 1 in all that is narrower: bin after bin
            cost[width] = _one_by_one(width, 1, ratio)
        elif k == width - 1:  # likewise, from the source's end
            cost[width] = _one_by_one(width, ratio, 1)
        else:
            flagged, passed = k * (cost[k] + ratio), (width - k) * (cost[width - k] + 1)
            cost[width] = (flagged + passed) / width
    return cost[bins]


def _one_by_one(width: int, each: float, last: float) -> float:
    """Expected cost of asking bin after bin; the answer that ends it costs `last`."""
    return (width * (width - 1) // 2 * each + (width - 1) * last) / width


# -- line search ----------------------------------------------------------------------------------


def line_step(width: int, stages: int) -> int:
    """How far apart a line search with `stages` stages left asks in an interval of `width` bins:
    ceil(width / b), b the smallest integer with b^stages >= width; 1 in the last stage."""
    if stages < 1:
        raise InputError(f"is {stages}", input="stages", expected="1 or more")
    if stages == 1 or width <= 1:
        return 1
    if (width - 1).bit_length() <= stages:  # 2^stages >= width
        return -(-width // 2)
    b: int = max(2, math.floor(width ** (1 / stages)) - 1)
    while b**stages < width:
        b += 1
    return -(-width // b)


def expected_line_search_cost(bins: int, ratio: float, stages: int = 1) -> float:
    """Expected cost of a line search over `bins` bins with the boundary uniform among them."""
    passed, flagged = _line_answers(bins, stages)
    return (passed + flagged * ratio) / bins


@lru_cache(maxsize=1024)
def _line_answers(width: int, stages: int) -> tuple[int, int]:
    """Low-cost and flagged answers of a line search, summed over the places of the boundary."""
    if width <= 1:
        return 0, 0
    step = line_step(width, stages)
    asked = (width - 1) // step
    rest = width - asked * step  # bins after the last that is asked; no flagged answer leads there
    passed = step * (asked * (asked - 1) // 2) + rest * asked
    flagged = step * asked
    for times, part in ((asked, step), (1, rest)):
        more = _line_answers(part, stages - 1) if stages > 1 else (0, 0)
        passed, flagged = passed + times * more[0], flagged + times * more[1]
    return passed, flagged


# -- optimal --------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def optimal_share(ratio: float) -> float:
    """q = x^c* with x + x^c* = 1: the share of an interval on the flagged side of the cost-optimal
    split, in the limit of many bins."""
    if not 0 < ratio < math.inf:
        raise InputError(f"c* = {ratio:g}", expected="a finite ratio above 0")
    if ratio < 1:
        return 1 - optimal_share(min(1 / ratio, 1e300))
    # log q = c* log(1 - q), in log q: as precise at c* = 1e9 as at 2
    log_q = brentq(lambda y: y - ratio * math.log1p(-math.exp(y)), -720.0, math.log(0.6))
    return math.exp(float(log_q))


@dataclass(frozen=True)
class OptimalSplits:
    """The cost-optimal search over up to n bins, exactly.

    A search is a binary tree whose leaves are the bins, and whose branches cost 1 (adversarial)
    and c* (flagged). The best tree for m + 1 equally likely leaves is the best for m with its
    cheapest leaf split; so W(m), m times the expected cost, has rising differences, and the best
    split of m is found by moving on from that of m - 1.
    """

    total: NDArray[np.float64]
    """W(m): the expected cost times m."""
    first: NDArray[np.int64]
    """Where to ask in m bins, counted from the adversarial end."""

    def cost(self, bins: int) -> float:
        """Expected cost over `bins` bins."""
        return float(self.total[bins]) / bins


@lru_cache(maxsize=8)
def optimal_splits(bins: int, ratio: float) -> OptimalSplits:
    """The cost-optimal search for every number of bins up to `bins`."""
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
    """Expected cost of the cost-optimal search over `bins` bins, without a table.

    What its tree asks, the inner nodes, are the bins - 1 that cost least to get to, of all there
    could be; each adds what it costs to get to, and 1 + c*.
    """
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
    return (total + inner * high) / bins  # those left all cost `high`


def _nodes(most: float, ratio: float) -> list[tuple[int, int]]:
    """For each j the largest i with i + j c* <= `most`: what it costs to get to each of the
    (i+j choose j) nodes that lie after i low-cost and j flagged answers."""
    return [
        (math.floor(max(0.0, most - j * ratio)), j) for j in range(math.floor(most / ratio) + 1)
    ]
