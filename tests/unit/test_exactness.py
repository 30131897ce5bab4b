"""What the model check finds out of rows that depend on more than themselves.

The networks here have no sums but their own, so that they are what they are called on any machine.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from options import grouped
from small_studies import NETWORK
from torch import Tensor, nn

import tollbox as tb
from tollbox.core.exactness import Exactness, Seen
from tollbox.model_check import (
    CHANCE,
    EXACT_SIZES,
    NEIGHBOURS,
    PLACE,
    SHAPE,
    check_model,
    exact_choice,
    examine,
    probes,
)

IMAGES = torch.rand((4, 3, 8, 8), generator=torch.Generator().manual_seed(1))
FEW = 1e-3
"""Changes a logit, and no label."""


class Net(nn.Module):
    """Three pixels are the logits, and all three get the same added."""

    def forward(self, images: Tensor) -> Tensor:
        return images[:, 0, 0, :3] + self.added(images) * FEW

    def added(self, images: Tensor) -> Tensor:
        return torch.zeros(len(images), 1, dtype=images.dtype)


class Placed(Net):
    def added(self, images: Tensor) -> Tensor:
        return torch.arange(len(images))[:, None]


class Looking(Net):
    def added(self, images: Tensor) -> Tensor:
        return images[:, 0, 0, 0].sort().values.cumsum(0)[-1]


class Shaped(Net):
    def added(self, images: Tensor) -> Tensor:
        return torch.tensor(float(len(images)))


class Random(Net):
    def added(self, images: Tensor) -> Tensor:
        return torch.rand(len(images), 1)


class PlacedUnless(Net):
    """Rows depend on their place, but for batches of one size, or in one layout."""

    def __init__(self, size: int = 0, layout: torch.memory_format = torch.channels_last) -> None:
        super().__init__()
        self.size, self.layout = size, layout
        self.conv = nn.Conv2d(3, 3, 1)

    def added(self, images: Tensor) -> Tensor:
        lies = images.is_contiguous(memory_format=self.layout)
        well = (not self.size or len(images) == self.size) and lies
        return torch.arange(len(images))[:, None] * (not well)


def exactness(net: nn.Module, *shapes: int) -> Exactness:
    examined = examine(tb.models.from_torch(net), IMAGES, shapes)
    assert examined.findings == []  # no label changed
    return examined.exactness


SEVERAL = (4, 8, 16)


@pytest.mark.parametrize(
    ("net", "matters"),
    [
        (Net(), []),
        (Placed(), ["its place in the batch"]),
        (Looking(), ["its neighbours in the batch", "the batch shape"]),
        (Shaped(), ["the batch shape"]),
    ],
)
def test_what_a_row_depends_on_is_seen_in_its_logits(net: nn.Module, matters: list[str]) -> None:
    found = exactness(net, *SEVERAL)
    assert (found.seen, list(found.matters), found.exact) == (Seen.LOGITS, matters, not matters)
    assert (found.shapes, found.layout, found.precision) == (SEVERAL, "contiguous", "float32")


def test_one_shape_cannot_depend_on_the_shape() -> None:
    assert exactness(Shaped(), 16).exact
    assert exactness(Looking(), 16).matters == (NEIGHBOURS,)


def test_a_network_that_answers_at_random_depends_on_chance() -> None:
    assert CHANCE in exactness(Random(), 16).matters


def test_a_place_that_matters_in_a_small_shape_alone_is_found() -> None:
    class SmallPlaced(Net):
        def added(self, images: Tensor) -> Tensor:
            return torch.arange(len(images))[:, None] * (len(images) == 8)

    assert PLACE not in exactness(SmallPlaced(), 16).matters
    assert PLACE in exactness(SmallPlaced(), 8, 16).matters


def test_logits_that_are_not_numbers_are_the_same_twice() -> None:
    class Undecided(Net):
        def forward(self, images: Tensor) -> Tensor:
            return super().forward(images) * torch.nan

    assert exactness(Undecided(), 16).exact


def test_without_logits_it_is_seen_by_labels_only() -> None:
    def labels(images: Tensor) -> Tensor:
        return images[:, 0, 0, :3].argmax(1)

    found = examine(tb.models.from_callable(labels), IMAGES, [16]).exactness
    assert (found.seen, found.exact) == (Seen.LABELS, True)
    assert found.sentence == (
        "Exact, compared by labels only: a row's labels depend on nothing but the row, in batches "
        "of 16 (float32)."
    )
    inside = tb.models.from_torch(nn.Sequential(Net(), Argmax()))
    assert examine(inside, IMAGES, [16]).exactness.seen is Seen.LABELS


class Argmax(nn.Module):
    def forward(self, logits: Tensor) -> Tensor:
        return logits.argmax(1)


def test_labels_that_change_make_a_model_unfit() -> None:
    def labels(images: Tensor) -> Tensor:
        return torch.arange(len(images)) % 5

    model = tb.models.from_callable(labels)
    found = examine(model, IMAGES, [16])
    assert found.findings == [
        "15 of 16 labels changed when the same images were sent in another order: results would "
        "depend on the batch."
    ]
    assert check_model(model, IMAGES, 16) == found.findings


def test_a_model_that_fails_is_not_known() -> None:
    found = examine(tb.models.from_callable(lambda images: 1 // 0), IMAGES, [16])
    assert "ZeroDivisionError" in found.findings[0]
    assert (found.exactness.seen, found.exactness.exact) == (Seen.FAILED, False)
    with pytest.raises(
        tb.errors.InputError, match="exact is set, and The model failed on a batch: Zero"
    ):
        exact_choice(tb.models.from_callable(lambda images: 1 // 0), IMAGES, None)


def test_probes_are_permutations_and_other_neighbours_at_the_same_places() -> None:
    for kind, rows in probes(16, 16, thorough=True):
        assert len(rows) == 16
        if kind == PLACE:
            assert sorted(rows.tolist()) == list(range(16))
            assert (rows != torch.arange(16)).any()
        if kind == NEIGHBOURS:
            assert (rows == torch.arange(16)).any()
            assert (rows != torch.arange(16)).any()
    assert sum(1 for _ in probes(16, 16, thorough=True)) < 15  # it is to be cheap


def test_all_rows_of_the_probes_are_distinct() -> None:
    sent = []

    def labels(images: Tensor) -> Tensor:
        sent.append(images.clone())
        return torch.zeros(len(images)).long()

    examine(tb.models.from_callable(labels), IMAGES[:1], [64])
    assert len(torch.unique(sent[0].flatten(1), dim=0)) >= 63  # an image blends with itself


def test_the_digest_is_that_of_the_logits() -> None:
    assert exactness(Net(), 16).digest == exactness(Net(), 16).digest
    assert exactness(Net(), 16).digest != exactness(Shaped(), 16).digest


def test_sentences() -> None:
    found = Exactness(Seen.LOGITS, (PLACE, SHAPE), (32, 256), precision="TF32")
    assert found.sentence == (
        "Repeated runs may differ in the last digits or more: a row's logits depend on its place "
        "in the batch and the batch shape, in batches of 32 to 256 (TF32)."
    )
    assert exactness(Net(), 16).sentence == (
        "Exact: a row's logits depend on nothing but the row, in batches of 16 (float32, "
        "contiguous)."
    )
    assert exactness(Net(), 16).after(["b", "a", "b"]).sentence.endswith(". What ended it: a; b.")
    assert exactness(Net(), 16).after([]).exact
    assert Exactness().after(["a"]) == Exactness()
    assert Exactness().sentence.startswith("Not checked: repeated runs may or may not agree")
    assert Exactness(Seen.METERED).sentence.startswith("Not probed, since each row of a metered")


def test_the_precision_is_that_of_the_network() -> None:
    assert tb.models.from_torch(nn.Conv2d(3, 3, 1), dtype=torch.float64).precision == "float64"
    assert tb.models.from_torch(nn.Flatten(), dtype=torch.float16).precision == "float16"
    assert tb.models.from_callable(len, dtype=torch.float64).precision == "float64"


@pytest.mark.parametrize("allowed", [True, False])
def test_tf32_is_what_the_model_was_told_else_what_torch_is_set_to(
    monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    monkeypatch.setattr("tollbox.core.model.tf32_allowed", lambda: allowed)
    on_cuda = replace(tb.models.from_callable(len), device=torch.device("cuda"))
    for told, dtype, wanted in (
        ({}, "float32", "TF32" if allowed else "float32"),
        ({"tf32": "true"}, "float32", "TF32"),
        ({"tf32": "false"}, "float32", "float32"),
        ({"tf32": "true"}, "bfloat16", "bfloat16"),
    ):
        model = replace(on_cuda, running={"dtype": dtype, **told})
        assert model.precision == wanted
        assert replace(model, device=torch.device("cpu")).precision == dtype


def test_a_network_of_matrix_products_is_found_where_its_rows_depend_on_their_place() -> None:
    """With some libraries they do, even in float64; then, and only then, the check says so."""
    scope: dict[str, Any] = {"__name__": "small"}
    exec(NETWORK, scope)
    net = scope["net"].double()
    model = tb.models.from_torch(net, dtype=torch.float64)
    rows = torch.rand(64, 3, 8, 8, dtype=torch.float64)
    with torch.inference_mode():
        alike = torch.equal(net(rows).flip(0), net(rows.flip(0)))
    if alike:
        pytest.skip("its rows do not depend on their place on this machine")
    assert PLACE in examine(model, IMAGES, [64]).exactness.matters


class TestChoice:
    def test_the_default_is_taken_if_it_will_do(self) -> None:
        _, found = exact_choice(tb.models.from_torch(Net()), IMAGES, None)
        assert (found.exactness.shapes, found.exactness.exact) == ((64,), True)

    def test_another_batch_size_is_looked_for(self) -> None:
        for size in EXACT_SIZES:
            given = tb.models.from_torch(PlacedUnless(size))
            model, found = exact_choice(given, IMAGES, None)
            assert model is given
            assert (found.exactness.shapes, found.exactness.layout) == ((size,), "channels_last")

    def test_the_other_layout_is_tried_before_another_size(self) -> None:
        net = PlacedUnless(layout=torch.contiguous_format)
        model, found = exact_choice(tb.models.from_torch(net), IMAGES, None)
        assert (model.layout, found.exactness.layout) == ("contiguous", "contiguous")
        assert found.exactness.shapes == (64,)

    def test_a_given_batch_size_is_the_only_one(self) -> None:
        model = tb.models.from_torch(PlacedUnless(32))
        assert exact_choice(model, IMAGES, 32)[1].exactness.shapes == (32,)
        with pytest.raises(tb.errors.InputError) as refusal:
            exact_choice(model, IMAGES, 16)
        assert str(refusal.value) == (
            "exact is set, and a row of the model depends on its place in the batch (float32, "
            "batches of 16, channels_last and contiguous): expected a batch shape and layout in "
            "which it depends only on itself; take another precision, or another batch_size (1 "
            "is slow, but a row is then alone), or leave exact out."
        )
        assert exact_choice(tb.models.from_torch(Placed()), IMAGES, 1)[1].exactness.exact

    def test_so_is_the_one_that_the_model_takes(self) -> None:
        model = tb.models.from_torch(PlacedUnless(32), batch=16)
        with pytest.raises(tb.errors.InputError, match="batches of 16"):
            exact_choice(model, IMAGES, None)


def run(net: nn.Module, **options: object) -> tb.Results:
    model = tb.models.from_torch(net)
    labels = model(IMAGES).tolist()
    return tb.run(tb.preset("hsja"), model, IMAGES, labels, budget=60, **grouped(options))


class TestRun:
    def test_exact_takes_what_was_chosen(self) -> None:
        model = tb.models.from_torch(PlacedUnless(128, torch.contiguous_format))
        labels = model(IMAGES).tolist()
        results = tb.run(
            tb.preset("hsja"), model, IMAGES, labels, budget=60, execution=tb.Execution(exact=True)
        )
        assert results.exactness.shapes == (128,)
        assert results.exactness.exact
        same = {"budget": 60, "batch_size": 128, "one_shape": True}
        plain = tb.run(
            tb.preset("hsja"), model.in_layout("contiguous"), IMAGES, labels, **grouped(same)
        )
        assert [r.improvements for r in results] == [r.improvements for r in plain]

    def test_all_batches_of_an_exact_run_have_the_shape(self) -> None:
        sizes: list[int] = []

        class Counted(Net):
            def forward(self, images: Tensor) -> Tensor:
                sizes.append(len(images))
                return super().forward(images)

        model = tb.models.from_torch(Counted())
        labels = model(IMAGES).tolist()
        sizes.clear()
        tb.run(
            tb.preset("hsja"), model, IMAGES, labels, budget=60, execution=tb.Execution(exact=True)
        )
        assert set(sizes[2:]) == {64}  # after the trial on one image
        sizes.clear()
        list(
            tb.stream(
                tb.preset("hsja"),
                model,
                IMAGES,
                labels,
                budget=60,
                execution=tb.Execution(exact=True),
            )
        )
        assert set(sizes[2:]) == {64}

    def test_exact_refuses_if_there_is_none(self) -> None:
        with pytest.raises(
            tb.errors.InputError, match="exact is set, and a row of the model depends on"
        ):
            run(Placed(), exact=True)
        model = tb.models.from_torch(Placed())
        with pytest.raises(tb.errors.InputError, match="exact is set"):
            list(
                tb.stream(
                    tb.preset("hsja"),
                    model,
                    IMAGES,
                    [0] * 4,
                    budget=9,
                    execution=tb.Execution(exact=True),
                )
            )

    def test_the_check_says_what_it_found_without_a_warning(self) -> None:
        results = run(Placed(), check=True)
        assert results.findings == ()
        assert results.exactness.matters == (PLACE,)
        assert results.exactness.shapes == (8, 16, 24, 32, 40, 48, 56, 64)
        assert results[:1].exactness == results.counted.exactness == results.exactness

    def test_without_it_nothing_is_known(self) -> None:
        assert run(Net()).exactness.seen is Seen.NOT_CHECKED
        assert run(Net(), metered=True).exactness.seen is Seen.METERED

    def test_a_metered_model_is_not_probed(self) -> None:
        with pytest.raises(
            tb.errors.InputError, match=r"exact and metered are both set: .* shapes vary"
        ):
            run(Net(), exact=True, metered=True)

    def test_running_out_of_memory_ends_exactness_and_is_told(self) -> None:
        class Small(Net):
            full = False

            def forward(self, images: Tensor) -> Tensor:
                if self.full and len(images) == 64:
                    raise torch.OutOfMemoryError
                return super().forward(images)

        def fill(now: tb.attack.Progress) -> None:
            net.full = now.done > 0

        net = Small().eval()
        model, labels = tb.models.from_torch(net), IMAGES[:, 0, 0, :3].argmax(1)
        options: dict[str, Any] = {"budget": 60, "exact": True, "live": 1, "progress": fill}
        results = tb.run(tb.preset("hsja"), model, IMAGES, labels, **grouped(options))
        assert (bool(results[0].warnings), bool(results[-1].warnings)) == (False, True)
        assert not results.exactness.exact
        assert results.exactness.sentence == (
            "Exact at first only: a row's logits depend on nothing but the row, in batches of 64 "
            "(float32, contiguous). What ended it: out of memory: the batch size was reduced "
            "from 64 to 32, for which exactness was not checked."
        )

    def test_exact_is_a_flag(self) -> None:
        with pytest.raises(tb.errors.InputError, match="exact is 'yes'"):
            run(Net(), exact="yes")


@pytest.mark.slow
def test_workers_take_the_chosen_layout() -> None:
    """Those that were made with the model in its first layout, too."""
    model = tb.models.from_torch(PlacedUnless(32, torch.contiguous_format))
    labels = model(IMAGES).tolist()
    exact = tb.Execution(exact=True)
    alone = tb.run(tb.preset("hsja"), model, IMAGES, labels, budget=60, execution=exact)
    with tb.workers.Workers(model, 2) as workers:
        for each in (2, workers):
            shared = tb.run(
                tb.preset("hsja"),
                model,
                IMAGES,
                labels,
                budget=60,
                execution=replace(exact, workers=each),
            )
            assert shared.exactness.layout == "contiguous"
            assert [r.improvements for r in shared] == [r.improvements for r in alone]
