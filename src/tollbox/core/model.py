"""How pictures become images for a model, as the model's own configuration says.

A picture is resized, its centre is cut out, and values in [0,1] go in as (image - mean) / std. The
model does the last itself; the first two are for whoever reads pictures.

A model: a callable from images in [0,1] (n, c, h, w) to integer labels (n).

1. Decisions only: nothing else of a model is ever used by an attack. `outputs` is for the model
   check alone: it compares what the network gives before the decision, bit for bit.
2. What is sent is made here, for all: clip to [0,1], round to `quantize` bits if the model takes
   8-bit images, cast to the model's dtype, float32 or float64. Distances are those of the points
   as sent. Lower precision is inside a model.
3. An answer that is not one integer per row is a `ModelFault`, which says what came.

Any callable is a model; `as_model` gives it the attributes below. So are a Foolbox model and an ART
classifier (`peers.py`). To wrap one's own:

    model = tb.models.from_callable(lambda images: my_service(images).labels, quantize=8)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, ModelFault
from .device import usable
from .goal import numbered
from .preprocessing import Preprocessing
from .third_party_models import Peer, peer_of
from .validation import check_whole, shown

LAYOUTS = {"true": "channels_last", "false": "contiguous"}
"""How images lie in memory, by what `running` says of channels_last."""
MOST_BITS = 16
"""Of a pixel."""
UNDECIDED = -(2**40)
"""What stands in place of a label if a model's scores are not numbers; the engine makes it a
`Stop.MODEL_ERROR` of the row. (To raise would take a synchronisation.)"""


@dataclass(frozen=True)
class Model:
    """A classifier as the engine sees it."""

    predict: Callable[[Tensor], Any]
    """Images (n, c, h, w) in [0,1], on `device` and of `dtype`, to labels (n)."""
    device: torch.device
    dtype: torch.dtype = torch.float32
    quantize: int | None = None
    """Bits of a pixel as the model takes it; None for no rounding."""
    batch: int | None = None
    """The only batch size that the model takes, if there is only one."""
    classes: int | None = None
    """Number of classes, if it is known: labels are checked against it."""
    network: torch.nn.Module | None = None
    """The network behind it, for the check that it is in eval mode."""
    outputs: Callable[[Tensor], Tensor] | None = None
    """What `predict` decides on (logits), by the very same path; for the model check alone."""
    relaid: Callable[[bool], Model] | None = None
    """Makes the same model with `channels_last` True or False, if it can change."""
    running: Mapping[str, str] = field(default_factory=dict, hash=False)
    """How the network is run: the options of `from_torch`, by name, in words."""
    names: tuple[str, ...] | None = None
    """Of its classes, if they are known."""
    preprocessing: Preprocessing | None = None
    """How pictures become images for it, if its own configuration says so."""

    def shown(self, label: int) -> str:
        """A label, with the name of its class if that is known."""
        return numbered(label, self.names or ())

    def __post_init__(self) -> None:
        if not callable(self.predict):
            raise InputError(
                f"is {shown(self.predict)}", expected="a function of images", input="predict"
            )
        if self.quantize is not None:
            check_whole("quantize", self.quantize, 1, MOST_BITS)
        for name, count in (("batch", self.batch), ("classes", self.classes)):
            if count is not None:
                check_whole(name, count, 1)
        check_dtype(self.dtype)

    @property
    def layout(self) -> str:
        """How its images lie in memory, one of `LAYOUTS`; empty if it is not known."""
        return LAYOUTS.get(self.running.get("channels_last", ""), "")

    def in_layout(self, layout: str) -> Model:
        """The same model in that layout; raises InputError if it cannot change to it."""
        if layout == self.layout:
            return self
        if self.relaid is None or layout not in LAYOUTS.values():
            raise InputError(f"is in the layout {self.layout!r}", expected=layout, input="model")
        other = self.relaid(layout == LAYOUTS["true"])
        return replace(
            other,
            classes=self.classes,
            running={**self.running, **other.running},
            names=self.names,
            preprocessing=self.preprocessing,
        )

    def sent(self, points: Tensor) -> Tensor:
        """The points as they are sent; `points` may be overwritten."""
        points = points.clamp_(0, 1)
        if self.quantize is not None:
            steps = 2**self.quantize - 1
            points = points.mul_(steps).round_().div_(steps)
        return points.to(self.dtype)

    def __call__(self, images: Tensor) -> Tensor:
        """Labels (n), int64, on `device`; raises ModelFault if the answer is anything else."""
        answer = torch.as_tensor(self.predict(images), device=self.device)
        if answer.shape != images.shape[:1]:
            hint = " (logits? use tb.models.from_torch, which takes the argmax)"
            raise ModelFault(
                f"the model answered {len(images)} images with shape {tuple(answer.shape)}: "
                f"expected ({len(images)},), a label each{hint if answer.ndim == 2 else ''}"
            )
        if answer.is_floating_point() or answer.is_complex():
            raise ModelFault(f"the model answered with {answer.dtype}: expected integer labels")
        return answer.long()


def labels_of(output: Tensor) -> Tensor:
    """Labels from a network's output: logits (n, classes) are decided, labels (n) pass.

    A row of logits with a NaN has no largest one: it is `UNDECIDED`.
    """
    if output.ndim == 2 and output.is_floating_point():
        return output.argmax(1).masked_fill_(output.isnan().any(1), UNDECIDED)
    return output


@dataclass(frozen=True)
class Decision:
    """Labels (n) from what a network gives; a class, so that it can be sent to another process."""

    outputs: Callable[[Tensor], Tensor]

    @torch.inference_mode()
    def __call__(self, images: Tensor) -> Tensor:
        """Labels (n)."""
        return labels_of(self.outputs(images))


def check_dtype(dtype: torch.dtype) -> None:
    """Raise InputError unless points can be sent in it."""
    if not isinstance(dtype, torch.dtype) or dtype not in (torch.float32, torch.float64):
        raise InputError(
            f"is {shown(dtype)}",
            expected="torch.float32 or torch.float64, in which points are sent and measured",
            remedy="for a model that takes others convert inside the callable, after quantize=8 if "
            "it takes 8-bit images",
            input="dtype",
        )


def from_callable(
    predict: Callable[[Tensor], Any],
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    quantize: int | None = None,
    batch: int | None = None,
    classes: int | None = None,
) -> Model:
    """A model from any function of a batch of images in [0,1] that gives labels."""
    return Model(predict, usable(device), dtype, quantize, batch, classes)


def from_peer(peer: Peer, **options: Any) -> Model:
    """A model from a classifier of another package; `options` are fields of the model."""
    known = {"device": peer.device, "classes": peer.classes}
    given = {name: value for name, value in options.items() if value is not None}
    return Model(Decision(peer.outputs), **{**known, **given}, outputs=peer.outputs)


def as_model(model: Any) -> Model:
    """`model` itself if it is one, else the callable, the Foolbox model or the ART classifier
    wrapped; a bare network is refused."""
    if isinstance(model, Model):
        return model
    if isinstance(model, torch.nn.Module):
        raise InputError(
            f"is a bare torch network ({type(model).__name__})",
            expected="labels from images in [0,1]",
            remedy="wrap it with tb.models.from_torch(net, mean=..., std=...)",
            input="model",
        )
    if (peer := peer_of(model)) is not None:
        return from_peer(peer)
    if callable(model):
        return from_callable(model)
    expected = "a callable from images to labels"
    raise InputError(f"is {shown(model)}", expected=expected, input="model")
