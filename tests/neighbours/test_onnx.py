"""onnx: with onnxruntime: labels are those of the network that was exported; workers; resumed."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from small_studies import contents
from torch import nn

import tollbox as tb
from tollbox.errors import FileError, InputError
from tollbox.studies.specs import ModelSpec

MEAN, STD = [0.5], [0.25]
STUDY = """\
budget = 300
prices = [10]
batch_size = 8
device = "cpu"
images = {path = "set.npz"}

[[models]]
source = "onnx:double.onnx"
mean = 0.5

[[attacks]]
preset = "surfree"

[[attacks]]
preset = "a-hsja"
"""


def network() -> nn.Sequential:
    torch.manual_seed(0)
    body = (nn.Conv2d(3, 8, 5, stride=3), nn.Tanh(), nn.Flatten(), nn.Linear(800, 5))
    return nn.Sequential(*body).eval().requires_grad_(False)


class ChannelsLast(nn.Module):
    """A network for images (n, h, w, c)."""

    def __init__(self) -> None:
        super().__init__()
        self.network = network()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.network(images.permute(0, 3, 1, 2))


def exported(
    file: Path, net: nn.Module, *shape: int, any_batch: bool = True, dtype: Any = torch.float32
) -> Path:
    """An ONNX file as torch makes it."""
    dynamic = ({0: torch.export.Dim("n", min=1, max=4096)},) if any_batch else None
    example = torch.rand(shape, dtype=dtype)
    torch.onnx.export(net, (example,), str(file), dynamic_shapes=dynamic, verbose=False)
    return file


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with four files."""
    folder = tmp_path_factory.mktemp("onnx")
    exported(folder / "any.onnx", network(), 2, 3, 32, 32)
    exported(folder / "four.onnx", network(), 4, 3, 32, 32, any_batch=False)
    exported(folder / "last.onnx", ChannelsLast().eval(), 2, 32, 32, 3)
    flat = nn.Sequential(nn.Flatten(), nn.Linear(3072, 16), nn.Tanh(), nn.Linear(16, 5)).eval()
    exported(folder / "double.onnx", flat.double(), 2, 3, 32, 32, dtype=torch.float64)
    return folder


@pytest.mark.parametrize(("name", "batch"), [("any", None), ("four", 4), ("last", None)])
def test_labels_are_those_of_torch(
    files: Path, images: torch.Tensor, name: str, batch: int | None
) -> None:
    model = tb.models.load(f"onnx:{files / name}.onnx", mean=MEAN, std=STD)
    assert (model.batch, model.classes, model.names) == (batch, 5, None)
    assert model.preprocessing is not None
    assert model.preprocessing.size == (32, 32)
    wanted = network()((images - 0.5) / 0.25).argmax(1).tolist()
    if batch is None:
        assert model(images).tolist() == wanted
    else:
        assert [label for few in images.split(batch) for label in model(few).tolist()] == wanted
    assert len(set(wanted)) > 1
    results = tb.run(tb.preset("a-hsja"), model, images[:3], wanted[:3], budget=200)
    assert all(np.isfinite(result.distance) for result in results)
    assert pickle.loads(pickle.dumps(model))(images[:4]).tolist() == wanted[:4]


def test_two_processes(files: Path, images: torch.Tensor) -> None:
    model = tb.models.load(f"onnx:{files / 'double.onnx'}")
    assert model.dtype == torch.float64
    labels = model(images.double())
    settings: dict[str, Any] = {"budget": 150, "seed": 3}
    attack = tb.preset("a-hsja")
    alone = tb.run(attack, model, images[:4], labels[:4], **settings)
    with tb.workers.Workers(model, 2, force=True) as workers:
        both = tb.run(
            attack,
            model,
            images[:4],
            labels[:4],
            execution=tb.Execution(workers=workers),
            **settings,
        )
    assert [r.distance for r in both] == [r.distance for r in alone]


def test_names(files: Path) -> None:
    source = f"onnx:{files / 'any.onnx'}"
    assert tb.models.load(source, names=list("abcde")).names == tuple("abcde")
    for names in ("abcd", "abcdef"):
        with pytest.raises(
            InputError, match=rf"names has {len(names)} names, but .* has 5 classes"
        ):
            tb.models.load(source, names=list(names))


def save(file: Path, shape: list[Any], kind: int = TensorProto.FLOAT) -> Path:
    """A file that gives back what it takes, of any shape and type."""
    values = [helper.make_tensor_value_info(name, kind, shape) for name in ("x", "y")]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "same", values[:1], values[1:]
    )
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), file)
    return file


@pytest.mark.parametrize(
    ("shape", "kind", "image", "says"),
    [
        (["n", 5, 32, 7], TensorProto.FLOAT, (3, 32, 32), "with 1 or 3 channels"),
        (["n", 3, 32], TensorProto.FLOAT, (3, 32, 32), "takes 1 inputs, ['n', 3, 32]: expected"),
        (["n", 3, 32, 32], TensorProto.UINT8, (3, 32, 32), "takes tensor(uint8): expected one of"),
        (
            ["n", 3, 32, 32],
            TensorProto.FLOAT,
            (1, 32, 32),
            "images of shape (3, 32, 32), but",
        ),
        (
            ["n", 32, 32, 3],
            TensorProto.FLOAT,
            (3, 28, 28),
            "images of shape (3, 32, 32), but",
        ),
        (["n", "c", "h", "w"], TensorProto.FLOAT, (3, 8, 8), "expected logits (n, classes) or"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, shape: list[Any], kind: int, image: tuple[int, ...], says: str
) -> None:
    file = save(tmp_path / "net.onnx", shape, kind)
    with pytest.raises(InputError) as error:
        tb.models.load(f"onnx:{file}", torch.rand(image))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_needs_no_prefix(files: Path, tmp_path: Path, images: torch.Tensor) -> None:
    plain, named = (tb.models.load(f"{word}{files / 'any.onnx'}") for word in ("", "onnx:"))
    assert torch.equal(plain(images), named(images))
    assert plain.preprocessing == named.preprocessing
    spec = ModelSpec.of("any.onnx", folder=files)
    assert (spec.name, spec.resolved) == ("any", f"onnx:{files / 'any.onnx'}")


def endless(file: Path) -> None:
    """A model whose loop takes more steps than there is time for."""
    value, step = helper.make_tensor_value_info, TensorProto.INT64
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"]),
            helper.make_node("Sin", ["before"], ["after"]),
        ],
        "body",
        [
            value("number", step, []),
            value("go", TensorProto.BOOL, []),
            value("before", TensorProto.FLOAT, None),
        ],
        [value("go_on", TensorProto.BOOL, []), value("after", TensorProto.FLOAT, None)],
    )
    most = helper.make_tensor("most", step, [], [2**62])
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[2, 3], keepdims=0),
        helper.make_node("Loop", ["most", "", "mean"], ["y"], body=body),
    ]
    graph = helper.make_graph(
        nodes,
        "endless",
        [value("x", TensorProto.FLOAT, ["n", 3, 32, 32])],
        [value("y", TensorProto.FLOAT, ["n", 3])],
        [most],
    )
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), file)


def test_the_time_limit_ends_an_endless_model(tmp_path: Path, tollbox: Any) -> None:
    endless(tmp_path / "net.onnx")
    np.savez(tmp_path / "set.npz", images=np.zeros((1, 3, 32, 32)), labels=[0])
    done = tollbox(
        *("attack", "--model", "net.onnx", "--images", "set.npz", "--budget", "10"),
        *("--time-limit", "1s", "--out", "out"),
    )
    assert done.returncode == 1
    assert "time limit reached before the run started: no answer within 1 s" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", [b"", b"no model", None])
def test_broken_files(files: Path, tmp_path: Path, content: bytes | None, tollbox: Any) -> None:
    whole = (files / "any.onnx").read_bytes()
    (tmp_path / "net.onnx").write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(FileError, match=r"net\.onnx cannot be loaded \(.*a complete ONNX file"):
        tb.models.load(f"onnx:{tmp_path / 'net.onnx'}")
    np.savez(tmp_path / "set.npz", images=np.zeros((1, 3, 32, 32)), labels=[0])
    done = tollbox(
        *("attack", "--model", "onnx:net.onnx", "--images", "set.npz"),
        *("--budget", "10", "--out", "out"),
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "--model net.onnx cannot be loaded" in done.stderr
    assert not (tmp_path / "out").exists()
    with pytest.raises(FileError, match=r"nowhere\.onnx does not exist: expected an ONNX file"):
        tb.models.load("onnx:nowhere.onnx")


def write_study(folder: Path, files: Path, images: torch.Tensor) -> None:
    (folder / "double.onnx").write_bytes((files / "double.onnx").read_bytes())
    for data in files.glob("double.onnx.*"):
        (folder / data.name).write_bytes(data.read_bytes())
    model = tb.models.load(f"onnx:{files / 'double.onnx'}", mean=[0.5])
    np.savez(folder / "set.npz", images=images[:3], labels=model(images[:3].double()).tolist())
    (folder / "study.toml").write_text(STUDY)


def test_killed_and_resumed(
    files: Path, tmp_path: Path, images: torch.Tensor, tollbox: Any
) -> None:
    write_study(tmp_path, files, images)
    whole = tollbox("run", "study.toml", "--out", "whole")
    assert whole.returncode == 0, whole.stderr
    command = [sys.executable, "-m", "tollbox", "run", "study.toml", "--out", "killed"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as running:
        written = tmp_path / "killed" / "shard-0.sqlite-wal"
        while running.poll() is None and not (written.exists() and written.stat().st_size > 60_000):
            time.sleep(0.005)
        running.send_signal(signal.SIGKILL)
    assert running.returncode == -signal.SIGKILL
    done = tollbox("resume", "killed")
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    with tb.studies.StudyResults(tmp_path / "killed") as results:
        assert len(results) == 6


def test_a_study_is_not_resumed_with_another_file(
    files: Path, tmp_path: Path, images: torch.Tensor, tollbox: Any
) -> None:
    write_study(tmp_path, files, images)
    done = tollbox("run", "study.toml", "--out", "out", "--time-limit", "0.01s")
    assert (done.returncode, "cells remain" in done.stderr) == (3, True), done.stderr
    [weights] = tmp_path.glob("double.onnx.*")  # torch keeps them in a file of their own
    content = bytearray(weights.read_bytes())
    content[0] ^= 1  # the last bit of a weight
    weights.write_bytes(content)
    done = tollbox("resume", "out")
    assert done.returncode == 2
    assert "the file of the model 'double' (onnx:double.onnx) changed" in done.stderr
    os.unlink(tmp_path / "double.onnx")
    done = tollbox("run", "study.toml", "--out", "other")
    assert done.returncode == 2
    assert "double.onnx does not exist" in done.stderr
    assert not (tmp_path / "other").exists()


def test_tf32_is_off_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its default is on; a session is not made here, where there is no GPU."""
    import onnxruntime

    from tollbox.models.onnx import CUDA, _session

    seen: list[Any] = []
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CUDA])
    monkeypatch.setattr(
        onnxruntime, "InferenceSession", lambda *_, providers: seen.append(providers)
    )
    for device in ("cuda", "cpu"):
        _session("net.onnx", torch.device(device), 1)
    assert seen == [[(CUDA, {"use_tf32": "0"}), "CPUExecutionProvider"], ["CPUExecutionProvider"]]
