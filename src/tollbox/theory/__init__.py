"""The paper's mathematics: caps, the overshoot, the schedule, and the costs of searches."""

from .caps import (
    cap_complement,
    cap_probability,
    expected_cosine,
    expected_weighted_height,
    initial_cosine,
    log_objective,
    objective,
    optimal_overshoot,
    optimal_queries,
    scheduled_cosine,
)
from .search_costs import (
    OptimalSplits,
    expected_line_search_cost,
    expected_search_cost,
    line_step,
    optimal_search_cost,
    optimal_share,
    optimal_splits,
    split,
)

__all__ = [
    "OptimalSplits",
    "cap_complement",
    "cap_probability",
    "expected_cosine",
    "expected_line_search_cost",
    "expected_search_cost",
    "expected_weighted_height",
    "initial_cosine",
    "line_step",
    "log_objective",
    "objective",
    "optimal_overshoot",
    "optimal_queries",
    "optimal_search_cost",
    "optimal_share",
    "optimal_splits",
    "scheduled_cosine",
    "split",
]
