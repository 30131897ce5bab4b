"""Models in ONNX files: `onnx:net.onnx`, run by onnxruntime.

1. The batch size, the layout (NCHW or NHWC), the image size and the dtype are read from the file.
   The layout is NHWC if the last dimension is 1 or 3 and the second is not, otherwise NCHW.
2. A session cannot be pickled, so each process opens the file, with torch's number of threads.
3. If there are several outputs, the first with the shape of logits (n, classes) is used, or else
   the first.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..core.preprocessing import Preprocessing
from ..data.tables import check_file
from ..data.user_code import optional, with_kind
from .network import Network, Source, file_error

DTYPES = {
    "tensor(float)": torch.float32,
    "tensor(double)": torch.float64,
    "tensor(float16)": torch.float16,
}
CHANNELS = (1, 3)
CUDA = "CUDAExecutionProvider"
"""Its default is TF32."""
FATAL = 4
"""onnxruntime's log level for fatal errors."""


class OnnxFile:
    """A function of images (n, c, h, w) that runs the model in a file."""

    def __init__(self, path: str, device: torch.device, channels_last: bool = False) -> None:
        self.path, self.device, self.channels_last = path, device, channels_last
        self._threads, self._session = 0, None

    def __reduce__(self) -> tuple[type[OnnxFile], tuple[str, torch.device, bool]]:
        return OnnxFile, (self.path, self.device, self.channels_last)

    @property
    def session(self) -> Any:
        threads = torch.get_num_threads()
        if self._session is None or self._threads != threads:
            self._session, self._threads = _session(self.path, self.device, threads), threads
        return self._session

    def __call__(self, images: Tensor) -> Tensor:
        session = self.session
        batch = images.permute(0, 2, 3, 1) if self.channels_last else images
        [given], outputs = session.get_inputs(), session.get_outputs()
        scores = [o for o in outputs if len(o.shape) == 2 and o.type in DTYPES]
        name, pixels = (scores or outputs)[0].name, batch.contiguous().cpu().numpy()
        [answer] = session.run([name], {given.name: pixels})
        return torch.from_numpy(answer).to(images.device)


def load(source: Source) -> Network:
    path = source.name
    check_file(path, "an ONNX file", input="model")
    file = OnnxFile(path, source.device)
    inputs = file.session.get_inputs()
    if len(inputs) != 1 or len(inputs[0].shape) != 4:
        shapes = " and ".join(str(each.shape) for each in inputs)
        given = f"{path} takes {len(inputs)} inputs, {shapes}"
        raise file_error(given, "one, images (n, c, h, w) or (n, h, w, c)")
    [images] = inputs
    if images.type not in DTYPES:
        raise file_error(f"{path} takes {images.type}", f"one of {', '.join(DTYPES)}")
    sides = [size if isinstance(size, int) else None for size in images.shape]
    _, first, _, last = sides
    if first not in (None, *CHANNELS) and last not in CHANNELS:
        given = f"{path} takes images of shape {images.shape}"
        raise file_error(given, "(n, c, h, w) or (n, h, w, c) with 1 or 3 channels")
    file.channels_last = first not in CHANNELS and last in CHANNELS
    rows, *sides = [size if size and size > 0 else None for size in sides]
    channels, height, width = (sides[2], sides[0], sides[1]) if file.channels_last else sides
    size = None if height is None or width is None else (height, width)
    dtype, shape, own = DTYPES[images.type], (channels, height, width), Preprocessing(size=size)
    return Network(source, file, dtype, rows, shape, "an ONNX file", preprocessing=own)


def _session(path: str, device: torch.device, threads: int) -> Any:
    runtime = optional("onnxruntime", "onnx: models are run with it", extra="onnx")
    options = runtime.SessionOptions()
    options.log_severity_level = FATAL
    options.intra_op_num_threads = threads
    providers: list[Any] = ["CPUExecutionProvider"]
    if device.type == "cuda" and CUDA in runtime.get_available_providers():
        providers.insert(0, (CUDA, {"use_tf32": "0"}))
    try:
        return runtime.InferenceSession(path, options, providers=providers)
    except Exception as error:  # onnxruntime has its own type for each problem
        raise file_error(
            f"{path} cannot be loaded ({with_kind(error)})",
            "a complete ONNX file, with operators that this version of onnxruntime "
            f"({runtime.__version__}) has",
        ) from None
