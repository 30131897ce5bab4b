"""Surrogates: the user's own networks, whose gradients suggest where a boundary lies.

1. A surrogate is not the model under test: it costs nothing, and can be differentiated.
2. It receives the points of one image at a time, in batches of a fixed shape, in float32 without
   TF32 and with deterministic kernels, so that its answers depend on nothing else.
3. The networks are never changed: if one is not on the device of the run or not in eval mode, a
   copy is used.
4. Surrogates with the same weights, mean and std are equal, and have the same `digest`.

transfer.py makes directions of these gradients. `frugal` starts along them, turns to them, trusts
each network according to its earlier gains, and drops it where estimates gain more for their price.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..core.problem import Problem
from ..core.validation import require, shown
from ..data.user_code import with_kind
from ..errors import InputError
from ..models.numerics import Normalisation, matrix_products
from ..models.pytorch import prepared, weights_digest

KEPT_BYTES = 2**30
FIRST_GUESSES = 100
"""A network recognises an image if its class is among the first hundredth of the network's
guesses."""


class Margins(NamedTuple):
    """What a network answers for n points."""

    margins: Tensor  # (n)
    gradients: Tensor  # (n, c, h, w)


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
        self.evaluations, self.seconds = 0, 0.0
        """Number of points for which a network was run in this process, and the host time."""

        self.rays: dict[Any, Tensor] = {}
        """Transfer attacks on images of this process (transfer.py)."""

    def keep(self, key: Any, rays: Tensor) -> None:
        """Keep the transfer attacks on one image, in place of the oldest if there are too many."""
        self.rays[key] = rays
        if len(self.rays) * rays.nbytes > KEPT_BYTES:
            del self.rays[next(iter(self.rays))]

    def __repr__(self) -> str:
        return f"Surrogate({self.digest!r}, mean={self._mean!r}, std={self._std!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Surrogate) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ready": {}, "rays": {}, "evaluations": 0, "seconds": 0.0}

    def margins(
        self, problem: Problem, points: Tensor, members: Sequence[int] | None = None
    ) -> list[Margins]:
        """Return the margins of the class to reach over the flagged ones and their gradients at
        points (n, c, h, w): of every network, or of some. Gradients are 0 outside the mask."""
        started = time.perf_counter()
        networks, normalise = self._on(points.device)
        chosen = range(len(networks)) if members is None else members
        with _exact():
            found = [_margins(networks[each], normalise, problem, points) for each in chosen]
        self.evaluations += len(points) * len(found)
        self.seconds += time.perf_counter() - started
        return found

    def recognising(self, problem: Problem) -> list[int]:
        """Return the networks that recognise the source image: its class is their first guess, or
        one of the first if there are many classes, but not for most of these as well: grey, two
        images of noise, the negative. Others know little about this image."""
        started, found = time.perf_counter(), []
        networks, normalise = self._on(problem.source.device)
        source = problem.source
        noise = torch.special.ndtr(problem.noise("recognition", 0, 2, tuple(source.shape))[0:2])
        others = [torch.full_like(source, 0.5), *noise, 1 - source]
        with _exact():
            for number, network in enumerate(networks):
                _, logits = _logits(network, normalise, torch.stack([source, *others]))
                allowed = max(1, logits.shape[1] // FIRST_GUESSES)
                better = (logits > logits[:, problem.label, None]).sum(1) < allowed
                first, *seen = better.tolist()
                if first and sum(seen) < len(seen) - 1:
                    found.append(number)
        self.evaluations += len(networks) * (1 + len(others))
        self.seconds += time.perf_counter() - started
        return found

    def classes(self, image: Tensor) -> int:
        """Return the number of logits for an image (c, h, w). Raise InputError if the networks
        differ in it or cannot be differentiated at the image."""
        normalise = self._normalisation(image.device, len(image))
        counts = []
        try:
            for network in self._on(image.device)[0]:
                given, logits = _logits(network, normalise, image[None])
                torch.autograd.grad(logits.sum(), given)
                counts.append(logits.shape[1])
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


def _logits(network: nn.Module, normalise: Normalisation, points: Tensor) -> tuple[Tensor, Tensor]:
    """Return the network's input, for differentiation, and its logits."""
    with torch.enable_grad():
        images = points.detach().to(torch.float32, copy=True).requires_grad_(True)
        batches = images.split(1 if getattr(network, "takes_one", False) else len(images))
        answers = [network(normalise(batch)) for batch in batches]
    # transformers wraps logits in an object
    parts = [getattr(answer, "logits", answer) for answer in answers]
    tensors = all(isinstance(part, Tensor) for part in parts)
    outputs = torch.cat(parts) if tensors else parts[0]
    if not isinstance(outputs, Tensor) or outputs.ndim != 2:
        raise InputError(
            f"returns {shown(outputs)}", expected="logits (n, classes)", input="surrogate"
        )
    return images, outputs


def _margins(
    network: nn.Module, normalise: Normalisation, problem: Problem, points: Tensor
) -> Margins:
    with torch.enable_grad():
        images, logits = _logits(network, normalise, points)
        count = logits.shape[1]
        flagged = sorted(problem.goal.flagged or ())
        largest = max(*flagged, problem.target or 0)
        if largest >= count:
            given = f"has {count} classes, but class {largest} is that of an image or goal"
            expected = "the classes of the model under test"
            raise InputError(given, expected=expected, input="surrogate")
        if problem.target is None:
            others = [each for each in range(count) if not problem.goal.flags(each)]
            rival = logits[:, others].amax(1)
        else:
            rival = logits[:, problem.target]
        margins = rival - logits[:, flagged].amax(1)
        (gradients,) = torch.autograd.grad(margins.sum(), images)
    return Margins(margins.detach(), problem.only_mask(gradients.to(points)))


@contextlib.contextmanager
def _exact() -> Iterator[None]:
    """Float32 without TF32, and kernels that give the same bits every time."""
    deterministic = torch.backends.cudnn.flags(
        enabled=True, benchmark=False, deterministic=True, allow_tf32=False
    )
    with matrix_products(False), deterministic:
        yield
