"""A user's own model: a `torch.export` file, a TorchScript file, or `module:function`.

1. What a file is, is told by its content, not by its name. A pickle (a state dict, a whole module)
   is refused with what to do instead: nothing is ever unpickled but tensors. Still, open model
   files only from those you trust: torch itself interprets what is in them.
2. An exported program knows the batch sizes it takes: it is run at the wanted one if that is among
   them.
3. A function of images, or a network, is imported with the current folder first on the path; a
   function without arguments is called, and gives the network.
4. The model is tried on one image, uncharged, before a run: that finds out a model which does not
   take such images, and the number of classes. Whatever it raises, an exit too, is told.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..core.model import Model
from ..errors import FileError, InputError, ModelFault
from ..files.functions import called, imported, with_kind
from ..files.tables import in_a_line, kind_of
from .pytorch import labels_of

HOW_TO_EXPORT = (
    "expected a model exported with torch.export.save(torch.export.export(net.eval(), (images,)), "
    "'model.pt2') or saved with torch.jit.save(torch.jit.script(net.eval()), 'model.pt'); or give "
    "module:function instead of a file"
)
USUAL_BATCH = 64


@dataclass(frozen=True)
class Network:
    """What maps images to logits or labels, before normalisation is put in front of it."""

    forward: Callable[[Tensor], Any]
    dtype: torch.dtype = torch.float32
    batch: int | None = None
    shape: tuple[int | None, ...] = (None, None, None)
    """(c, h, w) that it takes; None where any."""
    channels_last: bool = False


def load_model(
    given: str,
    example: Tensor,
    *,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    device: str | torch.device = "cpu",
    quantize: int | None = None,
    batch_size: int | None = None,
) -> Model:
    """The model that `given` names, tried on `example` (c, h, w), for batches of `batch_size`."""
    place = torch.device(device)
    network = _network(given, place, batch_size)
    if batch_size and network.batch not in (None, batch_size):
        raise InputError(
            f"--batch-size is {batch_size}: the model {given} takes {network.batch} only."
        )
    if any(n not in (None, size) for n, size in zip(network.shape, example.shape, strict=True)):
        shape = ", ".join("any" if size is None else str(size) for size in network.shape)
        raise InputError(
            f"the model {given} takes images of shape ({shape}), but the images are "
            f"{tuple(example.shape)} (channels, height, width)."
        )
    centre = _per_channel("mean", mean, example, network.dtype, place)
    scale = _per_channel("std", std, example, network.dtype, place)
    layout = torch.channels_last if network.channels_last else torch.contiguous_format

    def output(images: Tensor) -> Tensor:
        images = images.contiguous(memory_format=layout)
        if centre is not None:
            images = images - centre
        if scale is not None:
            images = images / scale
        answer = network.forward(images)
        return answer if isinstance(answer, Tensor) else _as_tensor(answer)

    @torch.inference_mode()
    def predict(images: Tensor) -> Tensor:
        return labels_of(output(images))

    run = network.forward
    behind = run if isinstance(run, nn.Module) and not run.training else None
    model = Model(predict, place, network.dtype, quantize, network.batch, network=behind)
    return replace(model, classes=_classes(given, model, output, example))


def _classes(
    given: str, model: Model, output: Callable[[Tensor], Tensor], example: Tensor
) -> int | None:
    """The number of classes, if the model gives logits; an InputError if it fails."""
    batch = example[None].to(model.device).repeat(model.batch or 1, 1, 1, 1)
    batch = model.sent(batch)
    try:
        with torch.inference_mode():
            answer = output(batch)
        model(batch)
    except (Exception, SystemExit) as error:  # it is the user's: any kind may come
        what = in_a_line(error) if isinstance(error, ModelFault) else with_kind(error)
        raise InputError(
            f"the model {given} failed on a batch of {len(batch)} of the given images, of shape "
            f"{tuple(example.shape)}: {what}. Expected logits (n, classes) or integer "
            "labels (n) from images (n, c, h, w) in [0,1]."
        ) from None
    return answer.shape[1] if answer.ndim == 2 else None


def _network(given: str, device: torch.device, wanted: int | None) -> Network:
    if not given.strip():
        raise InputError(f"--model is {given!r}: {HOW_TO_EXPORT}.")
    kind = kind_of(given, f"the model file {given}")
    if kind in ("folder", "other"):
        what = "a folder" if kind == "folder" else "not a regular file"
        raise FileError(f"the model {given} is {what}: {HOW_TO_EXPORT}.")
    if kind == "file":
        return _from_file(Path(given), device, wanted)
    if ":" not in given:
        raise FileError(f"the model file {given} does not exist: {HOW_TO_EXPORT}.")
    return _imported(given, device)


# -- files ----------------------------------------------------------------------------------------


def _from_file(path: Path, device: torch.device, wanted: int | None) -> Network:
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.partition("/")[2] or name for name in archive.namelist()}
            names |= set(archive.namelist())
    except OSError as error:
        raise FileError(f"the model file {path} cannot be read: {error.strerror}.") from None
    except zipfile.BadZipFile:
        raise FileError(
            f"the model file {path} is neither an exported program nor TorchScript: "
            f"{HOW_TO_EXPORT}."
        ) from None
    exported = names & {"archive_format", "serialized_exported_program.json"}
    scripted = "constants.pkl" in names and any(name.startswith("code/") for name in names)
    if not exported and not scripted:
        what = "a pickle (a state dict or a whole module)" if "data.pkl" in names else "not a model"
        raise FileError(f"the model file {path} is {what}, which is not loaded: {HOW_TO_EXPORT}.")
    try:
        return _exported(path, device, wanted) if exported else _scripted(path, device)
    except InputError:
        raise
    except Exception as error:  # torch raises many kinds for broken files
        raise FileError(
            f"the model file {path} cannot be loaded: {with_kind(error)}. Was it saved whole, "
            f"and by a version of torch that this one ({torch.__version__}) can read?"
        ) from None


def _scripted(path: Path, device: torch.device) -> Network:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`torch\.jit\.", DeprecationWarning)
        script = torch.jit.load(path, map_location=device)
    if hasattr(script, "training"):  # a frozen one has no modes
        script.eval()
    kinds = [p.dtype for p in script.parameters() if p.is_floating_point()]
    return Network(script, kinds[0] if kinds else torch.float32)


def _exported(path: Path, device: torch.device, wanted: int | None) -> Network:
    with _tensors_only(), open(path, "rb") as file:
        program = torch.export.load(file)
    inputs = program.graph_signature.user_inputs
    images = [
        n.meta["val"] for n in program.graph.nodes if n.op == "placeholder" and n.name in inputs
    ]
    if len(images) != 1 or not isinstance(images[0], Tensor) or images[0].ndim != 4:
        raise FileError(
            f"the model file {path} takes {len(images)} inputs: expected one, images (n, c, h, w)."
        )
    [image] = images
    if not image.is_floating_point():
        raise FileError(f"the model file {path} takes {image.dtype}: expected floats.")
    if image.device != device:
        from torch.export.passes import move_to_device_pass

        program = move_to_device_pass(program, device)
    shape = tuple(size if isinstance(size, int) else None for size in image.shape[1:])
    return Network(program.module(), image.dtype, _batch(image.shape[0], program, wanted), shape)


def _batch(size: Any, program: Any, wanted: int | None) -> int | None:
    """The batch size to run at; None if any will do."""
    if isinstance(size, int):
        return size
    bounds = program.range_constraints.get(size.node.expr)
    if bounds is None:  # a multiple of something: what it was exported with is sure to be right
        return int(program.example_inputs[0][0].shape[0])
    if wanted is not None and not bounds.lower <= wanted <= bounds.upper:
        raise InputError(
            f"--batch-size is {wanted}: the model takes {bounds.lower} to {bounds.upper} only."
        )
    if bounds.lower <= 2 and bounds.upper >= 512:
        return None
    return wanted or int(max(bounds.lower, min(bounds.upper, USUAL_BATCH)))


@contextlib.contextmanager
def _tensors_only() -> Iterator[None]:
    """While torch.export loads: let it unpickle tensors only, and keep its log to itself."""
    forced, barred = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
    before = {name: os.environ.pop(name, None) for name in (forced, barred)}
    log = logging.getLogger("torch.export")
    level = log.level
    os.environ[forced] = "1"
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)
        os.environ.pop(forced)
        os.environ.update({name: value for name, value in before.items() if value is not None})


# -- module:function ------------------------------------------------------------------------------


def _imported(given: str, device: torch.device) -> Network:
    told = f"the model is {given!r}"
    found = imported(given, told)
    if _makes_one(found):
        found = called(found, told)
        if not isinstance(found, nn.Module | Model):
            raise InputError(
                f"{told}, a function without arguments, and it gave {type(found).__name__}: "
                "expected a network (an instance of nn.Module) from it, or a function of images."
            )
    if isinstance(found, type) or not callable(found):
        what = "a class" if isinstance(found, type) else type(found).__name__
        raise InputError(
            f"{told}, which is {what}: expected a network (an instance of nn.Module), a function "
            "of images, or one without arguments that gives a network."
        )
    if isinstance(found, nn.Module):
        network = found.to(device).eval()
        last = any(isinstance(part, nn.Conv2d) for part in network.modules())
        kinds = [p.dtype for p in network.parameters() if p.is_floating_point()]
        return Network(network, kinds[0] if kinds else torch.float32, channels_last=last)
    if isinstance(found, Model):
        return Network(found, found.dtype, found.batch)
    return Network(found)


def _makes_one(found: Any) -> bool:
    """It is a function without arguments, which gives the model."""
    return inspect.isfunction(found) and not inspect.signature(found).parameters


def _per_channel(
    name: str,
    values: Sequence[float] | None,
    example: Tensor,
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor | None:
    if values is None:
        return None
    constants = torch.tensor(list(values), dtype=dtype, device=device)
    if len(constants) not in (1, len(example)):
        raise InputError(
            f"--{name} has {len(constants)} numbers, and the images have {len(example)} channels: "
            "expected one number, or one per channel."
        )
    if not torch.isfinite(constants).all() or (name == "std" and (constants <= 0).any()):
        wanted = "finite numbers above 0" if name == "std" else "finite numbers"
        raise InputError(f"--{name} is {','.join(f'{v:g}' for v in values)}: expected {wanted}.")
    return constants.reshape(1, -1, 1, 1)


def _as_tensor(answer: Any) -> Tensor:
    try:
        return torch.as_tensor(answer)
    except (TypeError, ValueError, RuntimeError):
        what = type(answer).__name__
        raise ModelFault(f"the model answered with {what}: expected a tensor") from None
