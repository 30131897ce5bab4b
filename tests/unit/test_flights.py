"""How many rows go out in a batch, where two may be on their way (engine/sender.py)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tollbox.engine.sender import Sender


def sender(one_shape: bool = False) -> Sender:
    model: Any = SimpleNamespace(device=torch.device("cuda"), batch=None)
    return Sender(model, 128, one_shape, metered=False)


def flights(cells: int, rounds: int) -> list[int]:
    """Batches on their way, round by round, of cells that ask one query at a time: as the engine
    dispatches, and waits for the oldest."""
    sending, ready = sender(), cells
    on_their_way: list[int] = []
    counts = []
    for _ in range(rounds):
        while ready and len(on_their_way) < 2:
            rows = sending.rows_to_launch(min(ready, 256), 2 - len(on_their_way))
            if on_their_way and not sending.is_worth_it(rows):
                break
            on_their_way.append(rows)
            ready -= rows
        counts.append(len(on_their_way))
        ready += on_their_way.pop(0)
    return counts


@pytest.mark.parametrize("cells", [128, 150, 180, 190, 220, 255, 256, 300])
def test_the_device_has_two_batches_while_enough_cells_ask_one_query_at_a_time(cells):
    assert flights(cells, 50)[1:] == [2] * 49


@pytest.mark.parametrize("cells", [1, 20, 63, 100])
def test_few_cells_are_not_split_into_batches_that_are_not_worth_it(cells):
    assert flights(cells, 20) == [1] * 20


def test_with_one_shape_halves_would_be_padding():
    assert sender(one_shape=True).rows_to_launch(190, 2) == 128


@pytest.mark.parametrize("wanted", range(1, 257))
def test_no_more_go_out_than_are_wanted_or_fit(wanted):
    for left in (1, 2):
        assert 1 <= sender().rows_to_launch(wanted, left) <= min(wanted, 128)
