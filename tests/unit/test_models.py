"""Models: adapters, what is sent, the check, and the embedded default."""

from __future__ import annotations

import pickle
import re
import sys
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import tollbox as tb
from tollbox.errors import ModelFault
from tollbox.model_check import check_model
from tollbox.models.numerics import Normalisation

FASHION = Path("/usr/share/datasets/fashion-mnist")


def small_net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5))


IMAGES = torch.rand((9, 3, 8, 8), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("channels_last", [None, True, False])
def test_from_torch_normalises_and_decides(channels_last):
    mean, std = [0.1, 0.2, 0.3], [0.5, 0.6, 0.7]
    model = tb.models.from_torch(small_net(), mean=mean, std=std, channels_last=channels_last)
    by_hand = (IMAGES - torch.tensor(mean).view(1, 3, 1, 1)) / torch.tensor(std).view(1, 3, 1, 1)
    wanted = small_net().eval()(by_hand).argmax(1)
    assert torch.equal(model(IMAGES), wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
def test_normalisation_is_that_of_the_formula_to_the_last_bit(dtype, layout):
    mean, std = [0.1, 0.2, 0.3], [0.5, 0.6, 0.7]
    images = IMAGES.to(dtype, copy=True)
    centre, scale = (torch.tensor(n, dtype=dtype).view(1, 3, 1, 1) for n in (mean, std))
    expected = (images - centre) / scale
    where = {"dtype": dtype, "device": torch.device("cpu"), "layout": layout}
    found = Normalisation.checked(mean, std, **where)(images)
    assert torch.equal(found, expected)
    assert found.is_contiguous(memory_format=layout)
    assert torch.equal(Normalisation.checked(None, std, **where)(images), images / scale)
    alone = Normalisation.checked(None, None, **where)(images)
    assert torch.equal(alone, images)
    assert alone.data_ptr() != images.data_ptr()  # a network may write to what it is given
    images.requires_grad_()
    Normalisation.checked(mean, std, **where)(images).sum().backward()
    assert torch.allclose(images.grad, (1 / scale).expand_as(images), rtol=1e-3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"std": 0}, "std is 0: expected finite numbers above 0, one or one per channel."),
        ({"std": [1, 1e-60]}, "std is 1,1e-60: expected finite numbers above 0, "),
        ({"mean": [0.5, float("nan")]}, "mean is 0.5,nan: expected finite numbers, one or"),
        ({"mean": []}, "mean has 0 numbers: expected one number, or one per channel."),
        ({"cuda_graphs": True}, "cuda_graphs is set, but the device is cpu: expected a CUDA dev"),
        ({"tf32": True}, "tf32 is set, but the device is cpu: expected a CUDA device."),
        ({"dtype": torch.int8}, "dtype is torch.int8: expected torch's float64, float32, bfloat16"),
    ],
)
def test_from_torch_refuses(settings, message):
    with pytest.raises(tb.errors.InputError) as error:
        tb.models.from_torch(small_net(), **settings)
    assert message in str(error.value)


def test_from_torch_takes_a_network_that_gives_labels():
    class Labels(nn.Module):
        def forward(self, x):
            return (x.mean((1, 2, 3)) > 0.5).int()

    found = tb.models.from_torch(Labels())(IMAGES)
    assert found.dtype == torch.int64
    assert torch.equal(found, (IMAGES.mean((1, 2, 3)) > 0.5).long())


class Answering(torch.nn.Module):
    """A network of two classes that puts its logits into something."""

    def __init__(self, wrap):
        super().__init__()
        self.wrap = wrap

    def forward(self, images):
        mean = images.flatten(1).mean(1)
        return self.wrap(torch.stack([1 - mean, mean], 1))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda logits: {"hidden": logits[:, :1], "logits": logits},
        lambda logits: SimpleNamespace(logits=logits, hidden=None),
        lambda logits: (logits, logits[:, :1]),
        lambda logits: [logits],
        lambda logits: namedtuple("Out", "aux logits")(None, logits),
    ],
)
def test_logits_are_found_in_what_a_network_answers(wrap):
    model = tb.models.from_torch(Answering(wrap))
    images = torch.stack([torch.full((1, 2, 2), 0.1), torch.full((1, 2, 2), 0.9)])
    assert model(images).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("wrap", "answer"),
    [
        (lambda logits: {"scores": logits}, "dict of scores"),
        (lambda logits: SimpleNamespace(scores=logits), "SimpleNamespace"),
        (lambda logits: (), "tuple"),
        (lambda logits: None, "NoneType"),
    ],
)
def test_an_answer_without_logits_is_an_error_of_the_model(wrap, answer):
    model = tb.models.from_torch(Answering(wrap))
    with pytest.raises(ModelFault, match=f"answered with {answer}: expected a tensor, an object"):
        model(torch.rand(2, 1, 2, 2))


def test_outputs_are_what_labels_are_decided_on_in_another_process_too():
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 3))
    model = tb.models.from_torch(net, mean=0.5)
    for each in (model, pickle.loads(pickle.dumps(model))):
        assert torch.equal(each.outputs(IMAGES), net(IMAGES - 0.5))
        assert torch.equal(each.outputs(IMAGES).argmax(1), each(IMAGES))
    assert tb.models.from_callable(len).outputs is None


def test_a_convolutional_model_changes_its_layout_and_leaves_the_first_as_it_was():
    model = tb.models.from_torch(small_net(), mean=0.5, quantize=8, classes=5)
    other = pickle.loads(pickle.dumps(model)).in_layout("contiguous")
    assert (model.layout, other.layout) == ("channels_last", "contiguous")
    assert model.in_layout("channels_last") is model
    assert (other.quantize, other.classes) == (8, 5)
    weights = [each.network[0].weight for each in (model, other, other.in_layout("channels_last"))]
    last = [each.is_contiguous(memory_format=torch.channels_last) for each in weights]
    assert last == [True, False, True]
    assert torch.allclose(model.outputs(IMAGES), other.outputs(IMAGES), atol=1e-5)
    linear = tb.models.from_torch(nn.Sequential(nn.Flatten(), nn.Linear(192, 3)))
    with pytest.raises(tb.errors.InputError, match="layout 'contiguous': expected channels_last"):
        linear.in_layout("channels_last")


def test_what_is_sent_is_clipped_rounded_and_cast():
    points = torch.tensor([[[[-0.5, 0.5, 1.5, 0.1]]]], dtype=torch.float64)
    eight = tb.models.from_callable(len, quantize=8, dtype=torch.float64).sent(points.clone())
    assert eight.flatten().tolist() == pytest.approx([0, 128 / 255, 1, 26 / 255])
    one = tb.models.from_callable(len, quantize=1).sent(points.clone())
    assert one.dtype == torch.float32
    assert one.flatten().tolist() == [0, 0, 1, 0]


def test_points_are_sent_in_float32_or_float64():
    for dtype in (torch.float16, torch.bfloat16):
        with pytest.raises(tb.errors.InputError, match=r"float32 or torch.float64, .*; .* convert"):
            tb.models.from_callable(len, dtype=dtype)


def test_a_model_may_answer_with_numpy_lists_or_booleans():
    for answer in (
        lambda x: [0] * len(x),
        lambda x: x.mean((1, 2, 3)).numpy() > 2,
        lambda x: torch.zeros(len(x), dtype=torch.uint8),
    ):
        assert tb.models.from_callable(answer)(IMAGES).tolist() == [0] * 9


def test_scores_that_are_not_numbers_are_an_error_of_the_model():
    """And not a decision: the largest of NaNs would be class 0, or whatever argmax makes of it."""

    class Brittle(nn.Module):
        def forward(self, x):
            level = x.mean((1, 2, 3))
            logits = torch.stack([0.45 - level, level - 0.45], 1)
            return torch.where(level[:, None] > 0.41, torch.nan, logits)

    model = tb.models.from_torch(Brittle())
    results = tb.run(tb.preset("hsja"), model, torch.full((2, 1, 4, 4), 0.4), [0] * 2, budget=90)
    for result in results:
        assert result.stop is tb.Stop.MODEL_ERROR
        assert "not numbers" in result.reason
        assert result.adversarial is None
        assert 1 < result.ledger.queries == result.ledger.flagged
    alone = tb.run(
        tb.preset("hsja"),
        model,
        torch.full((1, 1, 4, 4), 0.4),
        [0],
        budget=90,
        execution=tb.Execution(metered=True),
    )
    assert alone[0].ledger.counts == results[0].ledger.counts


def test_a_model_that_exits_is_an_error_of_the_model():
    def leaves(images):
        raise SystemExit(3)

    [result] = tb.run(tb.preset("hsja"), tb.models.from_callable(leaves), IMAGES[:1], [0], budget=9)
    assert result.stop is tb.Stop.MODEL_ERROR
    assert re.fullmatch(r"SystemExit: 3 \(test_models.py:\d+\)", result.reason)


def test_a_fixed_batch_is_kept():
    sizes = set()

    def labels(images):
        sizes.add(len(images))
        return (images.mean((1, 2, 3)) > 0.45).long()

    model = tb.models.from_callable(labels, batch=6)
    tb.run(tb.preset("hsja"), model, torch.full((3, 1, 4, 4), 0.4), [0] * 3, budget=60)
    assert sizes == {6}


class TestCheck:
    """Each kind of unfit model is found; a fit one passes."""

    def find(self, predict):
        return check_model(tb.models.from_callable(predict), IMAGES[:4], 16)

    def labels(self, images):
        return (images.flatten(1).sum(1) * 7).long() % 5

    def test_a_fit_model_passes(self):
        assert self.find(self.labels) == []
        assert check_model(tb.models.embedded().model, tb.models.embedded().images[:8], 64) == []

    def test_a_model_that_answers_at_random(self):
        found = self.find(lambda images: torch.randint(0, 9, (len(images),)))
        assert any("sent twice" in finding for finding in found)

    def test_a_model_that_looks_at_its_neighbours(self):
        found = self.find(lambda images: self.labels(images + images.mean((0, 1, 2, 3))))
        assert any("among other images" in finding for finding in found)
        assert not any("sent twice" in finding for finding in found)

    def test_a_model_that_counts_positions(self):
        found = self.find(lambda images: self.labels(images) + torch.arange(len(images)))
        assert any("another order" in finding for finding in found)
        assert not any("among other images" in finding for finding in found)

    def test_a_network_in_training_mode(self):
        net = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(192), nn.Linear(192, 5)).eval()
        model = tb.models.from_torch(net)
        net.train()
        found = check_model(model, IMAGES[:4], 16)
        assert found[0] == "The network is in training mode: call .eval() on it."

    def test_a_model_that_raises(self):
        assert "ZeroDivisionError" in self.find(lambda images: 1 // 0)[0]

    def test_run_warns_and_keeps_what_was_found(self):
        unfit = tb.models.from_callable(
            lambda images: (torch.arange(len(images)) % 2) * 0 + torch.randint(0, 2, (len(images),))
        )
        with pytest.warns(tb.errors.ModelWarning, match="sent twice"):
            results = tb.run(
                tb.preset("hsja"),
                unfit,
                IMAGES,
                [0] * 9,
                budget=5,
                execution=tb.Execution(check=True),
            )
        assert results.findings
        fit = tb.models.from_callable(lambda images: torch.zeros(len(images)).long())
        assert (
            tb.run(
                tb.preset("hsja"),
                fit,
                IMAGES,
                [0] * 9,
                budget=5,
                execution=tb.Execution(check=True),
            ).findings
            == ()
        )
        with pytest.warns(tb.errors.ModelWarning, match="sent twice"):
            list(
                tb.stream(
                    tb.preset("hsja"),
                    unfit,
                    IMAGES,
                    [0] * 9,
                    budget=5,
                    execution=tb.Execution(check=True),
                )
            )


class TestEmbedded:
    found = tb.models.embedded()

    def test_it_holds_200_images(self):
        assert self.found.images.shape == (200, 1, 28, 28)
        assert self.found.labels.shape == (200,)
        right = (self.found.model(self.found.images) == self.found.labels).double().mean()
        assert abs(right - self.found.accuracy) < 0.06  # three standard errors of 200 images

    def test_it_is_small_and_good(self):
        file = Path(tb.models.__file__).parent / "embedded.safetensors"
        assert file.stat().st_size < 500_000
        assert self.found.accuracy >= 0.91

    @pytest.mark.skipif(not FASHION.exists(), reason="Debian's dataset-fashion-mnist is missing")
    def test_its_accuracy_is_what_is_stated(self):
        sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
        from train_embedded import read

        pixels, labels = read(FASHION, "t10k")
        images = pixels.float()[:, None] / 255
        found = torch.cat([self.found.model(part) for part in images.split(1000)])
        assert (found == labels).double().mean() == pytest.approx(self.found.accuracy, abs=3e-4)
        assert torch.equal(images[:200], self.found.images)
        assert torch.equal(labels[:200], self.found.labels)
