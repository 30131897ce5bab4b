"""Devices: selection, transfers of images, memory, fused kernels, TF32, and CUDA graphs.

1. On a CPU a network allocates and frees its activations, megabytes each, for every batch. By
   default the C library returns them to the system, which maps and clears them page by page the
   next time. For a small network that takes as long as computing; `keep_freed` prevents it.
2. TF32: torch has two interfaces, `set_float32_matmul_precision` with `allow_tf32`, and, since 2.9,
   `fp32_precision`. Reading the first raises after the second was set. So a setting is read and
   restored through the first interface while that is readable, otherwise through the second. The
   first also lets a CPU compute in bfloat16 ("medium"), so the CPU's precision is set as well.
3. A CUDA graph records the launches of many small kernels once and replays them as one. It has its
   own memory: inputs and outputs are copied, so that a replay on the same stream may follow
   immediately. So all graphs can share one memory pool.
4. A function with synchronisation or with tensors on the CPU cannot be recorded. After a failed
   recording torch (before 2.12) still routes allocations to the pool, and refuses to use it again.
   So the recording is ended here, and later graphs get another pool.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, text_of
from .validation import expect, shown

OUT_OF_MEMORY = ("can't allocate memory", "CUDA error: out of memory", "_STATUS_ALLOC_FAILED")
"""Messages of a RuntimeError when memory runs out: from torch on the CPU, from a process that
cannot even initialise the GPU, and from cuBLAS and cuDNN."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Constants of glibc's malloc.h."""
KEPT_AT_MOST, LARGEST_KEPT = 2**31 - 1, 32 * 2**20
"""Bytes kept free at the end of the heap, and the largest allocation kept: glibc's maxima."""
WARM_UP_RUNS = 3
"""Calls before a graph is recorded, in which libraries choose kernels and functions compile."""


def usable(device: str | torch.device | None) -> torch.device:
    """Return a device that works; by default the GPU if there is one, else the CPU."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
        if chosen.type == "meta":  # it holds no numbers
            raise RuntimeError
        torch.zeros(1, device=chosen).cpu()
    except (RuntimeError, AssertionError, NotImplementedError, ImportError, TypeError, ValueError):
        names = ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
        names += ["mps"] if torch.backends.mps.is_available() else []
        given = shown(str(device) if isinstance(device, torch.device) else device)
        given = f"is {given}, which this installation of torch cannot use here"
        raise InputError(given, expected=" or ".join(names), input="device") from None
    return chosen


def unreadable(value: Any) -> str:
    """Return what a tensor is whose values cannot be read; empty for any other value."""
    if not isinstance(value, Tensor):
        return ""
    if value.device.type == "meta":
        return "on the meta device, without values"
    if value.is_nested or value.layout != torch.strided:
        return "that is nested" if value.is_nested else f"with layout {value.layout}"
    eight_bit = value.is_floating_point() and value.element_size() == 1  # torch cannot compare them
    return f"of {value.dtype}" if eight_bit else ""


def check_readable(value: Any, name: str) -> None:
    """Raise InputError about `name` for a tensor whose values cannot be read."""
    what = unreadable(value)
    expect(not what, f"{name} is a tensor {what}", "a dense tensor with values")


def to_device(image: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return a contiguous copy of an image on a device, without waiting for the device. An attack
    that writes into it does not change the caller's image."""
    if device.type == "cuda" and image.device.type == "cpu":
        image = image.to(dtype).pin_memory()  # a copy from pageable memory would wait
    form = torch.contiguous_format
    return image.to(device, dtype, non_blocking=True, copy=True, memory_format=form)


@lru_cache(maxsize=1)
def keep_freed() -> bool:
    """Make this process keep freed memory for the next batch. Return whether that worked: only the
    C library of Linux (glibc) supports it."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(M_TRIM_THRESHOLD, KEPT_AT_MOST) and mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT))


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether memory ran out, according to an error or to one of its causes."""
    if error is None:
        return False
    text = text_of(error) if isinstance(error, RuntimeError) else ""
    return (
        isinstance(error, torch.OutOfMemoryError | MemoryError)
        or any(message in text for message in OUT_OF_MEMORY)
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or is_out_of_memory(error.__cause__ or error.__context__)
    )


@lru_cache(maxsize=1)
def _kernels() -> Any:
    try:
        return import_module(".kernels", __package__)  # slow: it imports triton
    except ImportError:
        return None


def kernels_for(like: Tensor) -> Any:
    """Return the module kernels.py for a CUDA tensor if triton is installed; otherwise None."""
    return _kernels() if like.is_cuda else None


TF32Setting = tuple[bool | str, ...]
"""Settings of matrix products and convolutions on CUDA, and, since torch 2.9, on the CPU."""
_PRODUCTS: Any = torch.backends.cuda.matmul
_CUDNN: Any = torch.backends.cudnn
_MKLDNN: Any = torch.backends.mkldnn
_CPU = (_MKLDNN.matmul, _MKLDNN.conv) if hasattr(_MKLDNN, "matmul") else ()


def tf32_setting() -> TF32Setting:
    """Return torch's current setting in this process."""
    cpu = [each.fp32_precision for each in _CPU]
    try:
        return torch.get_float32_matmul_precision(), _CUDNN.allow_tf32, *cpu
    except RuntimeError:
        return _PRODUCTS.fp32_precision, _CUDNN.conv.fp32_precision, *cpu


def set_tf32(setting: TF32Setting) -> None:
    """Set torch to a setting read in another process or at another time."""
    products, convolutions, *cpu = setting
    if isinstance(convolutions, bool):
        torch.set_float32_matmul_precision(str(products))
        _CUDNN.allow_tf32 = convolutions
    else:
        _PRODUCTS.fp32_precision, _CUDNN.conv.fp32_precision = products, convolutions
    for each, precision in zip(_CPU, cpu, strict=False):
        each.fp32_precision = precision


def tf32_turned(on: bool) -> TF32Setting:
    """Return the setting that turns TF32 on or off, for the interface in use."""
    cpu = ["none" if on else "ieee" for _ in _CPU]
    if isinstance(tf32_setting()[1], bool):
        return "high" if on else "highest", on, *cpu
    return *(["tf32" if on else "ieee"] * 2), *cpu


def tf32_allowed() -> bool:
    return any(value in (True, "tf32", "high", "medium") for value in tf32_setting()[:2])


class NotRecordable(RuntimeError):
    """A function that works, but whose launches cannot be recorded in a CUDA graph."""


_pools: dict[torch.device, tuple[Any, torch.cuda.CUDAGraph]] = {}
"""The memory that the graphs of a device share, and a graph that keeps it: torch cannot record into
memory whose graphs are all gone."""
_failed: list[Any] = []
"""Graphs whose recording failed; torch's allocators may keep pointers to them."""


@lru_cache
def _stream_aside(device: torch.device) -> torch.cuda.Stream:
    """Return the stream on which functions are warmed up: one, since torch keeps memory that was
    freed on a stream for that stream."""
    return torch.cuda.Stream(device)


class CudaGraph:
    """A function of CUDA tensors, recorded for the shapes of `inputs`.

    Raises NotRecordable if the function works but cannot be recorded.
    """

    @torch.inference_mode(False)  # its memory must be writable in any mode
    @torch.no_grad()
    def __init__(self, function: Callable[..., Tensor], *inputs: Tensor) -> None:
        self._inputs = [each.clone() for each in inputs]
        self._device = inputs[0].device
        with torch.cuda.device(self._device):
            # Not `torch.cuda.graph`: it collects garbage and releases all free memory first.
            aside = _stream_aside(self._device)
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):
                for _ in range(WARM_UP_RUNS):
                    function(*self._inputs)
                torch.cuda.synchronize()
                self._record(function)
            torch.cuda.current_stream().wait_stream(aside)

    def _record(self, function: Callable[..., Tensor]) -> None:
        if self._device not in _pools:
            pool, kept = torch.cuda.graph_pool_handle(), torch.cuda.CUDAGraph()
            kept.capture_begin(pool, "thread_local")
            self._inputs[0].new_zeros(1)
            kept.capture_end()
            _pools[self._device] = pool, kept
        self._graph, (pool, _) = torch.cuda.CUDAGraph(), _pools[self._device]
        try:
            self._graph.capture_begin(pool, "thread_local")
            self._output = function(*self._inputs)
            self._graph.capture_end()
        except BaseException as error:
            self._end_recording(pool)
            del _pools[self._device]
            if not isinstance(error, Exception) or is_out_of_memory(error):
                raise
            raise NotRecordable from error

    def _end_recording(self, pool: Any) -> None:
        """End a recording that failed, so that nothing else in this process fails because of it."""
        try:
            self._graph.capture_end()
        except RuntimeError:  # the recording is invalid
            _failed.append(self._graph)
            with contextlib.suppress(RuntimeError, AttributeError):  # torch 2.12 has done it
                torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), pool)
            with contextlib.suppress(RuntimeError):
                # In some versions torch.rand fails from here until another recording ends.
                other = torch.cuda.CUDAGraph()
                other.capture_begin(capture_error_mode="thread_local")
                self._inputs[0].clone()
                other.capture_end()

    @torch.inference_mode(False)
    @torch.no_grad()
    def __call__(self, *inputs: Tensor) -> Tensor:
        torch._foreach_copy_(self._inputs, list(inputs))
        with torch.cuda.device(self._device):
            self._graph.replay()
        return self._output.clone()
