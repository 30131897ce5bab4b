"""A model: a callable from images in [0,1] (n, c, h, w) to integer labels (n).

1. Queries are prepared here for all models: clip to [0,1], round to `quantize` bits if the model
   takes 8-bit images, cast to the model's dtype, float32 or float64. Distances are those of the
   points as sent. A model may use a lower precision internally.
2. An answer that is not one integer per row raises a `ModelFault` that says what was received.

Any callable is a model; `as_model` adds the attributes below. Foolbox models and ART classifiers
are also accepted (third_party_models.py). To wrap your own model:

    model = tb.models.from_callable(lambda images: my_service(images).labels, quantize=8)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, ModelFault, described
from .device import tf32_allowed, unreadable, usable
from .goal import numbered
from .preprocessing import Preprocessing
from .third_party_models import ThirdPartyModel, third_party_model
from .validation import check, or_none, require, whole

LAYOUTS = {"true": "channels_last", "false": "contiguous"}
"""Memory layouts of images, by the value of channels_last in `Model.running`."""
MOST_BITS = 16
"""Maximum number of bits per pixel."""
UNDECIDED = -(2**40)
"""Label of a row whose scores are NaN; the engine turns it into `Stop.MODEL_ERROR` for the row.
(Raising an error would require a synchronisation.)"""


@dataclass(frozen=True)
class Model:
    """A classifier as the engine sees it."""

    predict: Callable[[Tensor], Any]
    """Function from images (n, c, h, w) in [0,1], on `device` and of `dtype`, to labels (n)."""
    device: torch.device
    dtype: torch.dtype = torch.float32
    quantize: int | None = None
    """Bits to which each pixel value is rounded; None for no rounding."""
    batch: int | None = None
    """The only batch size that the model takes; None if it takes any."""
    classes: int | None = None
    """Number of classes, if known; labels are checked against it."""
    network: torch.nn.Module | None = None
    """The network behind the model; used to check that it is in eval mode."""
    outputs: Callable[[Tensor], Tensor] | None = None
    """Function from images to the logits behind `predict`, computed alike; for the model check."""
    relaid: Callable[..., Model] | None = None
    """Function that returns the model with `channels_last` True or False; None if it is fixed."""
    running: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Options of `from_torch` with which the network runs: names and values, as text."""
    names: tuple[str, ...] | None = None
    """Names of the classes, if known."""
    preprocessing: Preprocessing | None = None
    """Preprocessing of image files, if the model's configuration specifies it."""

    def __post_init__(self) -> None:
        require(callable(self.predict), "predict", self.predict, "a function of images")
        count = or_none(whole(1))
        check(self, quantize=or_none(whole(1, MOST_BITS)), batch=count, classes=count)
        require(
            self.dtype in (torch.float32, torch.float64),
            "dtype",
            self.dtype,
            "torch.float32 or torch.float64, in which points are sent and measured",
            "if the model takes another dtype, convert inside the callable, with quantize=8 if it "
            "takes 8-bit images",
        )

    def shown(self, label: int) -> str:
        """Return a label as text, with the name of its class if known."""
        return numbered(label, self.names or ())

    @property
    def layout(self) -> str:
        """Memory layout of the model's images, a value of `LAYOUTS`; empty if unknown."""
        return LAYOUTS.get(self.running.get("channels_last", ""), "")

    def in_layout(self, layout: str) -> Model:
        """Return the model in another layout; raise InputError if its layout cannot change."""
        if layout == self.layout:
            return self
        if self.relaid is None or layout not in LAYOUTS.values():
            raise InputError(f"is in the layout {self.layout!r}", expected=layout, input="model")
        other = self.relaid(channels_last=layout == LAYOUTS["true"])
        running = {**self.running, **other.running}
        kept = {name: getattr(self, name) for name in ("classes", "names", "preprocessing")}
        return replace(other, running=running, **kept)

    @property
    def notices(self) -> tuple[str, ...]:
        """Caveats about how the network runs, for the warnings of results."""
        return getattr(self.outputs, "notices", ())

    @property
    def precision(self) -> str:
        """The precision in which the model computes: its setting, else that of torch."""
        dtype = self.running.get("dtype", str(self.dtype).removeprefix("torch."))
        if dtype != "float32" or self.device.type != "cuda":
            return dtype
        setting = self.running.get("tf32")
        return "TF32" if setting == "true" or (setting is None and tf32_allowed()) else dtype

    def sent(self, points: Tensor) -> Tensor:
        """Return the points as they are sent; `points` may be overwritten."""
        points = points.clamp_(0, 1)
        if self.quantize is not None:
            steps = 2**self.quantize - 1
            points = points.mul_(steps).round_().div_(steps)
        return points.to(self.dtype)

    def __call__(self, images: Tensor) -> Tensor:
        """Return labels (n), int64, on `device`; raise ModelFault if the answer is not labels."""
        answer = self._answer(images)
        if what := unreadable(answer):
            raise ModelFault(f"the model answered with a tensor {what}: expected a dense one")
        answer = torch.as_tensor(answer, device=self.device)
        if answer.shape != images.shape[:1]:
            hint = " (logits? use tb.models.from_torch, which takes the argmax)"
            raise ModelFault(
                f"the model answered {len(images)} images with shape {tuple(answer.shape)}: "
                f"expected ({len(images)},), a label each{hint if answer.ndim == 2 else ''}"
            )
        if answer.is_floating_point() or answer.is_complex():
            raise ModelFault(f"the model answered with {answer.dtype}: expected integer labels")
        labels = answer.long()
        on_host = labels.device.type == "cpu"  # elsewhere the check would wait for the device
        if on_host and not torch.equal(labels.double().long(), labels):
            raise ModelFault("the model answered with a label beyond 2^53: expected class numbers")
        return labels

    def _answer(self, images: Tensor) -> Any:
        """Return what `predict` returns; raise ModelFault for an error that no caller expects."""
        try:
            return self.predict(images)
        except (Exception, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            raise ModelFault(f"the model raised {described(error)}") from None


@dataclass(frozen=True)
class Decision:
    """A function that turns a network's outputs into labels; a class so that it can be pickled."""

    outputs: Callable[[Tensor], Tensor]

    @torch.inference_mode()
    def __call__(self, images: Tensor) -> Tensor:
        return labels_of(self.outputs(images))


def labels_of(output: Tensor) -> Tensor:
    """Return labels for a network's output: the argmax of logits (n, classes), or labels (n). A row
    of logits with a NaN has no largest value: its label is `UNDECIDED`."""
    if output.ndim == 2 and output.is_floating_point():
        return output.argmax(1).masked_fill_(output.isnan().any(1), UNDECIDED)
    return output


def from_callable(
    predict: Callable[[Tensor], Any],
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    quantize: int | None = None,
    batch: int | None = None,
    classes: int | None = None,
) -> Model:
    """Return a model from any function of a batch of images in [0,1] that returns labels."""
    return Model(predict, usable(device), dtype, quantize, batch, classes)


def from_third_party(model: ThirdPartyModel, **options: Any) -> Model:
    """Return a model from another package's classifier; `options` are fields of the model."""
    known = {"device": model.device, "classes": model.classes}
    given = {name: value for name, value in options.items() if value is not None}
    return Model(Decision(model), **{**known, **given}, outputs=model)


def as_model(model: Any) -> Model:
    """Return any callable, Foolbox model or ART classifier as a Model; refuse a bare network."""
    if isinstance(model, Model):
        return model
    if isinstance(model, torch.nn.Module):
        given = f"is a bare torch network ({type(model).__name__})"
        remedy = "wrap it with tb.models.from_torch(net, mean=..., std=...)"
        raise InputError(
            given, expected="labels from images in [0,1]", remedy=remedy, input="model"
        )
    if (other := third_party_model(model)) is not None:
        return from_third_party(other)
    right = callable(model) and not isinstance(model, type)
    require(right, "model", model, "a callable from images to labels")
    return from_callable(model)
