"""Surrogates: networks of one's own, whose gradients say where a boundary may lie.

1. A surrogate is not the model under test: it costs nothing, and is looked into.
2. It gets one image at a time, in a batch of one, in float32 without TF32 and with deterministic
   kernels: what it says depends on nothing else.
3. Of several networks, what they say is the mean of their unit gradients.
4. The networks are left as they are: if one is not on the device of the run, or not in eval mode, a
   copy is used.
5. Two surrogates with the same weights, mean and std are the same: `digest` says which it is.

What a surrogate says is a direction to turn to. Whether that is worth following its turns tell:
`frugal` tries it, trusts it by what it brought, and leaves it where estimates bring more for their
price.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from ..core.problem import Problem
from ..core.validation import shown
from ..data.user_code import with_kind
from ..errors import InputError
from ..models.numerics import Normalisation, matrix_products
from ..models.pytorch import prepared, weights_digest
from ..parts.vectors import unit


class Surrogate:
    """One network or several, of logits (n, classes) for images (n, c, h, w) in [0,1] that go in as
    (image - mean) / std. The classes are those of the model under test."""

    def __init__(
        self,
        networks: nn.Module | Sequence[nn.Module],
        *,
        mean: Sequence[float] | float | None = None,
        std: Sequence[float] | float | None = None,
    ) -> None:
        given = [networks] if isinstance(networks, nn.Module) else networks
        if not isinstance(given, Sequence) or not given:
            raise _refused(networks)
        for network in given:
            if not isinstance(network, nn.Module):
                raise _refused(network)
        self.networks = tuple(given)
        self._mean, self._std = mean, std
        self._ready: dict[torch.device, tuple[list[nn.Module], Normalisation]] = {}
        _normalisation(mean, std, torch.device("cpu"))  # mistakes are told now
        digests = [weights_digest(network) for network in self.networks]
        self.digest = "-".join(digest[:12] for digest in digests)
        """Tells it from others with other weights."""
        self.gradients, self.seconds = 0, 0.0
        """How many were computed in this process, and the host's time for that."""

    def __repr__(self) -> str:
        return f"Surrogate({self.digest!r}, mean={self._mean!r}, std={self._std!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Surrogate) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ready": {}, "gradients": 0, "seconds": 0.0}

    def direction(self, problem: Problem, point: Tensor) -> Tensor:
        """The unit gradient, at a point, of how far the class to reach leads the flagged ones."""
        began = time.perf_counter()
        networks, normalise = self._on(point.device)
        total = torch.zeros_like(point)
        with matrix_products(False if point.is_cuda else None), _deterministic():
            for network in networks:
                total += unit(_gradient(network, normalise, problem, point))
        self.gradients += 1
        self.seconds += time.perf_counter() - began
        return unit(problem.only_mask(total))

    def classes(self, image: Tensor) -> int:
        """How many classes the networks have, tried on an image (c, h, w); raises InputError unless
        all have as many, and can be differentiated there."""
        normalise = _normalisation(self._mean, self._std, image.device, len(image))
        counts = []
        try:
            for network in self._on(image.device)[0]:
                given, logits = _logits(network, normalise, image)
                torch.autograd.grad(logits.sum(), given)
                counts.append(len(logits))
        except InputError:
            raise
        except (Exception, SystemExit) as error:  # the user's own code: any kind may come
            raise InputError(
                f"cannot be differentiated at an image of shape {tuple(image.shape)} "
                f"({with_kind(error)})",
                expected="a network of logits (n, classes) for images (n, c, h, w) in [0,1]",
                input="surrogate",
            ) from None
        if len(set(counts)) > 1:
            raise InputError(
                f"has networks of {' and '.join(map(str, counts))} classes",
                expected="the same classes",
                input="surrogate",
            )
        return counts[0]

    def _on(self, device: torch.device) -> tuple[list[nn.Module], Normalisation]:
        """The networks, ready to be run on a device, and what goes before them."""
        if device not in self._ready:
            networks = [
                prepared(network, device, torch.float32, torch.contiguous_format)
                for network in self.networks
            ]
            self._ready[device] = networks, _normalisation(self._mean, self._std, device)
        return self._ready[device]


def _refused(given: object) -> InputError:
    return InputError(
        f"is {shown(given)}",
        expected="a network (an instance of nn.Module), or several",
        input="surrogate",
    )


def _normalisation(
    mean: Sequence[float] | float | None,
    std: Sequence[float] | float | None,
    device: torch.device,
    channels: int | None = None,
) -> Normalisation:
    return Normalisation.checked(
        mean,
        std,
        dtype=torch.float32,
        device=device,
        layout=torch.contiguous_format,
        channels=channels,
    )


def _deterministic() -> AbstractContextManager[None]:
    flags: AbstractContextManager[None] = torch.backends.cudnn.flags(
        enabled=True, benchmark=False, deterministic=True, allow_tf32=False
    )
    return flags


def _logits(network: nn.Module, normalise: Normalisation, point: Tensor) -> tuple[Tensor, Tensor]:
    """A point as the network gets it, to be differentiated by, and its logits."""
    with torch.enable_grad():
        image = point.detach().to(torch.float32)[None].clone().requires_grad_(True)
        answer = network(normalise(image))
    outputs = getattr(answer, "logits", answer)  # of transformers, an object that has them
    if not isinstance(outputs, Tensor) or outputs.ndim != 2:
        raise InputError(
            f"gives {shown(outputs)}", expected="logits (n, classes)", input="surrogate"
        )
    return image, outputs[0]


def _gradient(
    network: nn.Module, normalise: Normalisation, problem: Problem, point: Tensor
) -> Tensor:
    with torch.enable_grad():
        image, logits = _logits(network, normalise, point)
        flagged = sorted(problem.goal.flagged or ())
        largest = max(*flagged, problem.target or 0)
        if largest >= len(logits):
            raise InputError(
                f"has {len(logits)} classes, and class {largest} is of an image or its goal",
                expected="the classes of the model under test",
                input="surrogate",
            )
        if problem.target is None:
            others = [each for each in range(len(logits)) if not problem.goal.flags(each)]
            rival = logits[others].amax()
        else:
            rival = logits[problem.target]
        (gradient,) = torch.autograd.grad(rival - logits[flagged].amax(), image)
    return gradient[0].to(point)
