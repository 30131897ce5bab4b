"""What a model's own configuration says of its images, beside what the user says.

Mean and std are the user's where given, else the configuration's. A record has them in words, since
the user need not have written them.

A model is opened: its network is loaded, and no image is needed for it.

1. What a file is, is decided by its content, not by its name. A pickle (a state dict, a whole
   module) is refused with what to do instead: it would run code.
2. From then on the model's own configuration is known, so that images can be made ready for it.

A user's own model: a file, a name such as `hf:microsoft/resnet-50`, or `module:function`.

1. It is opened first (`opening.py`): from then on its own configuration is known.
2. The model is tried on one image, uncharged, before a run: that shows whether it takes such
   images, and the number of classes. Whatever it raises, even an exit, is reported in a sentence.
3. Mean and std are the user's if given, else those of the model's own configuration, which also has
   the names of the classes and how pictures are resized and cropped for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Any

import torch
from torch import Tensor, nn

from ..core.model import Decision, Model
from ..core.preprocessing import Preprocessing
from ..data.classes import class_names
from ..data.tables import in_a_line
from ..data.user_code import with_kind
from ..errors import FileError, InputError, ModelFault, mention
from .adapter import Network, Source
from .normalisation import Normalisation, Normalised
from .precision import points_dtype
from .pytorch import RUNNING, Forward, check_running, from_torch, in_words, outputs_of, plain
from .registry import EXPECTED, adapter_of, misspelt

Numbers = Sequence[float] | None


def grey(network: Network) -> Tensor | None:
    """An image that the network takes, if it is known which."""
    channels, height, width = network.shape
    own = network.preprocessing
    if own is not None and own.size is not None:
        height, width = height or own.size[0], width or own.size[1]
    if channels is None or height is None or width is None:
        return None
    return torch.full((channels, height, width), 0.5)


def normalisation(
    source: str, network: Network, mean: Numbers, std: Numbers
) -> tuple[Numbers, Numbers]:
    """Mean and std: the user's, or else the configuration's."""
    if network.lacking and mean is None and std is None:
        raise InputError(
            f"is {source!r}, which {network.lacking}",
            remedy=f"give {mention('mean')} and {mention('std')} (0 and 1 if it takes images as "
            "they are)",
            input="model",
        )
    own = network.preprocessing or Preprocessing()
    return own.mean if mean is None else mean, own.std if std is None else std


def normalised_in_words(network: Network, mean: Numbers, std: Numbers) -> dict[str, str]:
    """Mean and std for a record, where the user need not have given them."""
    if network.preprocessing is None:
        return {}
    given = {"mean": numbers(mean), "std": numbers(std)}
    return {
        name: ", ".join(f"{value:.9g}" for value in values)
        for name, values in given.items()
        if values is not None
    }


def numbers(values: Numbers | float) -> tuple[float, ...] | None:
    """One number, or several, as a tuple."""
    if values is None:
        return None
    return tuple(torch.as_tensor(values, dtype=torch.float64).flatten().tolist())


@dataclass(frozen=True)
class LoadedNetwork:
    """A model whose network is loaded, and which has not been tried on an image yet."""

    source: Source
    network: Network

    @property
    def names(self) -> tuple[str, ...] | None:
        """Of its classes: the user's, or else those of its own configuration."""
        given = self.source.names
        return self.network.names if given is None else given.names

    @property
    def preprocessing(self) -> Preprocessing | None:
        """What its own configuration says of images."""
        return self.network.preprocessing


def opened(
    source: str,
    *,
    names: str | PathLike[str] | Sequence[str] | None = None,
    device: str | torch.device = "cpu",
    batch_size: int | None = None,
) -> LoadedNetwork:
    """The first half of `load_model`, which needs no image: its configuration is known then."""
    given = None if names is None else class_names(names)
    found = Source.at(source, torch.device(device), batch_size, given)
    network = network_of(found)
    if batch_size and network.batch not in (None, batch_size):
        raise InputError(
            f"is {batch_size}, and the model {source} takes {network.batch} only",
            input="batch_size",
        )
    return LoadedNetwork(found, network)


def network_of(source: Source) -> Network:
    """The network that the first adapter which takes the source gives."""
    text = source.text
    if not text.strip():
        raise InputError(f"is {text!r}", expected=EXPECTED, input="model")
    adapter = adapter_of(source)
    if source.kind == "nothing" and (error := misspelt(text)) is not None:
        raise error
    if adapter is None:
        raise FileError(f"{text} {_why_not(source)}", expected=EXPECTED, input="model")
    if source.path is None:
        return adapter.load(source)
    try:
        return adapter.load(source)
    except InputError:
        raise
    except Exception as error:  # torch raises many kinds for broken files
        raise FileError(
            f"{text} cannot be loaded ({with_kind(error)})",
            expected=f"a file that was saved whole, by a version of torch that this one "
            f"({torch.__version__}) can read",
            input="model",
        ) from None


def _why_not(source: Source) -> str:
    """Why no adapter takes a source."""
    if source.kind == "nothing":
        return "does not exist"
    if source.kind != "file":
        return "is a folder" if source.kind == "folder" else "is not a regular file"
    if not source.entries:
        return "is neither an exported program nor TorchScript"
    if "data.pkl" in source.entries:
        return "is a pickle (a state dict or a whole module), which is not loaded"
    return "is not a model"


_MODULES = "networks by name or module:function"
_WITH = {
    "dtype": _MODULES,
    "channels_last": _MODULES,
    "compile": f"{_MODULES} and exported programs",
    "cuda_graphs": f"{_MODULES} and model files",
    "tf32": f"{_MODULES} and model files",
}
"""Which kinds of model each option of how a network is run applies to."""


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
    """The model that `source` names, tried on `example` (c, h, w), for batches of `batch_size`.

    Without an example it is tried on a grey image, if its size is known. `names` are those of the
    classes, in order, or a file with one on each line, and for `clip:` what it is asked with. How
    the model is run is told as for `from_torch`, as far as that applies to its kind.
    """
    return fitted(
        opened(source, names=names, device=device, batch_size=batch_size),
        example,
        mean=mean,
        std=std,
        quantize=quantize,
        dtype=dtype,
        channels_last=channels_last,
        compile=compile,
        cuda_graphs=cuda_graphs,
        tf32=tf32,
    )


def fitted(
    opened: LoadedNetwork,
    example: Tensor | None,
    *,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
    quantize: int | None,
    dtype: torch.dtype | None,
    channels_last: bool | None,
    compile: bool,
    cuda_graphs: bool,
    tf32: bool | None,
) -> Model:
    """The second half of `load_model`: ready for images like `example`."""
    network, given = opened.network, opened.source.names
    source, device = opened.source.text, opened.source.device
    example = grey(network) if example is None else example
    if example is not None:
        _check_shape(source, network, example)
    mean, std = normalisation(source, network, mean, std)
    how: dict[str, Any] = {"compile": compile, "cuda_graphs": cuda_graphs, "tf32": tf32}
    _check_options(source, network, dtype=dtype, channels_last=channels_last, **how)
    normalise = Normalisation.checked(
        mean,
        std,
        dtype=points_dtype(network.dtype),
        device=device,
        layout=torch.contiguous_format,
        channels=None if example is None else len(example),
    )
    if isinstance(network.forward, nn.Module) and network.options >= frozenset(RUNNING):
        model = from_torch(
            network.forward,
            mean=mean,
            std=std,
            device=device,
            dtype=dtype,
            quantize=quantize,
            channels_last=channels_last,
            **how,
        )
    elif isinstance(network.forward, Model):
        model = _behind(normalise, {"device": device, "quantize": quantize}, network.forward)
    else:
        check_running(device, **how)
        outputs = outputs_of(network.forward, normalise, network.dtype, **how)
        inner = network.forward if isinstance(network.forward, nn.Module) else None
        model = Model(
            Decision(outputs),
            device,
            points_dtype(network.dtype),
            quantize,
            network.batch,
            network=inner,
            outputs=outputs,
            running=in_words(dtype=network.dtype, **how) if network.options else {},
        )
    own = network.preprocessing
    model = replace(
        model,
        classes=None if example is None else _classes(source, model, example, own),
        running={**model.running, **normalised_in_words(network, mean, std)},
        names=opened.names,
        preprocessing=None if own is None else replace(own, mean=numbers(mean), std=numbers(std)),
    )
    if model.names is not None and model.classes not in (None, len(model.names)):
        if given is None:  # the configuration's own mistake
            return replace(model, names=None)
        raise InputError(
            f"has {len(model.names)} names, and {source} has {model.classes} classes",
            expected="one for each class, in order",
            input="names",
        )
    return model


def load_network(
    source: str,
    example: Tensor | None = None,
    device: str | torch.device = "cpu",
    *,
    normalised: bool = True,
) -> nn.Module:
    """The torch network that `source` names, which takes an image like `example` (c, h, w) alone.

    It is for its gradients: what can only be asked is refused. `normalised`: with the mean and std
    of its own configuration before it, if it has any.
    """
    found = network_of(Source.at(source, torch.device(device), None))
    if example is not None:
        _check_shape(source, found, example)
    if not isinstance(found.forward, nn.Module):
        raise InputError(
            f"{source} is {found.kind}",
            expected="a network that can be differentiated: an instance of nn.Module, an exported "
            "program or TorchScript",
            input="model",
        )
    if found.batch not in (None, 1):
        raise InputError(
            f"{source} takes batches of {found.batch} only",
            expected="one that takes a single image",
            input="model",
        )
    own = found.preprocessing
    if not normalised or own is None or own.mean is None or own.std is None:
        return found.forward
    return Normalised(found.forward, own.mean, own.std).to(device).eval()


def _check_shape(source: str, network: Network, example: Tensor) -> None:
    """Raise InputError unless it takes such images, as far as that is known."""
    if any(n not in (None, size) for n, size in zip(network.shape, example.shape, strict=True)):
        shape = ", ".join("any" if size is None else str(size) for size in network.shape)
        raise InputError(
            f"{source} takes images of shape ({shape}), but the images are "
            f"{tuple(example.shape)} (channels, height, width)",
            input="model",
        )


def _behind(normalise: Normalisation, told: dict[str, Any], model: Model) -> Model:
    """A model that is ready to be asked, behind a normalisation, with the fields that are told."""
    outputs, relaid = model.outputs, model.relaid
    return replace(
        model,
        predict=Forward(model, normalise, model.dtype),
        outputs=None if outputs is None else Forward(outputs, normalise, model.dtype),
        relaid=None if relaid is None else partial(_relaid, normalise, told, relaid),
        **told,
    )


def _relaid(
    normalise: Normalisation,
    told: dict[str, Any],
    relaid: Callable[[bool], Model],
    channels_last: bool,
) -> Model:
    return _behind(normalise, told, relaid(channels_last))


def _check_options(source: str, network: Network, **options: Any) -> None:
    """Raise InputError for an option that is given and that the model's kind does not have."""
    for name, value in options.items():
        given = bool(value) if name in ("compile", "cuda_graphs") else value is not None
        if given and name not in network.options:
            raise InputError(
                f"is given, and {source} is {network.kind}",
                expected=f"it for {_WITH[name]} only",
                remedy="leave it out",
                input=name,
            )


def _classes(source: str, model: Model, example: Tensor, own: Preprocessing | None) -> int | None:
    """The number of classes, if the model gives logits; an InputError if it fails.

    For one image nothing is compiled or recorded.
    """
    batch = example[None].to(model.device).repeat(model.batch or 1, 1, 1, 1)
    batch = model.sent(batch)
    try:
        output = plain(model.outputs or model)(batch)
        plain(model)(batch)
    except (Exception, SystemExit) as error:  # the user's own code: any kind may come
        what = in_a_line(error) if isinstance(error, ModelFault) else with_kind(error)
        made_for = ""
        if own is not None and own.size not in (None, tuple(example.shape[1:])):
            made_for = ", {} x {} as its configuration says,".format(*own.size)
        raise InputError(
            f"{source} failed on a batch of {len(batch)} of the given images, of shape "
            f"{tuple(example.shape)} ({what})",
            expected="logits (n, classes) or integer labels (n) from images (n, c, h, w)"
            f"{made_for} in [0,1]",
            input="model",
        ) from None
    return output.shape[1] if output.ndim == 2 else None
