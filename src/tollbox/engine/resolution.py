"""The resolution check: whether a model resolves the radius at which an attack samples its answers.

An attack that samples around a point c learns a direction from how the answers respond to a step
of length delta along u. In TF32, in half precision or on an 8-bit grid, rounding may hide this
response. The check measures it, uncharged, as the correlation over random directions u of

    m(c + delta u)  and  m(c' + delta u),

where m is the margin: the logit of the source class minus that of the best other class. The points
c and c' are so close that the network responds alike, but are rounded differently. With a response
of variance s^2 and rounding noise of variance sigma^2, the correlation is
rho = s^2 / (s^2 + sigma^2): close to 1 for a radius that is resolved, close to 0 for one that is
not. (Answers at c + delta u and c - delta u would do as well if boundaries were flat. Curvature
lowers their correlation as noise does: to 0.6 at delta = 0.3 on the embedded network in float32.)

1. c is the source image, slightly greyer, so that steps are not clipped, plus a dither of up to
   half a step of the 8-bit grid. c' differs from it by 0.2113 of a step in every pixel, at random
   signs: the errors of rounding to a grid, 1 - 6 a (1 - a) correlated at a distance of a steps, are
   then uncorrelated. A finer grid, such as that of TF32, is passed by several steps.
2. If a model has no logits, c and c' are points on its boundary, and m is 1 for the source class
   and 0 otherwise. The correlation is then (2 / pi) asin(rho).
3. A metered model gets no query. Its rounding to `quantize` bits is known: m is then a linear
   function of the points as sent, with random weights from the directions of the attack.
4. What is found depends on the image and the model only (rule 4 of the design).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..core.execution import Execution
from ..core.model import Model
from ..core.noise import Noise
from ..core.problem import Problem
from .batch import batch_size_for
from .sender import Sender

GREYER = 0.05
UNCORRELATED = 0.2113
"""Distance between the two points, in steps of the grid: a root of 1 - 6 a (1 - a)."""
SPLIT, ROUNDS = 32, 5
"""Points per round and rounds of the search for a boundary, which narrow it down by 2^25."""
ENDS = 8
"""Number of images tried as the other end of that search."""
WEIGHTS = 16
"""Number of linear functions that stand for the margin of a metered model."""

Answers = Callable[[Tensor], Tensor]
"""Function from points to what they are answered: (n) or (n, k)."""


def resolution(
    model: Model,
    image: Tensor,
    label: int,
    radius: float,
    subspace: Any = None,
    *,
    at_boundary: bool = False,
    batch_size: int | None = None,
) -> float:
    """Return the correlation at a radius for directions of a subspace (by default all directions);
    NaN if a boundary is needed, and none is found. With `at_boundary`, margins are measured at the
    boundary as well."""
    problem = Problem(image.to(model.device, model.dtype), label)
    size = batch_size_for(model, Execution(batch_size=batch_size))
    sender = Sender(model, size, one_shape=False, metered=False)
    drawing = _AllDirections(tuple(image.shape)) if subspace is None else subspace.begin(problem)
    probe = Probe.of(sender, problem, drawing, at_boundary=at_boundary)
    return math.nan if probe is None else probe.correlation(radius)


@dataclass(frozen=True)
class _AllDirections:
    shape: tuple[int, ...]

    def __call__(self, rows: Tensor, length: float) -> Tensor:
        return rows * (length / torch.linalg.vector_norm(rows, dim=(1, 2, 3), keepdim=True))


@dataclass(frozen=True)
class Probe:
    """Two close points, the directions of an attack, and the function that answers around them."""

    problem: Problem
    drawing: Any
    centres: Tensor
    answers: Answers
    labels: bool = False
    """Whether the answers are decisions, not margins."""

    DIRECTIONS = 64, 256
    THRESHOLD = 0.88, 0.65
    """Number of directions, and smallest correlation of a radius that is resolved: of margins and
    of decisions. An estimate from n answers is worth rho n of them, and its final distance grows by
    about rho^-1.8. So rho = 0.95 (0.79 for decisions) is a distance 1.05 times as large, and 0.81
    (0.60) one 1.2 times as large. At the former an image gives a false alarm with probability 2e-4
    (3e-4); at the latter it is recognised with probability 0.97 (0.84)."""

    @classmethod
    def of(
        cls, sender: Sender, problem: Problem, drawing: Any, *, at_boundary: bool = False
    ) -> Probe | None:
        """Return the probe of an image; None if the model answers with labels only, and no
        boundary is found, or if it is metered and nothing is known about its rounding."""
        model, label = sender.model, problem.label
        greyer = GREYER + (1 - 2 * GREYER) * problem.source
        step = 1 / (2 ** (model.quantize or 8) - 1)
        dither, sign = _uniform(problem, "dither", 2) - 0.5
        first = greyer + step * dither
        centres = torch.stack([first, first + UNCORRELATED * step * sign.sign()])
        if sender.metered:
            if model.quantize is None:
                return None
            weights = drawing(_noise(problem, "weights", WEIGHTS, drawing.shape), 1.0).flatten(1)
            sent = _batched(sender, lambda points: points)
            return cls(
                problem, drawing, centres, lambda points: sent(points).flatten(1) @ weights.T
            )
        decide, logits = _batched(sender, model), None
        if model.outputs is not None:
            outputs = _batched(sender, model.outputs)
            logits = outputs(centres)
            if logits.ndim != 2 or not logits.is_floating_point() or logits.shape[1] < 2:
                logits = None
        if logits is None or at_boundary:
            found = _boundary(problem, centres, decide)
            if found is None:
                return None
            centres = found
        if logits is None:
            return cls(problem, drawing, centres, lambda points: decide(points) == label, True)
        others = outputs(centres)[0].clone()
        others[label] = -math.inf
        other = int(others.argmax())

        def margins(points: Tensor) -> Tensor:
            scores = outputs(points).double()
            if bool((scores >= 0).all()) and torch.allclose(scores.sum(1), scores.new_ones(1)):
                scores = scores.clamp_min(torch.finfo(torch.float32).tiny).log()  # probabilities
            return scores[:, label] - scores[:, other]

        return cls(problem, drawing, centres, margins)

    def correlation(self, radius: float) -> float:
        """Return the correlation of the answers around the two points; 0 if either are constant."""
        count = self.DIRECTIONS[self.labels]
        noise = _noise(self.problem, "directions", count, self.drawing.shape)
        sides = []
        for rows in noise.split(32):
            steps = self.drawing(rows, radius)
            both = torch.cat([centre + steps for centre in self.centres])
            sides.append(self.answers(both).double().cpu().reshape(2, len(rows), -1))
        one, two = torch.cat(sides, 1)
        one, two = one - one.mean(0), two - two.mean(0)
        scale = float(one.norm() * two.norm())
        return float((one * two).sum()) / scale if scale else 0.0

    def resolves(self, radius: float) -> bool:
        return self.correlation(radius) >= self.THRESHOLD[self.labels]


def _noise(problem: Problem, purpose: str, rows: int, shape: tuple[int, ...]) -> Tensor:
    """Return standard normal rows for one purpose of the check, the same for every seed."""
    return Noise(f"resolution/{problem.content}/{purpose}", rows, shape, problem.source)[0:rows]


def _uniform(problem: Problem, purpose: str, rows: int) -> Tensor:
    return torch.special.ndtr(_noise(problem, purpose, rows, tuple(problem.source.shape)))


def _batched(sender: Sender, function: Answers) -> Answers:
    """Return a function of any number of points that sends them in the batch shapes of the run."""

    def answers(points: Tensor) -> Tensor:
        parts = []
        for part in points.split(sender.batch_size):
            more = sender.padded(len(part)) - len(part)
            batch = torch.cat([part, part[:1].expand(more, *part.shape[1:])])
            parts.append(function(sender.model.sent(batch))[: len(part)])
        return torch.cat(parts)

    return answers


def _boundary(problem: Problem, centres: Tensor, decide: Answers) -> Tensor | None:
    """Return points on the boundary of the source class, on the way from the centres to grey or to
    noise; None if these have the same label, or a centre has another."""
    noise = _uniform(problem, "ends", ENDS)
    ends = torch.cat([torch.full_like(noise[:1], 0.5), noise, 1 - centres[:1], centres])
    same = (decide(ends) == problem.label).tolist()
    if all(same) or not (same[-1] and same[-2]):
        return None
    points, end = [], ends[same.index(False)]
    for centre in centres:
        low, width = 0.0, 1.0
        for _ in range(ROUNDS):
            width /= SPLIT
            shares = low + width * torch.arange(1, SPLIT, dtype=torch.float64)
            line = centre + (end - centre) * shares.to(centre).view(-1, 1, 1, 1)
            low += width * [*(decide(line) == problem.label).tolist(), False].index(False)
        points.append(centre + (end - centre) * (low + width / 2))
    return torch.stack(points)
