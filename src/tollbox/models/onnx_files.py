"""Models in ONNX files: `onnx:net.onnx`, run by onnxruntime.

1. The batch size, the layout (NCHW or NHWC), the size of images and their type are read from the
   file; where the channels are is told by a dimension of 1 or 3, and if none is, it is NCHW.
2. A session cannot be sent to another process: the path is, and each process opens its own, with as
   many threads as torch has there.
3. Of several outputs, the first that can be logits (n, classes) counts; else the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..core.preprocessing import Preprocessing
from ..data.tables import kind_of
from ..data.user_code import optional, with_kind
from ..errors import FileError
from .adapter import Network, Source
from .named import adapter, name_in

DTYPES = {
    "tensor(float)": torch.float32,
    "tensor(double)": torch.float64,
    "tensor(float16)": torch.float16,
}
CHANNELS = (1, 3)
FATAL = 4
"""onnxruntime's level for what it logs."""


class OnnxFile:
    """A function of images (n, c, h, w): what the model in a file gives."""

    def __init__(self, path: str, device: torch.device, channels_last: bool = False) -> None:
        self.path, self.device, self.channels_last = path, device, channels_last
        self._threads, self._opened = 0, None

    def __reduce__(self) -> tuple[type[OnnxFile], tuple[str, torch.device, bool]]:
        """Another process opens its own."""
        return OnnxFile, (self.path, self.device, self.channels_last)

    @property
    def session(self) -> Any:
        """One with as many threads as torch has now."""
        threads = torch.get_num_threads()
        if self._opened is None or self._threads != threads:
            self._opened, self._threads = _session(self.path, self.device, threads), threads
        return self._opened

    def __call__(self, images: Tensor) -> Tensor:
        """Its answer, on the device of the images."""
        session = self.session
        batch = images.permute(0, 2, 3, 1) if self.channels_last else images
        [given], pixels = session.get_inputs(), batch.contiguous().cpu().numpy()
        [answer] = session.run([_answer(session.get_outputs()).name], {given.name: pixels})
        return torch.from_numpy(answer).to(images.device)


def load(source: Source) -> Network:
    """The model in the file, and what that says of its images."""
    path = name_in(source)
    kind = kind_of(path, path, input="model")
    if kind != "file":
        what = "does not exist" if kind == "nothing" else "is not a file"
        raise FileError(f"{path} {what}", expected="an ONNX file", input="model")
    file = OnnxFile(path, source.device)
    inputs = file.session.get_inputs()
    if len(inputs) != 1 or len(inputs[0].shape) != 4:
        shapes = " and ".join(str(each.shape) for each in inputs)
        raise FileError(
            f"{path} takes {len(inputs)} inputs, {shapes}",
            expected="one, images (n, c, h, w) or (n, h, w, c)",
            input="model",
        )
    [images] = inputs
    if images.type not in DTYPES:
        raise FileError(
            f"{path} takes {images.type}", expected=f"one of {', '.join(DTYPES)}", input="model"
        )
    rows, *sides = (size if isinstance(size, int) and size > 0 else None for size in images.shape)
    layout = _layout(images.shape)
    if not layout:
        raise FileError(
            f"{path} takes images of shape {images.shape}",
            expected="(n, c, h, w) or (n, h, w, c) with 1 or 3 channels",
            input="model",
        )
    file.channels_last = layout == "NHWC"
    channels, height, width = (sides[2], sides[0], sides[1]) if file.channels_last else sides
    size = None if height is None or width is None else (height, width)
    return Network(
        file,
        DTYPES[images.type],
        rows,
        (channels, height, width),
        "an ONNX file",
        preprocessing=Preprocessing(size),
    )


def _layout(shape: Sequence[Any]) -> str:
    """NCHW or NHWC; empty if no dimension can be that of the channels."""
    _, first, _, last = (size if isinstance(size, int) else None for size in shape)
    if first in CHANNELS:
        return "NCHW"
    if last in CHANNELS:
        return "NHWC"
    return "NCHW" if first is None else ""


def _session(path: str, device: torch.device, threads: int) -> Any:
    runtime = optional("onnxruntime", "onnx: models are run with it", extra="onnx")
    options = runtime.SessionOptions()
    options.log_severity_level = FATAL
    options.intra_op_num_threads = threads
    wanted = {"cuda": "CUDAExecutionProvider"}.get(device.type)
    known = runtime.get_available_providers()
    providers = [name for name in (wanted, "CPUExecutionProvider") if name in known]
    try:
        return runtime.InferenceSession(str(Path(path)), options, providers=providers)
    except Exception as error:  # onnxruntime has a kind of its own for each thing
        raise FileError(
            f"{path} cannot be loaded ({with_kind(error)})",
            expected="an ONNX file that was saved whole, with operators that this version of "
            f"onnxruntime ({runtime.__version__}) has",
            input="model",
        ) from None


def _answer(outputs: Sequence[Any]) -> Any:
    """The output that is decided on."""
    scores = [o for o in outputs if len(o.shape) == 2 and o.type in DTYPES]
    return (scores or outputs)[0]


ADAPTER = adapter("onnx", "onnx:FILE", load, ("onnxruntime",), "file")
