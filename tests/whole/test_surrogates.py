"""Surrogates: what they say, what it brings, what a useless one costs, and what is refused."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tollbox as tb
from tollbox import testing
from tollbox.attacks.surrogates import Surrogate, has_surrogate, over_flagged, with_surrogate
from tollbox.attacks.transfer import smoothed, transfer_rays
from tollbox.core.metric import metrics_of
from tollbox.parts.subspaces import resized
from tollbox.parts.vectors import unit

SHAPE = (3, 16, 16)
SIDE = 768**0.5


class Linear(nn.Module):
    """Class 1 leads class 0 by <normal, x - 0.5> - 0.01, class 2 by <other, x - 0.5> - 0.01."""

    def __init__(self, normal: Tensor, other: Tensor | None = None) -> None:
        super().__init__()
        rows = [torch.zeros_like(normal), normal, -normal if other is None else other]
        self.weight = nn.Parameter(torch.stack(rows).flatten(1).float())

    def forward(self, images: Tensor) -> Tensor:
        leads = (images - 0.5).flatten(1) @ self.weight.T
        return leads - 0.01 * torch.tensor([0.0, 1.0, 1.0])


class Far(Linear):
    """Classes 1 and 2 lead later, by 0.4 instead of 0.01."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images) - 0.39 * torch.tensor([0.0, 1.0, 1.0])


class Bent(nn.Module):
    """Dropout and batch norm, to see in which mode it is run."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten()
        )
        self.last = nn.Linear(4 * 14 * 14, 5)

    def forward(self, images: Tensor) -> Tensor:
        return self.last(self.layers(images))  # type: ignore[no-any-return]


def noise(seed: int) -> Tensor:
    drawn = torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed))
    return drawn / torch.linalg.vector_norm(drawn)


def cosine(a: Tensor, b: Tensor) -> float:
    return float(
        torch.nn.functional.cosine_similarity(a.flatten().double(), b.flatten().double(), 0)
    )


def problem(**more) -> tb.attack.Problem:
    return tb.attack.Problem(torch.full(SHAPE, 0.5), 0, **more)


def lead(image: Tensor, normal: Tensor) -> Tensor:
    return ((image - 0.5) * normal).sum()


def direction(surrogate: Surrogate, task: tb.attack.Problem, point: Tensor) -> Tensor:
    """The unit gradients of the networks, together."""
    return unit(sum(unit(each.gradients[0]) for each in surrogate.margins(task, point[None])))


# -- what it says ---------------------------------------------------------------------------------


def test_the_gradient_of_how_far_another_class_leads():
    normal = noise(1)
    said = direction(Surrogate(Linear(normal)), problem(), problem().source + 0.1 * normal)
    assert torch.allclose(said, normal, atol=1e-6)


def test_of_a_target_that_it_leads():
    normal, other = noise(1), noise(2)
    surrogate = Surrogate(Linear(normal, other))
    point = problem().source + 0.1 * normal
    assert cosine(direction(surrogate, problem(target=2), point), other) > 0.999


def test_std_is_in_the_gradient():
    normal, std = noise(1), (0.2, 0.5, 1.0)
    surrogate = Surrogate(Linear(normal), mean=0.4, std=std)
    said = direction(surrogate, problem(target=1), problem().source)
    assert cosine(said, normal / torch.tensor(std).view(3, 1, 1)) > 0.999


def test_several_say_the_mean_of_their_unit_gradients():
    one, two = noise(1), noise(2)
    surrogate = Surrogate([Linear(7 * one, -2 * one), Linear(0.1 * two, -two)])
    point = problem().source + 0.1 * (one + two)
    assert cosine(direction(surrogate, problem(), point), one + two) > 0.999


def test_the_network_is_left_as_it_is_and_run_in_eval_mode():
    network = Bent().double().train()
    before = copy.deepcopy(network.state_dict())
    surrogate = Surrogate(network)
    said = [direction(surrogate, problem(), problem().source) for _ in range(3)]
    assert torch.equal(said[0], said[1])
    assert torch.equal(said[0], said[2])
    assert network.training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())


def test_only_the_networks_asked_for_are_run():
    one, two = noise(1), noise(2)
    surrogate, task = Surrogate([Linear(one), Linear(two)]), problem(target=1)
    [found] = surrogate.margins(task, task.source.expand(4, *SHAPE), [1])
    assert torch.allclose(found.gradients, two.expand(4, *SHAPE), atol=1e-6)
    assert torch.allclose(found.margins, torch.full((4,), -0.01), atol=1e-6)


def test_a_network_recognises_an_image_whose_class_it_gives_first():
    surrogate = Surrogate([Linear(noise(1)), Linear(-noise(1))])
    assert surrogate.recognising(problem()) == [0, 1]
    ahead = tb.attack.Problem(problem().source + 0.1 * noise(1), 1)
    assert surrogate.recognising(ahead) == [0]
    torch.manual_seed(0)
    many, image = nn.Sequential(nn.Flatten(), nn.Linear(768, 1000)), torch.rand(SHAPE)
    many[1].weight.data -= many[1].weight.data.mean(1, keepdim=True)  # of contrast alone
    order = many(image[None])[0].argsort(descending=True).tolist()
    for place, known in ((0, True), (9, True), (10, False)):
        task = tb.attack.Problem(image, order[place])
        assert bool(Surrogate(many).recognising(task)) is known


def test_networks_confirm_each_other_but_one_alone_must_not_see_the_same_in_shuffled_pixels():
    """The constant network gives every image class 0. The image is not grey: shuffled, it would be
    the same."""
    normal, blocks = noise(1), 0.25 + 0.5 * patchy().source
    constant, seeing = Linear(0 * normal), Linear(normal, normal)
    task = tb.attack.Problem(blocks - (1 + lead(blocks, normal)) * normal, 0)
    assert seeing(task.source[None]).argmax() == 0
    assert Surrogate(constant).recognising(task) == []
    assert Surrogate([constant, constant]).recognising(task) == []
    faint = Linear(1e-9 * normal)
    assert Surrogate([constant, faint]).recognising(task) == [0, 1]
    assert Surrogate([constant, Linear(normal * torch.nan)]).recognising(task) == []
    assert Surrogate([constant, seeing]).recognising(task) == [0, 1]
    beyond = tb.attack.Problem(blocks + (1 - lead(blocks, normal)) * normal, 0)
    assert Surrogate([constant, seeing]).recognising(beyond) == []
    # a network with its own labels confirms nothing, since its prediction is always right
    mixed = Surrogate([constant, faint], labels=[None, "own"])
    assert mixed.recognising(task) == []


def test_transfer_rays_follow_the_networks_and_start_with_the_smallest_that_fools_them():
    """Radii are 0.14, 0.28, 0.55 and 1.1 here."""
    one, two = noise(1), noise(2)
    both = unit(one + two)
    surrogate, task = Surrogate([Linear(one), Linear(two)]), problem(target=1)
    rays = transfer_rays(task, surrogate, [0, 1])
    assert rays.shape == (4, *SHAPE)
    assert torch.allclose(rays.flatten(1).norm(dim=1), torch.ones(4), atol=1e-5)
    assert min(cosine(ray, both) for ray in rays) > 0.9
    assert cosine(transfer_rays(task, surrogate, [1])[0], two) > 0.9
    assert torch.equal(transfer_rays(task, surrogate, [0, 1]), rays)
    far = Surrogate(Far(one))  # fooled from a distance of 0.4 on
    ordered = transfer_rays(task, far, [0])
    lengths = [radius * SIDE for radius in (0.02, 0.04, 0.01, 0.005)]
    near, *_ = transfer_rays(task, surrogate, [0])
    assert not torch.equal(ordered[0], near)
    for ray, length in zip(ordered, lengths, strict=True):
        found = far.margins(task, (task.source + length * ray)[None])[0].margins
        assert bool(found > 0) is (length > 0.4)


def test_smoothed_gradients_are_those_of_a_plane_and_zero_outside_the_mask():
    one = noise(1)
    mask = torch.zeros(SHAPE[1:], dtype=torch.bool)
    mask[:8] = True
    for task in (problem(target=1), problem(target=1, mask=mask)):
        said = smoothed(task, Surrogate([Linear(one), Linear(-one)]), task.source, 3, [0])
        assert cosine(said, task.only_mask(one)) > 0.999
        rays = transfer_rays(task, Surrogate(Linear(one)), [0])
        assert torch.equal(rays, task.only_mask(rays))


def test_gradients_are_counted_with_their_seconds():
    surrogate = Surrogate(Linear(noise(1)))
    direction(surrogate, problem(), problem().source)
    assert surrogate.evaluations == 1
    assert surrogate.seconds > 0


def test_it_is_the_same_if_its_weights_are():
    one, same, other = Surrogate(Linear(noise(1))), Surrogate(Linear(noise(1))), Linear(noise(2))
    assert one == same
    assert repr(one) == repr(same)
    assert one != Surrogate(other)
    assert one != Surrogate(Linear(noise(1)), mean=0.5)
    again = pickle.loads(pickle.dumps(one))
    assert again == one
    assert torch.equal(
        direction(again, problem(), problem().source + 0.1),
        direction(one, problem(), problem().source + 0.1),
    )


# -- what it brings -------------------------------------------------------------------------------


def plane() -> tuple[testing.Boundary, Tensor]:
    """A plane at a distance of 0.3, and its normal, which is of all frequencies."""
    normal = noise(5).double()
    source = torch.full(SHAPE, 0.5, dtype=torch.float64)

    def adversarial(apart: Tensor) -> Tensor:
        return apart @ normal.flatten().to(apart) >= 0.3

    return testing.Boundary("plane", source, 0.3, adversarial), normal.float()


def attacked(network: nn.Module | None, ratio: float = 1.0, budget: float = 500.0, seed: int = 0):
    boundary, _ = plane()
    surrogate = None if network is None else Surrogate(network)
    attack = replace(tb.preset("frugal"), surrogate=surrogate)
    cell = tb.attack.Cell(
        attack, boundary.source, 0, tb.Prices(ratio, 1), tb.Limits(budget), seed=seed
    )
    [result] = tb.attack.run_cells([cell], boundary.model())
    assert result.stop is tb.Stop.BUDGET, result.reason
    return result


@pytest.mark.parametrize("ratio", [1, 10])
def test_one_that_knows_the_normal_brings_the_nearest_point_at_once(ratio):
    result = attacked(Linear(plane()[1]), ratio, budget=100 * ratio)
    assert result.distance < 0.301
    assert attacked(None, ratio, budget=100 * ratio).distance > 0.9


def test_one_that_knows_half_of_it_is_of_use():
    """A cosine of 0.5, the same error at every point."""
    normal, wrong = plane()[1], noise(3)
    wrong = wrong - (wrong * normal).sum() * normal
    blend = 0.5 * normal + 0.75**0.5 * wrong / torch.linalg.vector_norm(wrong)
    ours = [attacked(Linear(blend), budget=200, seed=s).distance for s in range(8)]
    alone = [attacked(None, budget=200, seed=s).distance for s in range(8)]
    assert sum(ours) < 0.75 * sum(alone)


@pytest.mark.slow
def test_a_useless_one_is_soon_left_alone():
    """Gradients across the normal: few are followed, and the run ends as near as without."""
    normal, wrong = plane()[1], noise(3)
    wrong = wrong - (wrong * normal).sum() * normal
    runs = [attacked(Linear(wrong), budget=800, seed=s) for s in range(8)]
    alone = [attacked(None, budget=800, seed=s) for s in range(8)]
    followed = [sum(step.notes["prior"] == 4 for step in run.trace[1:]) for run in runs]
    assert max(followed) <= 5
    assert sum(r.distance for r in runs) < 1.05 * sum(r.distance for r in alone)


def test_any_attack_may_start_with_transfer_attacks():
    """On a plane whose normal the surrogate knows, CGBA's first point is close to the optimum."""
    boundary, normal = plane()
    base: Any = tb.preset("cgba")
    ends = {}
    for name, start in (
        ("noise", base.start),
        ("transfer", tb.attacks.Transfer(Surrogate(Linear(normal)))),
    ):
        cell = tb.attack.Cell(replace(base, start=start), boundary.source, 0, limits=tb.Limits(40))
        [result] = tb.attack.run_cells([cell], boundary.model())
        ends[name] = result.distance
    assert ends["transfer"] < 0.34 < 2 < ends["noise"]
    cell = replace(cell, attack=replace(base, start=tb.attacks.Transfer()))
    [result] = tb.attack.run_cells([cell], boundary.model())
    assert result.stop is tb.Stop.ATTACK_ERROR
    assert "surrogate is missing, and the start Transfer needs one" in result.reason


def test_a_start_inside_another_attack_takes_the_surrogate():
    surrogate, rescaled = Surrogate(Linear(noise(1))), tb.preset("cgba+seri")
    inner = replace(rescaled.inner, start=tb.attacks.Transfer())
    changed = with_surrogate(replace(rescaled, inner=inner), surrogate)
    assert changed.inner.start.surrogate is surrogate
    assert has_surrogate(changed)
    assert not has_surrogate(rescaled)
    assert with_surrogate(rescaled, surrogate) is rescaled


def test_transfer_is_refused_in_linf_before_a_query():
    start = tb.attacks.Transfer(Surrogate(Linear(noise(1))))
    boundary, _ = plane()
    for name, supported in (
        ("hsja", "l2: expected l2, or another attack"),
        ("hsja-linf", "no norm, since its parts are made for different ones: expected another"),
    ):
        attack = replace(tb.preset(name), start=start)
        with pytest.raises(tb.errors.InputError, match=f"as given supports {supported}"):
            tb.run(attack, boundary.model(), boundary.source[None], [0], budget=9, norm="linf")


def test_infinite_logits_lead_or_trail():
    logits = torch.tensor([[torch.inf, 1, 2], [0, torch.inf, 2], [0, 1, -torch.inf]])
    outside = torch.tensor([[-torch.inf, 0, 0], [0, -torch.inf, -torch.inf]])
    assert over_flagged(logits, outside).tolist() == [-torch.inf, torch.inf, 1]


def test_parts_restrict_the_norms_and_other_objects_do_not():
    @dataclass
    class Part:
        inner: Any = None

    inside = Part(Part(tb.attacks.Transfer()))
    assert metrics_of(inside) == ("l2",)
    logger = SimpleNamespace(metrics={"loss": []})
    assert metrics_of(Part(logger)) == ("l2", "linf")
    inside.inner.inner = inside
    assert metrics_of(inside) == ("l2", "linf")
    assert not has_surrogate(inside)


def test_a_bare_network_is_refused():
    network = Linear(noise(1))
    names = ("frugal+surrogate", "prior-opt", "pars-opt", "sqba")
    for taking in (tb.attacks.Transfer(), *(tb.preset(name, surrogate=network) for name in names)):
        with pytest.raises(tb.errors.InputError, match=r"expected a tb.Surrogate, or None"):
            replace(taking, surrogate=network)


def test_rays_are_kept_for_their_precision_and_a_network_without_a_gradient_does_no_harm():
    surrogate, half = Surrogate(Linear(noise(1))), problem().source.to(torch.bfloat16)
    task = problem()
    first = transfer_rays(task, surrogate, [0])
    rounded = transfer_rays(tb.attack.Problem(half, 0), surrogate, [0])
    assert rounded.dtype == torch.bfloat16
    assert torch.equal(transfer_rays(task, surrogate, [0]), first)
    fresh = transfer_rays(tb.attack.Problem(half, 0), Surrogate(Linear(noise(1))), [0])
    assert torch.equal(rounded, fresh)
    other = transfer_rays(tb.attack.Problem(task.source, 1), surrogate, [0])
    assert cosine(other[0], first[0]) < 0.9

    class Broken(Linear):
        def forward(self, images: Tensor) -> Tensor:
            return super().forward(images) + (images * 0).sum((1, 2, 3)).sqrt()[:, None]

    both = Surrogate([Linear(noise(1)), Broken(noise(1))])
    assert torch.equal(transfer_rays(task, both, [0, 1]), first)


def test_images_that_do_not_fit_it_are_reported_in_a_sentence():
    model = tb.models.from_callable(lambda images: (images.flatten(1).sum(1) > 200).long())
    attack = tb.preset("frugal+surrogate", surrogate=Linear(noise(1)))
    [result] = tb.run(attack, model, torch.full((1, 1, 16, 16), 0.5), [0], budget=50)
    assert "surrogate cannot be differentiated at an image of shape (1, 16, 16)" in result.reason


def test_a_network_with_its_own_labels_is_tried_last():
    """Nothing says whether it knows the image, so it costs one flagged answer if it does not."""
    boundary, _ = plane()
    wrong = Surrogate(Linear(noise(3)), labels="own")
    runs = {}
    for name, surrogate in (("none", None), ("wrong", wrong)):
        attack = replace(tb.preset("frugal"), surrogate=surrogate)
        cell = tb.attack.Cell(attack, boundary.source, 0, tb.Prices(100, 1), tb.Limits(3000))
        [runs[name]] = tb.attack.run_cells([cell], boundary.model())
    alone, guided = (run.ledger.by_phase["start"] for run in runs.values())
    assert wrong.evaluations > 0
    assert guided <= alone + 100


def test_it_is_the_same_in_any_batch():
    boundary = testing.half_space(1.0, factor=4)
    attack = replace(tb.preset("frugal"), surrogate=Surrogate(Linear(noise(4))))
    images = [(boundary.source + 0.01 * k).clamp(0, 1) for k in range(4)]
    cells = [tb.attack.Cell(attack, image, 0, tb.Prices(3, 1), tb.Limits(300)) for image in images]
    one = tb.attack.run_cells(cells, boundary.model(), execution=tb.Execution(batch_size=64))
    other = tb.attack.run_cells(
        cells[::-1], boundary.model(), execution=tb.Execution(batch_size=5, live=2)
    )
    for a, b in zip(one, list(other)[::-1], strict=True):
        assert a.distance == b.distance
        assert [s.cost for s in a.trace] == [s.cost for s in b.trace]


# -- by name --------------------------------------------------------------------------------------


def test_the_preset_takes_a_surrogate_or_networks():
    one, two = Linear(noise(1)), Linear(noise(2))
    given = tb.Surrogate(one, mean=0.5)
    attack = tb.preset("frugal+surrogate", surrogate=given)
    assert attack == replace(tb.preset("frugal"), surrogate=given)
    assert attack.surrogate is given
    assert tb.preset("frugal+surrogate", surrogate=one).surrogate == Surrogate(one)
    assert tb.preset("frugal+surrogate", surrogate=[one, two]).surrogate == Surrogate([one, two])
    assert tb.preset("frugal").surrogate is None
    assert "frugal+surrogate" not in tb.presets()


def test_without_one_the_preset_is_refused():
    told = (
        r"^surrogate is missing, and the preset 'frugal\+surrogate' needs one: expected a network"
    )
    with pytest.raises(tb.errors.InputError, match=told):
        tb.preset("frugal+surrogate")


def test_with_one_another_preset_is_refused():
    told = r"^surrogate is given, and the preset 'hsja' takes none: expected it with frugal\+surr"
    with pytest.raises(tb.errors.InputError, match=told):
        tb.preset("hsja", surrogate=Linear(noise(1)))
    with pytest.raises(tb.errors.InputError, match=r"surrogate is 3: expected a network"):
        tb.preset("frugal+surrogate", surrogate=3)
    with pytest.raises(tb.errors.UnknownNameError, match=r"did you mean 'frugal\+surrogate'"):
        tb.preset("frugal+surogate", surrogate=Linear(noise(1)))


@pytest.mark.slow
def test_it_goes_to_other_processes():
    model = tb.models.from_torch(Linear(noise(5)))
    attack = tb.preset("frugal+surrogate", surrogate=Linear(noise(5) + noise(6)))
    images = torch.stack([(problem().source + 0.1 * noise(k)).clamp(0, 1) for k in range(2)])
    labels = model(images).tolist()
    cells = [tb.attack.Cell(attack, images[k], labels[k], limits=tb.Limits(60)) for k in range(2)]
    here = tb.attack.run_cells(cells, model)
    with tb.workers.Workers(model, 2, force=True) as workers:
        there = tb.attack.run_cells(cells, model, execution=tb.Execution(workers=workers))
    assert all(len(r.improvements) > 1 for r in here)
    assert [r.improvements for r in there] == [r.improvements for r in here]


# -- tried ----------------------------------------------------------------------------------------


def test_the_classes_of_the_networks():
    image = problem().source
    surrogate = Surrogate([Linear(noise(1)), Linear(noise(2))])
    assert surrogate.classes(image) == (3, 3)
    assert surrogate.evaluations == 0
    assert Surrogate([Linear(noise(1)), Bent()]).classes(image) == (3, 5)
    with pytest.raises(
        tb.errors.InputError, match=r"cannot be differentiated at .* \(RuntimeError"
    ):
        Surrogate(Bent()).classes(torch.rand(3, 8, 8))
    with pytest.raises(
        tb.errors.InputError, match="mean has 2 numbers, but the images have 3 channels"
    ):
        Surrogate(Linear(noise(1)), mean=(0.4, 0.5)).classes(image)


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [None, [], [Linear(noise(1)), 3], torch.ones(3)])
def test_what_is_no_network_is_refused(wrong):
    with pytest.raises(tb.errors.InputError, match=r"surrogate.*expected a network"):
        Surrogate(wrong)


def test_a_wrong_mean_is_refused_at_once():
    with pytest.raises(tb.errors.InputError, match="std"):
        Surrogate(Linear(noise(1)), std=0)


# -- any network ----------------------------------------------------------------------------------


class Pooled(nn.Module):
    """Any number of classes, for images of one size only."""

    def __init__(self, classes: int, size: int, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.size, self.pool = size, nn.AvgPool2d(size // 8)
        length = 3 * (size // (size // 8)) ** 2
        weight = torch.randn(classes, length, generator=generator)
        self.weight = nn.Parameter(weight - weight.mean(1, keepdim=True))  # of contrast alone

    def forward(self, images: Tensor) -> Tensor:
        if images.shape[2:] != (self.size, self.size):
            raise RuntimeError(f"expected {self.size}")
        return self.pool(images).flatten(1) @ self.weight.T  # type: ignore[no-any-return]


def patchy(**more) -> tb.attack.Problem:
    """An image whose shuffled pixels look different."""
    blocks = torch.rand(3, 4, 4, generator=torch.Generator().manual_seed(2)).round()
    source = blocks.repeat_interleave(4, 1).repeat_interleave(4, 2)
    return tb.attack.Problem(source, 0, **more)


def some_points(count: int = 3) -> Tensor:
    return torch.rand(count, *SHAPE, generator=torch.Generator().manual_seed(8))


@pytest.mark.parametrize("size", [(64, 64), (16, 24), (7, 9), (16, 16)])
def test_images_are_resized_as_torch_does_it(size):
    points = some_points().requires_grad_()
    wanted = nn.functional.interpolate(points, size, mode="bilinear", antialias=True)
    assert torch.allclose(resized(points, size), wanted, atol=1e-5)
    weights = torch.randn(size, generator=torch.Generator().manual_seed(0))
    grads = [
        torch.autograd.grad((each * weights).sum(), points)[0]
        for each in (wanted, resized(points, size))
    ]
    assert torch.allclose(*grads, atol=1e-5)


def test_each_network_has_its_own_size_mean_and_std():
    one, two = Pooled(3, 64), Pooled(3, 9)
    both = tb.Surrogate(
        [one, two], mean=[(0.1, 0.2, 0.3), None], std=[[2], [4]], size=[(64, 64), 9]
    )
    found = both.margins(problem(), some_points())
    first = Surrogate(one, mean=(0.1, 0.2, 0.3), std=2, size=64).margins(problem(), some_points())
    second = Surrogate(two, std=(4.0,), size=(9, 9)).margins(problem(), some_points())
    for each, wanted in zip(found, first + second, strict=True):
        assert each.gradients.shape == (3, *SHAPE)
        assert torch.equal(each.gradients, wanted.gradients)
        assert torch.equal(each.margins, wanted.margins)
    assert both.classes(problem().source) == (3, 3)
    with pytest.raises(tb.errors.InputError, match=r"resized to \(8, 8\) \(RuntimeError: expected"):
        Surrogate(one, size=8).classes(problem().source)


def test_size_and_labels_are_part_of_what_it_is():
    made = [
        Surrogate(Pooled(3, 16)),
        Surrogate(Pooled(3, 16), size=16),
        Surrogate(Pooled(3, 16), size=16, labels="own"),
        Surrogate(Pooled(3, 16), mean=0.5),
    ]
    assert len({each.digest for each in made}) == len({repr(each) for each in made}) == 4
    assert made[1] == Surrogate([Pooled(3, 16)], size=[(16, 16)])
    assert pickle.loads(pickle.dumps(made[2])) == made[2]


def test_other_classes_are_attacked_on_their_own_prediction():
    network = Pooled(7, 16, seed=0)
    case = patchy(classes=3)
    logits = network(some_points())
    own = int(network(case.source[None]).argmax())
    others = [each for each in range(7) if each != own]
    wanted = logits[:, others].amax(1) - logits[:, own]
    assert own != case.label
    surrogate = Surrogate(network)
    [found] = surrogate.margins(case, some_points())
    assert torch.allclose(found.margins, wanted, atol=1e-4)
    assert surrogate.own_labels(case) == surrogate.recognising(case) == [0]
    # one that sees the same in shuffled pixels knows nothing
    blind = Pooled(7, 16)
    blind.weight.data *= 1e-3
    blind.weight.data[4] += 1
    assert Surrogate(blind).recognising(case) == []
    averaging = Pooled(7, 16)
    averaging.pool = nn.AdaptiveAvgPool2d(1)
    averaging.weight.data = averaging.weight.data[:, :3]
    assert Surrogate(averaging).recognising(case) == []
    # the same classes, unless they are said to be others
    assert surrogate.own_labels(patchy(classes=7)) == surrogate.own_labels(patchy()) == []
    assert surrogate.recognising(patchy(classes=7)) == []
    assert Surrogate(network, labels="own").own_labels(patchy(classes=7)) == [0]
    mixed = Surrogate([network, network], labels=["own", None])
    assert mixed.own_labels(patchy(classes=7)) == [0]
    # the number is not known, and the goal needs more than there are
    assert surrogate.own_labels(tb.attack.Problem(case.source, 7)) == [0]
    every = tb.attack.Problem(case.source, 0, goal=tb.Goal.leave(range(7)))
    assert surrogate.own_labels(every) == [0]


def test_other_classes_lead_to_the_start_image_of_a_target():
    network, start = Pooled(7, 16), some_points()[0]
    case = patchy(classes=3, target=1, start_image=start)
    surrogate = Surrogate([Pooled(3, 16), network])
    assert surrogate.recognising(case)[-1:] == [1]
    at = torch.stack([case.source, start, 0.5 * (case.source + start)])
    [found] = surrogate.margins(case, at, [1])
    assert found.margins[0] < 0 < found.margins[1]
    closer = at[2] + 0.05 * found.gradients[2] / torch.linalg.vector_norm(found.gradients[2])
    [after] = surrogate.margins(case, closer[None], [1])
    assert after.margins[0] > found.margins[2]
    alone = patchy(classes=3, target=1)
    assert 1 not in surrogate.recognising(alone)
    assert len(surrogate.margins(alone, at)) == 1
    with pytest.raises(tb.errors.InputError, match="there is a target but no start image"):
        surrogate.margins(alone, at, [1])


@pytest.mark.parametrize("goal", ["any", "target"])
def test_a_thousand_classes_at_another_size_in_any_batch(goal):
    """ImageNet's form of network against three classes: it takes part, and changes no rule."""
    normal = torch.linspace(-1, 1, 16).expand(SHAPE) / 17  # of length 1
    model, middle = tb.models.from_torch(Linear(normal)), problem().source
    images = torch.stack([middle + distance * normal for distance in (0.3, -0.4)])
    options = {}
    if goal == "target":
        starts = torch.stack([middle - normal, middle + normal])
        options = {"targets": model(starts).tolist(), "starts": starts}
    surrogate = tb.Surrogate([Pooled(1000, 64), Pooled(3, 9)], size=[(64, 64), (9, 9)])
    runs = [
        tb.run(
            tb.preset("frugal+surrogate", surrogate=surrogate),
            *(model, images, model(images).tolist()),
            budget=60,
            execution=tb.Execution(batch_size=size, live=live),
            **options,
        )
        for size, live in ((64, 3), (3, 1))
    ]
    assert surrogate.evaluations > 0
    assert all(len(r.improvements) > 1 and r.stop is tb.Stop.BUDGET for r in runs[0])
    assert [r.improvements for r in runs[0]] == [r.improvements for r in runs[1]]


@pytest.mark.slow
def test_a_pool_knows_the_number_of_classes():
    model = tb.models.from_torch(Linear(noise(5)))
    attack = tb.preset("frugal+surrogate", surrogate=Pooled(9, 16))
    images = torch.stack([(problem().source + 0.1 * noise(k)).clamp(0, 1) for k in range(2)])
    labels = model(images).tolist()
    here = tb.run(attack, model, images, labels, budget=60)
    with tb.workers.Workers(model, 2, force=True) as workers:
        execution = tb.Execution(workers=workers)
        there = tb.run(attack, model, images, labels, budget=60, execution=execution)
    assert [r.improvements for r in there] == [r.improvements for r in here]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"size": 0}, "size is 0: expected a length from 1 to 4096, or height and width"),
        ({"size": (4, 4, 4)}, "size is (4, 4, 4): expected a length from 1 to 4096"),
        ({"size": "8x8"}, "size is '8x8': expected a length"),
        ({"mean": [[0.5], [0.4]]}, "mean has 2 entries for 1 network: expected one for all netw"),
        ({"labels": ["own", None]}, "labels has 2 entries for 1 network: expected one for all"),
        ({"labels": "mine"}, "labels is 'mine': expected \"own\", or none"),
        ({"networks": "resnet"}, "surrogate resnet does not exist: expected a file made with"),
    ],
)
def test_wrong_settings_are_one_sentence(settings, told):
    with pytest.raises(tb.errors.InputError) as error:
        Surrogate(**{"networks": Linear(noise(1)), **settings})
    assert str(error.value).startswith(told)
