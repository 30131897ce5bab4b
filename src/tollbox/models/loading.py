"""Loading a user's model: a file, a name such as `hf:microsoft/resnet-50`, or `module:function`.

1. The kind of a file is decided by its content, not by its name (`files`).
2. First the network is loaded; its configuration is then known, so that images can be prepared for
   it. Then it is fitted to images of one shape.
3. Mean and std are the user's if given, else those of the model's configuration, which may also
   have class names, sizes and crops.
4. Before a run the model is tried on one image, without charge. This shows whether it takes such
   images, and the number of classes. Any error, even an exit, becomes an InputError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from os import PathLike
from typing import Any

import torch
from torch import Tensor, nn

from ..core.model import Decision, Model
from ..core.preprocessing import Preprocessing
from ..data.classes import class_names
from ..data.tables import in_a_line, kind_of
from ..data.user_code import with_kind
from ..errors import FileError, InputError, ModelFault, mention
from .numerics import Normalisation, Normalised, Numbers, points_dtype
from .pytorch import RUNNING, Forward, Running, from_torch, uncompiled
from .registry import Network, Source, adapter_of, expected, misspelt

_MODULES = "networks by name or module:function"
_APPLIES_TO = {
    "dtype": _MODULES,
    "channels_last": _MODULES,
    "compile": f"{_MODULES} and exported programs",
    "cuda_graphs": f"{_MODULES} and model files",
    "tf32": f"{_MODULES} and model files",
}
"""The kinds of model to which each option of `Running` applies."""


def load_model(
    source: str,
    example: Tensor | None = None,
    *,
    names: str | PathLike[str] | Sequence[str] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    device: str | torch.device = "cpu",
    quantize: int | None = None,
    batch_size: int | None = None,
    dtype: torch.dtype | None = None,
    channels_last: bool | None = None,
    compile: bool = False,
    cuda_graphs: bool = False,
    tf32: bool | None = None,
) -> Model:
    """Load the model that `source` names, and try it on `example` (c, h, w).

    Without an example, a grey image is used if the model's image size is known. `names` are the
    names of the classes in order, or a file with one on each line; for `clip:` they are also the
    prompts. The other options are those of `from_torch`, as far as they apply to the kind of model.
    """
    network = LoadedNetwork.load(source, names=names, device=device, batch_size=batch_size)
    running = Running(dtype, channels_last, compile, cuda_graphs, tf32)
    return network.fit(example, mean=mean, std=std, quantize=quantize, running=running)


@dataclass(frozen=True)
class LoadedNetwork:
    """A model whose network is loaded, and which has not been tried on an image yet."""

    source: Source
    network: Network

    @classmethod
    def load(
        cls,
        source: str,
        *,
        names: str | PathLike[str] | Sequence[str] | None = None,
        device: str | torch.device = "cpu",
        batch_size: int | None = None,
    ) -> LoadedNetwork:
        """Load the network that `source` names; arguments as for `load_model`."""
        given = None if names is None else class_names(names)
        kind = kind_of(source, source, input="model")
        found = Source(source, torch.device(device), batch_size, kind, given)
        network = _load_network(found)
        if batch_size and network.batch not in (None, batch_size):
            raise InputError(
                f"is {batch_size}, but the model {source} takes only {network.batch}",
                input="batch_size",
            )
        return cls(found, network)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of its classes: the user's, else those of its configuration."""
        given = self.source.names
        return self.network.names if given is None else given.names

    @property
    def preprocessing(self) -> Preprocessing | None:
        """The preprocessing in its own configuration."""
        return self.network.preprocessing

    def fit(
        self,
        example: Tensor | None,
        *,
        mean: Sequence[float] | None,
        std: Sequence[float] | None,
        quantize: int | None,
        running: Running,
    ) -> Model:
        """Return the model for images like `example`; arguments as for `load_model`."""
        source, network = self.source.text, self.network
        example = self._grey() if example is None else example
        self.check_shape(example)
        if network.no_normalisation and mean is None and std is None:
            raise InputError(
                f"is {source!r}, which {network.no_normalisation}",
                remedy=f"give {mention('mean')} and {mention('std')} (0 and 1 if it takes images "
                "in [0,1])",
                input="model",
            )
        own = network.preprocessing
        if own is not None:
            mean, std = own.mean if mean is None else mean, own.std if std is None else std
        for option in fields(Running):
            given = getattr(running, option.name) != option.default
            if given and option.name not in network.options:
                raise InputError(
                    f"is given, but {source} is {network.kind}",
                    expected=f"it for {_APPLIES_TO[option.name]} only",
                    remedy="leave it out",
                    input=option.name,
                )
        channels = None if example is None else len(example)
        model = self._model(mean, std, channels, quantize, running)
        if own is not None:
            own = replace(own, mean=_tuple(mean), std=_tuple(std))
        known = {} if own is None else {"mean": own.mean, "std": own.std}
        words = {
            name: ", ".join(f"{value:.9g}" for value in values)
            for name, values in known.items()
            if values is not None
        }
        model = replace(
            model,
            classes=None if example is None else self._classes(model, example),
            running={**model.running, **words},
            names=self.names,
            preprocessing=own,
        )
        if model.names is None or model.classes in (None, len(model.names)):
            return model
        if self.source.names is None:  # a mistake in the model's configuration
            return replace(model, names=None)
        raise InputError(
            f"has {len(model.names)} names, but {source} has {model.classes} classes",
            expected="one for each class, in order",
            input="names",
        )

    def _model(
        self,
        mean: Numbers,
        std: Numbers,
        channels: int | None,
        quantize: int | None,
        running: Running,
    ) -> Model:
        network, device = self.network, self.source.device
        forward, dtype = network.forward, points_dtype(network.dtype)
        normalise = Normalisation.checked(
            mean, std, dtype=dtype, device=device, layout=torch.contiguous_format, channels=channels
        )
        if isinstance(forward, Model):
            return _behind(normalise, {"device": device, "quantize": quantize}, forward)
        module = forward if isinstance(forward, nn.Module) else None
        if module is not None and network.options >= frozenset(RUNNING):
            options = {**vars(running), "device": device, "quantize": quantize}
            return from_torch(module, mean=mean, std=std, **options)
        running.check(device)
        outputs = running.outputs(forward, normalise, network.dtype)
        return Model(
            Decision(outputs),
            device,
            dtype,
            quantize,
            network.batch,
            network=module,
            outputs=outputs,
            running=running.words(dtype=network.dtype) if network.options else {},
        )

    def _grey(self) -> Tensor | None:
        """Return a grey image of the network's size, if that is known."""
        channels, height, width = self.network.shape
        own = self.network.preprocessing
        if own is not None and own.size is not None:
            height, width = height or own.size[0], width or own.size[1]
        if channels is None or height is None or width is None:
            return None
        return torch.full((channels, height, width), 0.5)

    def check_shape(self, example: Tensor | None) -> None:
        """Raise InputError if the network is known not to take such images."""
        shape = self.network.shape
        if example is None or all(
            side in (None, given) for side, given in zip(shape, example.shape, strict=True)
        ):
            return
        sides = ", ".join("any" if side is None else str(side) for side in shape)
        raise InputError(
            f"{self.source.text} takes images of shape ({sides}), but the images are "
            f"{tuple(example.shape)} (channels, height, width)",
            input="model",
        )

    def _classes(self, model: Model, example: Tensor) -> int | None:
        """Try the model uncompiled; return the number of classes if it gives logits."""
        batch = model.sent(example[None].to(model.device).repeat(model.batch or 1, 1, 1, 1))
        try:
            output = uncompiled(model.outputs or model)(batch)
            uncompiled(model)(batch)
        except (Exception, SystemExit) as error:  # user code may raise anything
            what = in_a_line(error) if isinstance(error, ModelFault) else with_kind(error)
            size = self.preprocessing and self.preprocessing.size
            made_for = ""
            if size and size != tuple(example.shape[1:]):
                made_for = f" of the size in its configuration, {size[0]} x {size[1]},"
            raise InputError(
                f"{self.source.text} failed on a batch of {len(batch)} of the given images, of "
                f"shape {tuple(example.shape)} ({what})",
                expected="logits (n, classes) or integer labels (n) from images (n, c, h, w)"
                f"{made_for} in [0,1]",
                input="model",
            ) from None
        return output.shape[1] if output.ndim == 2 else None


def load_network(
    source: str,
    example: Tensor | None = None,
    device: str | torch.device = "cpu",
    *,
    normalised: bool = True,
) -> nn.Module:
    """Load a torch network, for its gradients, that takes one image like `example` (c, h, w).

    With `normalised`, the mean and std of its configuration are applied first, if it has them.
    """
    loaded = LoadedNetwork.load(source, device=device)
    loaded.check_shape(example)
    network, own = loaded.network.forward, loaded.preprocessing
    if not isinstance(network, nn.Module):
        raise InputError(
            f"{source} is {loaded.network.kind}",
            expected="a network that can be differentiated: an instance of nn.Module, an exported "
            "program or TorchScript",
            input="model",
        )
    if loaded.network.batch not in (None, 1):
        raise InputError(
            f"{source} takes only batches of {loaded.network.batch}",
            expected="one that takes a single image",
            input="model",
        )
    if not normalised or own is None or own.mean is None or own.std is None:
        return network
    return Normalised(network, own.mean, own.std).to(device).eval()


def _load_network(source: Source) -> Network:
    """Load the network of a source with the first adapter that accepts it."""
    text = source.text
    if not text.strip():
        raise InputError(f"is {text!r}", expected=expected(), input="model")
    adapter = adapter_of(source)
    if source.kind == "nothing" and (error := misspelt(text)) is not None:
        raise error
    if adapter is None:
        raise FileError(f"{text} {_why_not(source)}", expected=expected(), input="model")
    if source.path is None:
        return adapter.load(source)
    try:
        return adapter.load(source)
    except InputError:
        raise
    except Exception as error:  # torch raises many types for broken files
        raise FileError(
            f"{text} cannot be loaded ({with_kind(error)})",
            expected=f"a complete file from a version of torch that this one ({torch.__version__}) "
            "can read",
            input="model",
        ) from None


def _why_not(source: Source) -> str:
    kinds = {"nothing": "does not exist", "folder": "is a folder", "other": "is not a regular file"}
    if source.kind != "file":
        return kinds[source.kind]
    if not source.entries:
        return "is neither an exported program nor TorchScript"
    if "data.pkl" in source.entries:
        return "is a pickle (a state dict or a whole module), which is not loaded"
    return "is not a model"


def _behind(normalise: Normalisation, changes: dict[str, Any], model: Model) -> Model:
    """Return a model with a normalisation in front and with changed fields."""
    outputs, relaid = model.outputs, model.relaid
    return replace(
        model,
        predict=Forward(model, normalise, model.dtype),
        outputs=None if outputs is None else Forward(outputs, normalise, model.dtype),
        relaid=None if relaid is None else partial(_relaid, normalise, changes, relaid),
        **changes,
    )


def _relaid(
    normalise: Normalisation,
    changes: dict[str, Any],
    relaid: Callable[[bool], Model],
    channels_last: bool,
) -> Model:
    return _behind(normalise, changes, relaid(channels_last))


def _tuple(values: Numbers) -> tuple[float, ...] | None:
    if values is None:
        return None
    return tuple(torch.as_tensor(values, dtype=torch.float64).flatten().tolist())
