"""A loaded network, and how it becomes a model for images of one shape.

1. Every kind of model is loaded as a `Network`: a file, a name, `module:function`. Normalisation,
   the trial on an image and the checks are the same for all.
2. Mean and std are the user's if given, else those of the model's configuration.
3. Before a run the model is tried on one image, without charge. This shows whether it takes such
   images, and the number of classes. Any error, even an exit, becomes an InputError.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..core.model import Decision, Model, labels_of
from ..core.preprocessing import Preprocessing
from ..data.classes import ClassNames
from ..data.tables import in_a_line
from ..data.user_code import with_kind
from ..errors import FileError, InputError, ModelFault, mention
from .numerics import Normalisation, Numbers, numbers_in, points_dtype
from .pytorch import OPTIONS, Forward, Running, from_torch, uncompiled

_MODULES = "networks by name or module:function"
_APPLIES_TO = {
    "dtype": _MODULES,
    "channels_last": _MODULES,
    "compile": f"{_MODULES} and exported programs",
    "cuda_graphs": f"{_MODULES} and model files",
    "tf32": f"{_MODULES} and model files",
}
"""The kinds of model to which each option of `Running` applies."""


@dataclass(frozen=True)
class Source:
    """A model as a user names it, with what else the user gave."""

    text: str
    device: torch.device
    batch_size: int | None = None
    names: ClassNames | None = None
    trust: bool = False
    """Whether the user trusts files from which torch may run code."""

    @property
    def name(self) -> str:
        return self.text.partition(":")[2]

    def error(self, given: str, expected: str = "", remedy: str = "") -> InputError:
        """Return an InputError about this model; `given` follows its name in the message."""
        given = f"is {self.text!r}{given}"
        return InputError(given, expected=expected, remedy=remedy, input="model")


def file_error(given: str, expected: str = "") -> FileError:
    """Return a FileError about the file or folder of a model."""
    return FileError(given, expected=expected, input="model")


@contextlib.contextmanager
def without_logs(*names: str) -> Iterator[None]:
    logs = [logging.getLogger(name) for name in names]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


@dataclass(frozen=True)
class Network:
    """A function from images to logits or labels, before normalisation is added."""

    source: Source
    forward: Callable[[Tensor], Any]
    dtype: torch.dtype = torch.float32
    batch: int | None = None
    """The batch size, if it takes only one."""
    shape: tuple[int | None, ...] = (None, None, None)
    """The (c, h, w) of its images; None where any length will do."""
    kind: str = "a function of images"
    options: frozenset[str] = frozenset()
    """The options of `Running` that apply to this kind."""
    preprocessing: Preprocessing | None = None
    names: tuple[str, ...] | None = None
    """The names of its classes: the user's, else those of its configuration."""
    needs_normalisation: bool = False
    """Whether mean and std must be known; the configuration of such a model may lack them."""

    @classmethod
    def of_torch(
        cls,
        source: Source,
        network: nn.Module,
        channels: int | None = None,
        preprocessing: Preprocessing | None = None,
        names: Sequence[str] | None = None,
    ) -> Network:
        """Wrap a torch network; it runs as it would under `from_torch`."""
        loaded = cls(source, network, kind="a network", options=frozenset(OPTIONS))
        shape, known = (channels, None, None), tuple(names) if names else None
        return replace(loaded, shape=shape, preprocessing=preprocessing, names=known)

    def fit(self, example: Tensor | None, running: Running) -> Model:
        """Return the model for images like `example`."""
        source, own = self.source, self.preprocessing
        example = self._grey() if example is None else example
        self.check_shape(example)
        mean, std = self.normalisation(running.mean, running.std)
        running = replace(running, mean=mean, std=std)
        for option in OPTIONS:
            default = getattr(Running, option)
            if option not in self.options and getattr(running, option) != default:
                given = f"is given, but {source.text} is {self.kind}"
                expected = f"it for {_APPLIES_TO[option]} only"
                raise InputError(given, expected=expected, remedy="leave it out", input=option)
        model = self._model(running, None if example is None else len(example))
        words = {}
        if own is not None:
            own = replace(own, mean=numbers_in(mean), std=numbers_in(std))
            for name, values in (("mean", own.mean), ("std", own.std)):
                if values is not None:
                    words[name] = ", ".join(f"{value:.9g}" for value in values)
        size = None if own is None else own.size
        classes = None if example is None else classes_of(model, example, source.text, size)
        names = self.names
        if names is not None and classes not in (None, len(names)):
            if source.names is not None:
                given = f"has {len(names)} names, but {source.text} has {classes} classes"
                raise InputError(given, expected="one for each class, in order", input="names")
            names = None  # a mistake in the model's configuration
        about = {**model.running, **words}
        return replace(model, classes=classes, running=about, names=names, preprocessing=own)

    def normalisation(self, mean: Numbers, std: Numbers) -> tuple[Numbers, Numbers]:
        """Return the given mean and std, or those of the configuration in their place."""
        if (own := self.preprocessing) is not None:
            mean, std = own.mean if mean is None else mean, own.std if std is None else std
        if self.needs_normalisation and mean is None and std is None:
            both = f"{mention('mean')} and {mention('std')}"
            remedy = f"give {both} (0 and 1 if it takes images in [0,1])"
            raise self.source.error(", which comes without its mean and std", remedy=remedy)
        return mean, std

    @property
    def size(self) -> tuple[int, int] | None:
        """The (height, width) of its images, if it is known."""
        _, height, width = self.shape
        if height is not None and width is not None:
            return height, width
        return None if self.preprocessing is None else self.preprocessing.size

    def _model(self, running: Running, channels: int | None) -> Model:
        device, forward, dtype = self.source.device, self.forward, points_dtype(self.dtype)
        normalise = Normalisation.checked(
            running.mean, running.std, dtype=dtype, device=device, channels=channels
        )
        if isinstance(forward, Model):
            return _behind(normalise, {"device": device, "quantize": running.quantize}, forward)
        module = forward if isinstance(forward, nn.Module) else None
        if module is not None and self.options >= frozenset(OPTIONS):
            return from_torch(module, **vars(running), device=device)
        running.check(device)
        outputs = running.outputs(forward, normalise, self.dtype)
        return Model(
            Decision(outputs),
            device,
            dtype,
            running.quantize,
            self.batch,
            network=module,
            outputs=outputs,
            running=running.words(device, dtype=self.dtype) if self.options else {},
        )

    def _grey(self) -> Tensor | None:
        channels, height, width = self.shape
        if self.preprocessing is not None and self.preprocessing.size is not None:
            size = self.preprocessing.size
            height, width = height or size[0], width or size[1]
        if channels is None or height is None or width is None:
            return None
        return torch.tensor(0.5).expand(channels, height, width)  # of any size, in no memory

    def check_shape(self, example: Tensor | None) -> None:
        """Raise InputError if the network is known not to take such images."""
        if example is None:
            return
        shape = tuple(example.shape)
        if any(side not in (None, given) for side, given in zip(self.shape, shape, strict=True)):
            sides = ", ".join("any" if side is None else str(side) for side in self.shape)
            given = f"takes images of shape ({sides}), but the images are {shape}"
            raise InputError(f"{self.source.text} {given} (channels, height, width)", input="model")


def tried(model: Model, example: Tensor) -> Model:
    """Return a model with its number of classes, from a trial on one image, uncharged. Only torch
    networks are tried: a call of anything else may cost something, or be counted."""
    if model.classes is not None or model.network is None:
        return model
    return replace(model, classes=classes_of(model, example, ""))


def classes_of(
    model: Model, example: Tensor, name: str, size: tuple[int, int] | None = None
) -> int | None:
    """Try a model uncompiled, with one call, since a service may bill each; return the number of
    classes if it gives logits. `name` follows "model" in messages; `size` is that of images in its
    configuration."""
    rows = model.batch or 1
    try:
        batch = model.sent(example[None].to(model.device).repeat(rows, 1, 1, 1))
        output = torch.as_tensor(uncompiled(model.outputs or model.predict)(batch))
        answer = output if model.outputs is None else labels_of(output)
        replace(model, predict=lambda _: answer)(batch)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # user code may raise anything
        what = in_a_line(error) if isinstance(error, ModelFault) else with_kind(error)
        shape, expected = tuple(example.shape), "logits (n, classes) or integer labels (n)"
        expected += " from images (n, c, h, w)"
        if size and size != shape[1:]:
            expected += f" of the size in its configuration, {size[0]} x {size[1]},"
        tried = f"a batch of {rows} of the given images, of shape {shape}"
        given = f"{name} failed on {tried} ({what})".strip()
        raise InputError(given, expected=f"{expected} in [0,1]", input="model") from None
    return output.shape[1] if output.ndim == 2 else None


def _behind(
    normalise: Normalisation,
    changes: dict[str, Any],
    model: Model,
    channels_last: bool | None = None,
) -> Model:
    """Return a model with a normalisation in front and changed fields, in a layout if given."""
    outputs, relaid = model.outputs, model.relaid
    if relaid is not None and channels_last is not None:
        return _behind(normalise, changes, relaid(channels_last=channels_last))
    return replace(
        model,
        predict=Forward(model, normalise, model.dtype),
        outputs=None if outputs is None else Forward(outputs, normalise, model.dtype),
        relaid=None if relaid is None else partial(_behind, normalise, changes, model),
        **changes,
    )
