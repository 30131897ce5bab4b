"""A network as a model: it stays as it was, and is run in a dtype, a layout, compiled."""

from __future__ import annotations

import contextlib
import pickle
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import tollbox as tb
from tollbox.core import device as device_module
from tollbox.core.device import CudaGraph, NotRecordable, set_tf32, tf32_allowed, tf32_setting
from tollbox.core.execution import LARGEST_BATCH
from tollbox.core.model import Decision
from tollbox.engine.sender import Sender
from tollbox.errors import ModelFault
from tollbox.model_check import EXACT_SIZES
from tollbox.models import compilation as compiled
from tollbox.models import compilation as graphs
from tollbox.models.compilation import Compiled, Graphed
from tollbox.models.pytorch import Forward, uncompiled

IMAGES = torch.rand((9, 3, 8, 8), generator=torch.Generator().manual_seed(1))
LOW = (torch.bfloat16, torch.float16)
LAYOUTS = {True: "channels_last", False: "contiguous"}


def small_net() -> nn.Sequential:
    torch.manual_seed(0)
    body = (nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.9), nn.Flatten())
    return nn.Sequential(*body, nn.Linear(4 * 36, 5))


def ready_net() -> nn.Sequential:
    return small_net().eval().to(memory_format=torch.channels_last)


def state(net):
    tensors = [*net.parameters(), *net.buffers()]
    return (
        [(t.dtype, t.device, t.stride(), t.data_ptr()) for t in tensors],
        [t.clone() for t in tensors],
        [module.training for module in net.modules()],
    )


@pytest.fixture
def eager(monkeypatch):
    """torch.compile without a compiler; shapes that are compiled."""
    shapes = []

    def backend(graph, inputs):
        shapes.extend(tuple(t.shape) for t in inputs if t.shape == (8,) or t.shape[1:] == (3, 8, 8))
        return graph.forward

    torch._dynamo.reset()
    compiled.check_compiler.cache_clear()
    monkeypatch.setattr(compiled, "BACKEND", backend)
    yield shapes
    torch._dynamo.reset()
    compiled.check_compiler.cache_clear()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *LOW])
@pytest.mark.parametrize("told", [None, torch.float64, torch.float32, *LOW])
def test_a_network_is_left_as_it_was(dtype, told):
    net = small_net().to(dtype)
    net[0].eval()
    before = state(net)
    model = tb.models.from_torch(net, dtype=told)
    model(model.sent(IMAGES.clone().double()))
    after = state(net)
    assert before[0] == after[0]
    assert before[2] == after[2]
    assert all(map(torch.equal, before[1], after[1]))
    assert model.network is not net
    assert not model.network.training


def test_a_network_is_shared_if_nothing_has_to_change():
    net = ready_net()
    assert tb.models.from_torch(net).network is net
    assert tb.models.from_torch(net, dtype=torch.float32, channels_last=True).network is net
    assert tb.models.from_torch(net, channels_last=False).network is not net
    assert tb.models.from_torch(net, dtype=torch.float64).network is not net
    net[1].train()
    assert tb.models.from_torch(net).network is not net


def test_from_torch_puts_its_copy_into_eval_mode():
    model = tb.models.from_torch(small_net())
    assert torch.equal(model(IMAGES), model(IMAGES))


def test_a_network_that_cannot_be_copied():
    net = ready_net()
    net.kept = net[0].weight * 2  # no leaf: torch does not copy such
    assert tb.models.from_torch(net).network is net
    net.train()
    with pytest.raises(
        tb.errors.InputError,
        match=r"^network cannot be copied \(RuntimeError: Only .*\), and is not in torch.float64 "
        r"and in eval mode: expected a network that can .*; give it in the state in which",
    ):
        tb.models.from_torch(net, dtype=torch.float64)


@pytest.mark.parametrize(
    ("dtype", "told", "inside", "points"),
    [
        (torch.float64, None, torch.float64, torch.float64),
        (torch.float32, None, torch.float32, torch.float32),
        (torch.float16, None, torch.float32, torch.float32),
        (torch.bfloat16, None, torch.float32, torch.float32),
        (torch.float16, torch.float16, torch.float16, torch.float32),
        (torch.float32, torch.bfloat16, torch.bfloat16, torch.float32),
        (torch.float64, torch.float16, torch.float16, torch.float32),
        (torch.float32, torch.float64, torch.float64, torch.float64),
    ],
)
def test_what_a_network_computes_in_and_what_is_sent(dtype, told, inside, points):
    model = tb.models.from_torch(small_net().to(dtype), dtype=told)
    assert {p.dtype for p in model.network.parameters()} == {inside}
    assert model.dtype == model.sent(IMAGES.clone()).dtype == points
    assert model.outputs(model.sent(IMAGES.clone())).dtype == inside
    assert model.running["dtype"] == str(inside).removeprefix("torch.")


def test_weights_of_several_kinds_become_one():
    net = small_net()
    net[0].half()
    assert {p.dtype for p in tb.models.from_torch(net).network.parameters()} == {torch.float32}
    net[0].double()
    model = tb.models.from_torch(net)
    assert {p.dtype for p in model.network.parameters()} == {torch.float64}
    only = nn.Sequential(nn.Flatten(), nn.Linear(192, 5))
    only.register_buffer("scale", torch.ones(1, dtype=torch.float64))
    assert tb.models.from_torch(only).dtype == torch.float32  # a buffer decides for no weight


def test_images_are_normalised_before_they_are_cast():
    """A difference of 1e-4 is lost in a bfloat16 of 0.5, and not in one of 0.5 - mean."""
    mean, std = [0.5], [1e-3]
    images = torch.full((1, 1, 2, 2), 0.5 + 1e-4)
    model = tb.models.from_torch(nn.Flatten(), mean=mean, std=std, dtype=torch.bfloat16)
    found = model.outputs(images)
    assert found.dtype == torch.bfloat16
    assert found.float().flatten().tolist() == pytest.approx([0.1] * 4, rel=1e-2)


def test_a_low_precision_model_is_measured_in_float32():
    class Level(nn.Module):
        def forward(self, images):
            level = images.flatten(1).mean(1)
            return torch.stack([0.45 - level, level - 0.45], 1)

    model = tb.models.from_torch(Level(), dtype=torch.bfloat16)
    source = torch.full((1, 1, 4, 4), 0.4)
    [result] = tb.run(tb.preset("hsja"), model, source, [0], budget=400)
    found = result.adversarial
    assert found.dtype == torch.float32
    assert not torch.equal(found, found.bfloat16().float())
    assert result.distance == pytest.approx(float((found - source[0]).double().norm()), rel=1e-6)


def test_the_decision_is_made_of_the_outputs():
    model = tb.models.from_torch(small_net(), mean=0.4, std=0.2)
    logits = model.outputs(IMAGES)
    assert logits.shape == (9, 5)
    assert torch.equal(logits.argmax(1), model(IMAGES))


def test_the_same_model_in_another_layout():
    settings = {"mean": 0.4, "std": 0.2, "quantize": 8, "batch": 9, "classes": 5}
    model = tb.models.from_torch(small_net(), **settings, dtype=torch.float64)
    model = pickle.loads(pickle.dumps(model))
    images = IMAGES.double()
    for last, layout in ((True, torch.channels_last), (False, torch.contiguous_format)):
        other = replace(model.in_layout(LAYOUTS[not last]), classes=7).in_layout(LAYOUTS[last])
        assert other.network[0].weight.is_contiguous(memory_format=layout)
        assert other.outputs.normalise.layout == layout
        assert (other.quantize, other.batch, other.classes, other.dtype) == (8, 9, 7, model.dtype)
        assert torch.allclose(other.outputs(images), model.outputs(images))
        assert other.running["channels_last"] == str(last).lower()
        assert model.in_layout(LAYOUTS[True]) is model
        assert model.relaid(channels_last=last).classes == 5
        assert (model.relaid(channels_last=last).network is model.network) == last


@pytest.fixture
def precisions():
    """What is set here is set back."""
    backends = (torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn)
    before = [each.fp32_precision for each in backends]
    yield backends
    for each, value in zip(backends, before, strict=True):
        each.fp32_precision = value


@pytest.mark.parametrize("modern", [False, True])
def test_tf32_holds_for_the_network_alone(precisions, modern):
    """Also where torch refuses to read `allow_tf32`, since it was set in the newer way."""
    seen, on, off = [], ("high", True), ("highest", False)
    if modern:
        precisions[0].fp32_precision = "tf32"
        on, off = ("tf32", "tf32"), ("ieee", "ieee")
        with pytest.raises(RuntimeError):
            print(torch.backends.cuda.matmul.allow_tf32)

    class Looks(nn.Flatten):
        def forward(self, images):
            seen.append(tf32_setting()[:2])
            if images.sum() == 0:
                raise ZeroDivisionError
            return super().forward(images)

    before = tf32_setting()
    assert before[:2] == (on if modern else ("highest", True))  # torch's own
    assert tf32_allowed()
    model = tb.models.from_torch(Looks())
    model(IMAGES)
    Forward(Looks(), model.outputs.normalise, torch.float32, True)(IMAGES)
    assert seen == [off, on]
    with pytest.raises(ZeroDivisionError):
        model(0 * IMAGES)
    assert tf32_setting() == before


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_torchs_precision_of_products_is_put_aside_and_back(precision):
    """ "medium" lets a CPU compute float32 products in bfloat16; torch must stay readable."""
    seen, cpu = [], torch.backends.mkldnn.matmul

    class Looks(nn.Flatten):
        def forward(self, images):
            seen.append((torch.get_float32_matmul_precision(), cpu.fp32_precision))
            return super().forward(images)

    before = tf32_setting()
    try:
        torch.set_float32_matmul_precision(precision)
        own = cpu.fp32_precision
        tb.models.from_torch(Looks())(IMAGES)
        assert seen == [("highest", "ieee")]
        assert (torch.get_float32_matmul_precision(), cpu.fp32_precision) == (precision, own)
    finally:
        set_tf32(before)


@pytest.mark.parametrize("dtype", [None, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("channels_last", [True, False])
def test_compilation_goes_with_every_option(eager, dtype, channels_last):
    how = {"mean": 0.4, "std": 0.2, "dtype": dtype, "channels_last": channels_last}
    model = tb.models.from_torch(small_net(), **how, compile=True)
    assert eager == [(8,)]  # when it is made, something small is tried
    images = model.sent(IMAGES.clone())
    wanted = tb.models.from_torch(small_net(), **how).outputs(images)
    assert torch.equal(model.outputs(images), wanted)
    assert torch.equal(model(images), wanted.argmax(1))
    assert eager == [(8,), (9, 3, 8, 8)]
    assert model.running["compile"] == "true"
    assert model.relaid(channels_last=not channels_last).running["compile"] == "true"
    there = pickle.loads(pickle.dumps(model))
    assert torch.equal(there.outputs(images), wanted)
    assert there.predict.outputs is there.outputs
    assert isinstance(there.outputs.network, Compiled)


def test_a_graph_is_of_the_compiled_network_and_both_are_made_anew_elsewhere(eager):
    forward = tb.models.from_torch(small_net(), compile=True).outputs
    there = pickle.loads(pickle.dumps(Graphed(forward)))
    assert isinstance(there, Graphed)
    assert isinstance(there.forward.network, Compiled)
    assert isinstance(uncompiled(there).network, nn.Module)
    assert torch.equal(uncompiled(there)(IMAGES), forward(IMAGES))


def test_nothing_is_left_of_them_in_a_plain_model(eager):
    model = tb.models.from_torch(small_net(), compile=True)
    twice = Forward(Graphed(model.outputs), model.outputs.normalise, torch.float32)
    eager.clear()
    for function in (model, model.predict, Graphed(model.outputs), twice):
        uncompiled(function)(IMAGES)
    assert eager == []


@pytest.fixture
def recorded(monkeypatch):
    """CUDA graphs without CUDA; shapes that are recorded."""
    shapes = []

    class Fake:
        def __init__(self, forward, images):
            shapes.append(len(images))
            self.forward = forward

        def __call__(self, images):
            return self.forward(images)

    monkeypatch.setattr(graphs, "CudaGraph", Fake)
    return shapes


def test_the_graph_that_was_used_longest_ago_makes_room(recorded, monkeypatch):
    monkeypatch.setattr(graphs, "MAX_GRAPHS", 3)
    graphed = Graphed(lambda images: 2 * images)
    for rows in (1, 2, 3, 1, 4, 1, 3, 4, 2):
        images = IMAGES[:rows]
        assert torch.equal(graphed(images), 2 * images)
        assert torch.equal(graphed(1 - images), 2 * (1 - images))
    assert recorded == [1, 2, 3, 4, 2]


def test_all_shapes_of_a_run_are_recorded(recorded):
    """After those that were tried and rejected, too."""
    model = replace(tb.models.from_callable(len), device=torch.device("cuda"))
    for size in (256, 1024, LARGEST_BATCH):
        shapes = Sender(model, size, one_shape=False, metered=False).shapes
        graphed, image = Graphed(torch.neg), IMAGES[:1, :1, :1, :1]
        for rows in (*EXACT_SIZES, *shapes):
            graphed(image.expand(rows, 1, 1, 1))
        recorded.clear()
        for rows in shapes:
            graphed(image.expand(rows, 1, 1, 1))
        assert recorded == []


@pytest.fixture
def cuda(monkeypatch):
    """CUDA graphs without CUDA, with torch's rules: a pool is used by one recording at a time, and
    an invalid recording cannot be ended by its graph alone."""
    state = SimpleNamespace(pools=0, under_way=set(), recording=None, invalid=False)

    class Graph:
        def capture_begin(self, pool=None, capture_error_mode="global"):
            self.pool = new_pool() if pool is None else pool
            if self.pool in state.under_way:
                raise RuntimeError("INTERNAL ASSERT FAILED: capture_begin")
            state.under_way.add(self.pool)
            state.recording, state.invalid = self, False

        def capture_end(self):
            if state.recording is not self or state.invalid:
                state.recording = None
                raise RuntimeError("CUDA error: operation failed due to a previous error")
            state.under_way.remove(self.pool)
            state.recording = None

    def new_pool():
        state.pools += 1
        return state.pools

    def stream(*_):
        return SimpleNamespace(wait_stream=lambda other: None)

    fakes = {
        "CUDAGraph": Graph,
        "graph_pool_handle": new_pool,
        "device": lambda device: contextlib.nullcontext(),
        "stream": lambda stream: contextlib.nullcontext(),
        "Stream": stream,
        "current_stream": stream,
        "current_device": lambda: 0,
        "synchronize": lambda: None,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)

    def ended(device, pool):
        state.under_way.remove(pool)

    monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", ended, raising=False)
    monkeypatch.setattr(device_module, "_pools", {})
    record = CudaGraph._record

    def noted(self, function):
        self.played = function
        record(self, function)

    monkeypatch.setattr(CudaGraph, "_record", noted)
    monkeypatch.setattr(CudaGraph, "__call__", lambda self, *inputs: self.played(*inputs))
    return state


class Held(nn.Module):
    """A network that fails only while it is recorded: as one with a tensor on the CPU does, which
    makes the recording invalid, or by an error of its own."""

    def __init__(self, state, invalid, error=RuntimeError):
        super().__init__()
        self.state, self.invalid, self.error = state, invalid, error

    def forward(self, images):
        if self.state.recording is not None:
            self.state.invalid = self.invalid
            raise self.error("operation not permitted\nwhen stream is capturing")
        return images.flatten(1)


@pytest.mark.parametrize("invalid", [True, False])
def test_a_network_that_cannot_be_recorded_runs_without_graphs_and_harms_no_other(cuda, invalid):
    held, good = (
        replace(model, predict=Decision(graph), outputs=graph)
        for network in (Held(cuda, invalid), nn.Flatten())
        for model in [tb.models.from_torch(network.eval())]  # not a copy
        for graph in [Graphed(model.outputs)]
    )
    images, options = IMAGES[:2].clone(), {"budget": 20, "execution": tb.Execution(check=True)}
    labels = good.predict(images)  # records its first shape
    results = tb.run("hsja", held, images, labels, **options)
    assert not cuda.under_way
    reason = "it cannot be recorded (RuntimeError: operation not permitted)"
    said = (f"the network runs without CUDA graphs: {reason}",)
    assert [r.warnings for r in results] == [said, said]
    assert results.failed == 0
    assert results.exactness.exact
    assert torch.equal(held.outputs(images), images.flatten(1))
    after = tb.run("hsja", good, images, labels, **options)
    assert [(r.warnings, r.stop, r.distance) for r in after] == [
        ((), r.stop, r.distance) for r in results
    ]
    assert len(good.outputs._recorded) > 1


def test_only_what_works_otherwise_is_not_recordable(cuda):
    def unless_recorded(error):
        return Held(cuda, True, error)

    with pytest.raises(NotRecordable):
        CudaGraph(unless_recorded(ValueError), IMAGES)
    for error in (torch.OutOfMemoryError, KeyboardInterrupt):  # for the sender, and the user
        with pytest.raises(error):
            CudaGraph(unless_recorded(error), IMAGES)
        assert not cuda.under_way
    with torch.inference_mode():
        graph = CudaGraph(torch.neg, IMAGES.clone())
    assert graph(IMAGES).equal(-IMAGES)
    assert not graph._inputs[0].is_inference()  # else it could not be written to later


def test_so_many_shapes_are_compiled(eager, monkeypatch):
    monkeypatch.setattr(compiled, "MAX_SHAPES", 12)  # torch by itself has 8
    model = tb.models.from_torch(small_net(), compile=True)
    wanted = tb.models.from_torch(small_net()).outputs
    for rows in [*range(1, 16), *range(1, 16)]:
        images = IMAGES[torch.arange(rows) % 9]
        assert torch.equal(model.outputs(images), wanted(images))
    assert eager[1:] == [(rows, 3, 8, 8) for rows in range(1, 13)]


def test_what_cannot_be_compiled_is_said_in_a_sentence(eager, monkeypatch):
    model = tb.models.from_torch(small_net(), compile=True)

    def broken(graph, inputs):
        raise OSError("no g++\nhere")

    torch._dynamo.reset()
    model.outputs.network._compiled = torch.compile(model.network, backend=broken)
    with pytest.raises(ModelFault, match=r"^the network cannot be compiled \(OSError: no g\+\+\)$"):
        model(IMAGES)
    monkeypatch.setattr(compiled, "BACKEND", broken)
    compiled.check_compiler.cache_clear()
    with pytest.raises(
        tb.errors.InputError,
        match=r"^compile is set, but torch.compile does not work here \(OSErr",
    ):
        tb.models.from_torch(small_net(), compile=True)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("channels_last", [True, False])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_the_compiler_itself(dtype, channels_last):
    how = {"dtype": dtype, "channels_last": channels_last}
    found = tb.models.from_torch(small_net(), compile=True, **how).outputs(IMAGES)
    wanted = tb.models.from_torch(small_net()).outputs(IMAGES)
    assert torch.allclose(found.float(), wanted, atol=1e-5 if dtype is None else 2e-2)
