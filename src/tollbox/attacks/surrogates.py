"""Surrogates: the user's own networks, whose gradients suggest where a boundary lies.

1. A surrogate is not the model under test: it costs nothing, and can be differentiated.
2. It receives one image at a time, in a batch of one, in float32 without TF32 and with
   deterministic kernels, so that its answer depends on nothing else.
3. With several networks, the answer is the mean of their unit gradients.
4. The networks are never changed: if one is not on the device of the run or not in eval mode, a
   copy is used.
5. Surrogates with the same weights, mean and std are equal, and have the same `digest`.

A surrogate suggests a direction to turn to. `frugal` tries it, trusts it according to its earlier
gains, and drops it where estimates gain more for their price.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from ..core.problem import Problem
from ..core.validation import require, shown
from ..data.user_code import with_kind
from ..errors import InputError
from ..models.numerics import Normalisation, matrix_products
from ..models.pytorch import prepared, weights_digest
from ..parts.vectors import unit


class Surrogate:
    """One or more networks that map images (n, c, h, w) to logits (n, classes).

    Images in [0,1] are normalised to (image - mean) / std. The classes are those of the model under
    test.
    """

    def __init__(
        self,
        networks: nn.Module | Sequence[nn.Module],
        *,
        mean: Sequence[float] | float | None = None,
        std: Sequence[float] | float | None = None,
    ) -> None:
        given = [networks] if isinstance(networks, nn.Module) else networks
        listed = isinstance(given, Sequence) and len(given) > 0
        expected = "a network (an instance of nn.Module), or several"
        for network in given if listed else [given]:
            require(isinstance(network, nn.Module), "surrogate", network, expected)
        self.networks = tuple(given)
        self._mean, self._std = mean, std
        self._ready: dict[torch.device, tuple[list[nn.Module], Normalisation]] = {}
        self._normalisation(torch.device("cpu"))  # to report mistakes early
        digests = [weights_digest(network) for network in self.networks]
        self.digest = "-".join(digest[:12] for digest in digests)
        """Digest of the weights."""
        self.gradients, self.seconds = 0, 0.0
        """Number of gradients computed in this process, and the host time that they took."""

    def __repr__(self) -> str:
        return f"Surrogate({self.digest!r}, mean={self._mean!r}, std={self._std!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Surrogate) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ready": {}, "gradients": 0, "seconds": 0.0}

    def direction(self, problem: Problem, point: Tensor) -> Tensor:
        """Return the unit gradient of the margin of the class to reach over the flagged ones."""
        started = time.perf_counter()
        networks, normalise = self._on(point.device)
        total = torch.zeros_like(point)
        deterministic: AbstractContextManager[None] = torch.backends.cudnn.flags(
            enabled=True, benchmark=False, deterministic=True, allow_tf32=False
        )
        with matrix_products(False), deterministic:
            for network in networks:
                total += unit(_gradient(network, normalise, problem, point))
        self.gradients += 1
        self.seconds += time.perf_counter() - started
        return unit(problem.only_mask(total))

    def classes(self, image: Tensor) -> int:
        """Return the number of logits for an image (c, h, w). Raise InputError if the networks
        differ in it or cannot be differentiated at the image."""
        normalise = self._normalisation(image.device, len(image))
        counts = []
        try:
            for network in self._on(image.device)[0]:
                given, logits = _logits(network, normalise, image)
                torch.autograd.grad(logits.sum(), given)
                counts.append(len(logits))
        except InputError:
            raise
        except (Exception, SystemExit) as error:  # user code may raise anything
            raise InputError(
                f"cannot be differentiated at an image of shape {tuple(image.shape)} "
                f"({with_kind(error)})",
                expected="a network of logits (n, classes) for images (n, c, h, w) in [0,1]",
                input="surrogate",
            ) from None
        if len(set(counts)) > 1:
            found = f"has networks of {' and '.join(map(str, counts))} classes"
            raise InputError(found, expected="the same classes", input="surrogate")
        return counts[0]

    def _on(self, device: torch.device) -> tuple[list[nn.Module], Normalisation]:
        """Return the networks, prepared for a device, and their normalisation."""
        if device not in self._ready:
            networks = [
                prepared(network, device, torch.float32, torch.contiguous_format)
                for network in self.networks
            ]
            self._ready[device] = networks, self._normalisation(device)
        return self._ready[device]

    def _normalisation(self, device: torch.device, channels: int | None = None) -> Normalisation:
        return Normalisation.checked(
            self._mean,
            self._std,
            dtype=torch.float32,
            device=device,
            layout=torch.contiguous_format,
            channels=channels,
        )


def _logits(network: nn.Module, normalise: Normalisation, point: Tensor) -> tuple[Tensor, Tensor]:
    """Return the network's input, for differentiation, and its logits."""
    with torch.enable_grad():
        image = point.detach().to(torch.float32)[None].clone().requires_grad_(True)
        answer = network(normalise(image))
    outputs = getattr(answer, "logits", answer)  # transformers wraps them in an object
    if not isinstance(outputs, Tensor) or outputs.ndim != 2:
        raise InputError(
            f"returns {shown(outputs)}", expected="logits (n, classes)", input="surrogate"
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
            given = f"has {len(logits)} classes, but class {largest} is that of an image or goal"
            expected = "the classes of the model under test"
            raise InputError(given, expected=expected, input="surrogate")
        if problem.target is None:
            others = [each for each in range(len(logits)) if not problem.goal.flags(each)]
            rival = logits[others].amax()
        else:
            rival = logits[problem.target]
        (gradient,) = torch.autograd.grad(rival - logits[flagged].amax(), image)
    return gradient[0].to(point)
