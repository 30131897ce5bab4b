"""Whether a model resolves what an attack samples: the statistic, the check, and what is said."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tollbox as tb
from tollbox._run import run_cells
from tollbox.attack import Ask
from tollbox.core.by_side import at_side
from tollbox.core.cell import Cell
from tollbox.core.model import Decision, Model
from tollbox.core.resolution import Found, Resolution, unresolved
from tollbox.core.stop import Stop
from tollbox.engine import cell_run
from tollbox.engine import resolution as checks
from tollbox.engine.engine import Engine
from tollbox.engine.resolution import Probe, resolution
from tollbox.errors import ModelWarning
from tollbox.models.embedded import embedded
from tollbox.parts.subspaces import Dct, Full
from tollbox.workers.pool import Workers

SHIPPED = embedded()
RIGHT = SHIPPED.model(SHIPPED.images) == SHIPPED.labels
IMAGES, LABELS = SHIPPED.images[RIGHT], SHIPPED.labels[RIGHT]
NET: Any = SHIPPED.model.network
CGBA, HSJA, FRUGAL = (tb.preset(name) for name in ("cgba", "hsja", "frugal"))
pytestmark = pytest.mark.filterwarnings("ignore::tollbox.errors.ModelWarning")


def found(attack: Any, model: Any, count: int = 2, **execution: Any) -> list[Resolution]:
    results = tb.run(
        attack,
        model,
        IMAGES[:count],
        LABELS[:count],
        budget=4,
        execution=tb.Execution(**execution),
    )
    return [result.resolution for result in results]


def outcomes(*args: Any, **options: Any) -> set[Found]:
    return {each.found for each in found(*args, **options)}


def at_radius(attack: Any, delta: float) -> Any:
    return replace(attack, estimate=replace(attack.estimate, delta=delta))


def rounded(bits: int) -> Model:
    """The embedded network, with inputs of its layers rounded as tensor cores do; how it is run is
    not known to tollbox."""

    def cut(_: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        mantissa, exponent = torch.frexp(inputs[0])
        return (torch.ldexp((mantissa * 2 ** (bits + 1)).round() / 2 ** (bits + 1), exponent),)

    net = copy.deepcopy(NET)
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_pre_hook(cut)
    return replace(tb.models.from_torch(net), running={})


class Noisy:
    """A plane with noise: logits (<w, x - 0.5> + sigma z, 0), where z is a fixed function of x, of
    mean 0 and variance 1, nearly normal, and unrelated between any two points."""

    def __init__(self, sigma: float) -> None:
        generator = torch.Generator().manual_seed(0)
        drawn = torch.randn(192, 17, generator=generator, dtype=torch.float64)
        self.weights, self.scramble = drawn[:, 0] / drawn[:, 0].norm(), 1e7 * drawn[:, 1:]
        self.sigma = sigma

    def __call__(self, images: Tensor) -> Tensor:
        flat = images.flatten(1) - 0.5
        noise = torch.cos(flat @ self.scramble).sum(1) / math.sqrt(8)
        score = flat @ self.weights + self.sigma * noise
        return torch.stack([score, torch.zeros_like(score)], 1)

    def images(self, count: int) -> Tensor:
        """Images of class 0, far from the plane."""
        generator = torch.Generator().manual_seed(1)
        noise = 0.1 * torch.rand(count, 192, generator=generator, dtype=torch.float64)
        return (0.5 + 0.3 * self.weights.sign() + noise).view(-1, 3, 8, 8)


@pytest.mark.parametrize("rho", [0.2, 0.5, 0.8, 0.95])
def test_the_correlation_is_that_of_the_closed_form(rho: float) -> None:
    """s = delta / sqrt(d). With 40 images the standard deviation of the mean is at most 0.02, and
    with 20 images and decisions at most 0.02: an error of 0.08 is 4 of them."""
    radius = 0.01
    signal = radius / math.sqrt(192)
    noisy = Noisy(signal * math.sqrt(1 / rho - 1))
    device = torch.device("cpu")
    model = Model(Decision(noisy), device, torch.float64, outputs=noisy)
    margins = [resolution(model, image, 0, radius, Full()) for image in noisy.images(40)]
    assert sum(margins) / 40 == pytest.approx(rho, abs=0.08)
    decided = replace(model, outputs=None)
    decisions = [resolution(decided, image, 0, radius, Full()) for image in noisy.images(20)]
    assert sum(decisions) / 20 == pytest.approx(2 / math.pi * math.asin(rho), abs=0.08)


def test_a_curved_network_in_float32_is_resolved_at_every_radius() -> None:
    """Curvature is no noise; the correlation of two opposite points falls to 0.1 here."""
    for image, label in zip(IMAGES[:10], LABELS.tolist(), strict=False):
        for radius in (0.0045, 0.3, 3.0):
            assert resolution(SHIPPED.model, image, label, radius, Dct(4)) > Probe.THRESHOLD[0]


@pytest.mark.slow
def test_no_false_alarm_in_float32() -> None:
    own = replace(SHIPPED.model, running={})
    decided = tb.models.from_callable(SHIPPED.model.predict)
    for attack in (CGBA, HSJA, tb.preset("opt"), tb.preset("hsja-original")):
        assert Found.UNRESOLVED not in outcomes(attack, own, 80)
        assert Found.UNRESOLVED not in outcomes(attack, decided, 40)


def test_layers_that_round_as_in_tf32_hide_the_published_radius() -> None:
    model = rounded(10)
    assert outcomes(HSJA, model, 1) == {Found.UNRESOLVED}
    assert Found.UNRESOLVED in outcomes(CGBA, model)
    assert outcomes(at_radius(CGBA, 1.0), model) == {Found.RESOLVED}
    assert outcomes(FRUGAL, model) == {Found.NO_RADIUS}
    decided = tb.models.from_callable(model.predict)
    assert Found.UNRESOLVED in outcomes(HSJA, decided)


@pytest.mark.parametrize("name", ["cgba", "hsja", "qfool", "opt", "cgba+seri", "hsja-original"])
def test_half_precision_hides_what_attacks_sample_and_the_value_named_does_not(name: str) -> None:
    model = tb.models.from_torch(NET, dtype=torch.bfloat16)
    attack: Any = at_side(tb.preset(name), 28)
    each, _ = found(attack, model)
    assert (each.found, each.precision) == (Found.UNRESOLVED, "bfloat16")
    *names, last = each.setting.split(".")
    part, larger = attack, each.smallest
    for inner in names:
        part = getattr(part, inner)
    assert getattr(part, last) == each.value < larger
    part = replace(part, **{last: larger})
    for inner in reversed(names):
        part = replace(getattr(attack, names[0]) if inner != names[0] else attack, **{inner: part})
    assert found(part, model, 1)[0].found is Found.RESOLVED


def test_the_warning_is_one_sentence_in_the_result_and_one_for_the_run() -> None:
    model = tb.models.from_torch(NET, dtype=torch.bfloat16)
    rest = (
        "rounding hides steps this small; set estimate.delta to at least {1}, or run the model in "
    )
    said = "the model does not resolve estimate.delta = 0.0045 in bfloat16{0}: " + rest + "float32"
    with pytest.warns(ModelWarning) as warned:
        results = tb.run(CGBA, model, IMAGES[:3], LABELS[:3], budget=4)
    needed = [result.resolution.smallest for result in results]
    assert [result.warnings for result in results] == [(said.format("", n),) for n in needed]
    [message] = [str(each.message) for each in warned]
    assert message == said.format(" (3 of 3 runs)", max(needed)) + "."
    assert warned[0].filename == __file__
    assert results.exactness.after(results[0].warnings) == results.exactness
    one = results[0].resolution
    other = one._replace(found=Found.RESOLVED)
    runs = [replace(results[0], resolution=each) for each in (one, other, one._replace(smallest=2))]
    [sentence] = unresolved(runs)
    assert "(2 of 3 runs)" in sentence
    assert "at least 2," in sentence
    assert unresolved([runs[0], runs[1], runs[1]]) == []  # of less than half
    mixed = [
        SimpleNamespace(owner=owner, resolution=each)
        for owner, each in ((" of hsja", one), (" of cgba", other), (" of cgba", other))
    ]
    [sentence] = unresolved(mixed, lambda end: end.owner)
    assert "(1 of 1 runs of hsja)" in sentence


def test_the_grid_of_a_model_hides_small_steps_and_a_metered_one_is_not_asked() -> None:
    model = tb.models.from_torch(NET, quantize=8)
    [first, _] = found(CGBA, model)
    assert (first.found, first.precision) == (Found.UNRESOLVED, "8-bit images")
    assert first.warnings[0].endswith("steps this small; set estimate.delta to at least 0.1")
    rows = 0

    def counted(images: Tensor) -> Tensor:
        nonlocal rows
        rows += len(images)
        return SHIPPED.model(images)

    metered = {"execution": tb.Execution(metered=True), "budget": 40}
    for quantize, delta, wanted in (
        (8, 0.0045, Found.UNRESOLVED),
        (8, 1.0, Found.RESOLVED),
        (None, 0.0045, Found.NOT_CHECKED),
    ):
        rows, model = 0, tb.models.from_callable(counted, quantize=quantize)
        [result] = tb.run(at_radius(CGBA, delta), model, IMAGES[:1], LABELS[:1], **metered)
        assert result.resolution.found is wanted
        assert rows == result.ledger.queries


def test_a_function_that_rounds_on_its_own_is_found_and_charged_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def service(images: Tensor) -> Tensor:
        return SHIPPED.model(images.mul(255).round().div(255))

    def runs() -> list[Any]:
        results = tb.run(CGBA, service, IMAGES[:2], LABELS[:2], budget=60)
        assert all(result.ledger.queries == 60 for result in results)
        checked.extend(result.resolution.found for result in results)
        return [(result.improvements, result.ledger.counts) for result in results]

    checked: list[Found] = []
    measured = runs()
    assert checked == [Found.UNRESOLVED] * 2
    start = cell_run.CellRun._start_attack

    def unchecked(self: Any, label: int) -> None:
        self._check = lambda *_: Resolution()
        start(self, label)

    monkeypatch.setattr(cell_run.CellRun, "_start_attack", unchecked)
    assert runs() == measured
    assert checked[2:] == [Found.NOT_CHECKED] * 2


def test_it_depends_on_the_image_and_the_model_alone() -> None:
    model = tb.models.from_torch(NET, dtype=torch.bfloat16)
    alone = found(CGBA, model, 1)
    assert found(CGBA, model, 3, batch_size=5)[0] == alone[0]
    prices = {"prices": tb.Prices(10, 1), "seed": 3, "budget": 40}
    assert tb.run(CGBA, model, IMAGES[:1], LABELS[:1], **prices)[0].resolution == alone[0]


@pytest.mark.slow
def test_workers_find_the_same() -> None:
    model = tb.models.from_torch(NET, dtype=torch.bfloat16)
    with Workers(model, 2, force=True) as pool:
        assert found(CGBA, model, 4, workers=pool) == found(CGBA, model, 4)


def test_images_of_one_run_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    probe = Probe.of
    monkeypatch.setattr(Probe, "of", lambda *args: calls.append(args) or probe(*args))
    model = tb.models.from_torch(NET, dtype=torch.bfloat16)
    cells = [
        Cell(attack, IMAGES[0], int(LABELS[0]), tb.Prices(price, 1), tb.Limits(30))
        for attack in (CGBA, tb.preset("geoda"), HSJA)
        for price in (1, 5)
    ]
    run_cells(cells, model)
    assert len(calls) == 2  # two subspaces
    calls.clear()
    wrong = (LABELS[:1] + 1) % 10
    [result] = tb.run(CGBA, model, IMAGES[:1], wrong, budget=4)
    assert result.stop is Stop.ALREADY_MISCLASSIFIED
    tb.run(CGBA, tb.models.from_torch(NET), IMAGES[:1], LABELS[:1], budget=4)
    exact = tb.models.from_torch(NET, dtype=torch.float64)
    tb.run(CGBA, exact, IMAGES[:1].double(), LABELS[:1], budget=4)
    assert calls == []


def test_what_cannot_be_checked_is_said_to_be_so() -> None:
    generator, good = torch.Generator().manual_seed(0), int(LABELS[0])

    def random(images: Tensor) -> Tensor:
        chosen = torch.randint(0, 10, (len(images),), generator=generator)
        return torch.where(torch.arange(len(images)) == 0, good, chosen)

    def picky(images: Tensor) -> Tensor:
        if not (images == IMAGES[0]).flatten(1).all(1).any():
            raise RuntimeError("another image")
        return torch.full((len(images),), good)

    def constant(images: Tensor) -> Tensor:
        return torch.full((len(images),), good)

    for model in (random, picky, constant):
        assert outcomes(CGBA, model, 1) == {Found.NOT_CHECKED}

    def attack(problem: Any) -> Any:
        yield Ask(problem.source[None], phase="again")
        return Stop.ITERATIONS

    assert outcomes(attack, constant, 1) == {Found.NO_RADIUS}


def test_probabilities_are_as_good_as_logits() -> None:
    """A confident network gives 1.0000 in float32, and no step changes that."""
    sharp = tb.models.from_torch(nn.Sequential(NET, Sharp(), nn.Softmax(1)))
    assert float(sharp.outputs(IMAGES[:1]).max()) == 1.0
    assert resolution(sharp, IMAGES[0], int(LABELS[0]), 0.0045, Dct(4)) > 0.95


class Sharp(nn.Module):
    def forward(self, logits: Tensor) -> Tensor:
        return 4 * logits


def test_a_mask_confines_what_is_sampled() -> None:
    mask = torch.zeros(28, 28, dtype=torch.bool)
    mask[:14] = True
    seen: list[Tensor] = []

    def watched(images: Tensor) -> Tensor:
        seen.append(images.clone())
        return SHIPPED.model(images)

    model = tb.models.from_callable(watched)
    tb.run(CGBA, model, IMAGES[:1], LABELS[:1], mask=mask, budget=4)
    sampled = [batch for batch in seen if (batch[0] - batch[1]).abs().sum() > 0][-3:]
    assert all(torch.equal(batch[0, :, 14:], batch[1, :, 14:]) for batch in sampled)


def test_a_finest_that_raises_stops_its_image_and_no_other() -> None:
    class Faulty:
        def finest(self, problem: Any) -> Any:
            raise ZeroDivisionError

        def __call__(self, problem: Any) -> Any:
            yield Ask(problem.source[None], phase="own")
            return Stop.ITERATIONS

    attacks: list[Any] = [Faulty(), FRUGAL]
    image, label = IMAGES[0], int(LABELS[0])
    cells = [Cell(attack, image, label, limits=tb.Limits(4)) for attack in attacks]
    bad, good = run_cells(cells, SHIPPED.model)
    assert (bad.stop, good.stop) == (Stop.ATTACK_ERROR, Stop.BUDGET)
    assert "ZeroDivisionError" in bad.reason


def test_whatever_the_model_raises_in_the_check_is_left_to_the_queries() -> None:
    class Odd(BaseException):
        pass

    def model(images: Tensor) -> Tensor:
        if not (images == IMAGES[0]).flatten(1).all(1).any():
            raise Odd
        return torch.full((len(images),), int(LABELS[0]))

    [result] = tb.run(CGBA, model, IMAGES[:1], LABELS[:1], budget=4)
    assert result.stop is Stop.MODEL_ERROR
    assert result.resolution == Resolution(Found.NOT_CHECKED, "estimate.delta", 0.0045)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "REMEMBERED", 2)
    engine = Engine(SHIPPED.model)
    cells = [Cell(HSJA, image, 0, limits=tb.Limits(2)) for image in IMAGES[:5]]
    cells = [replace(cell, label=int(label)) for cell, label in zip(cells, LABELS, strict=False)]
    assert {result.resolution.found for result in engine.run(cells)} == {Found.RESOLVED}
    assert len(engine._resolves._known) == 2
