"""The resolution check: whether a model resolves the radius at which an attack samples its answers.

An attack that samples around a point c learns a direction from how the answers respond to a step
of length delta along u. In TF32, in half precision or on an 8-bit grid, rounding may hide this
response. The check measures it, uncharged, as the correlation, over random directions u, of

    m(c + delta u)  and  m(c' + delta u),

where m is the margin: the logit of the source class minus that of the best other class. The points
c and c' are so close that the network responds alike at both, but they are rounded differently.
With a response of variance s^2 and rounding noise of variance sigma^2, the correlation is
rho = s^2 / (s^2 + sigma^2). It is close to 1 for a radius that is resolved, and close to 0 for one
that is not.

Points on opposite sides, c + delta u and c - delta u, do not replace c and c'. Curvature lowers
their correlation as noise does, to 0.6 at delta = 0.3 on the embedded network in float32. The check
uses them only if the precision is unknown, because c and c' may then be so far apart that the
responses differ.

1. c is the source image, slightly greyer, so that steps are not clipped, plus a dither of up to
   half a step of the 8-bit grid. c' differs from c by 0.2113 of a step in every pixel, with random
   signs. At a distance of a steps, the errors of rounding to a grid have a correlation of
   1 - 6 a (1 - a), which is 0 here. On a finer grid, such as that of TF32, c and c' are several
   steps apart.
2. If a model has no logits, c and c' are points on its boundary, and m is 1 for the source class
   and 0 otherwise. The correlation is then (2 / pi) asin(rho).
3. A metered model gets no query. Its rounding to `quantize` bits is known, so m is a linear
   function of the points as sent, with random weights from the directions of the attack.
4. The outcome depends only on the image and the model (rule 4 of the design).
5. The check sends nothing if the precision settles the outcome: float64, or float32 without
   rounding and a radius of at least 1e-4, where rounding is 8192 times finer than in TF32.
6. The check warns only if the model resolves a larger radius. If it resolves none (because it
   fails, answers at random, or gives one label to all), the outcome is "not checked".
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..core.model import Model
from ..core.noise import Noise
from ..core.problem import Attack, Problem, Sampled
from ..core.resolution import Found, Resolution
from .batch import default_batch_size
from .sender import Sender

GREYER = 0.05
COARSE_BITS, FINE_BITS = 8, 10
"""Bits of the assumed grid: for bfloat16 and for models of unknown precision, and for others."""
SETTLED_RADIUS = 1e-4
STEPS = 1, 2, 5
"""Values tried for the smallest setting that is resolved, times powers of 10."""
UNCORRELATED = 0.2113
"""Distance between the two points, in steps of the grid: a root of 1 - 6 a (1 - a)."""
SPLIT, ROUNDS = 8, 8
"""Parts of an interval and rounds of the search for a boundary, which narrow it down by 2^24."""
ENDS = 8
"""Number of images tried as the other end of that search."""
WEIGHTS = 16
"""Number of linear functions that stand for the margin of a metered model."""

REMEMBERED = 100_000
"""Maximum number of outcomes kept; a stream of images may have no end."""

Answers = Callable[[Tensor], Tensor]
"""Function from points to what they are answered: (n) or (n, k)."""


class ResolutionCheck:
    """The check for the images of one run."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._known: dict[Any, Resolution] = {}
        """What was found, for other attacks on the same image with the same directions."""

    def __call__(self, problem: Problem, attack: Attack) -> Resolution:
        find = getattr(attack, "finest", None)
        sampled = None if find is None else find(problem)
        if sampled is None:
            return Resolution(Found.NO_RADIUS)
        try:
            key = problem.content, problem.label, sampled[:3], sampled.drawing.kind
            found = self._known.get(key) or self._checked(problem, sampled)
            if sampled.drawing.kind is not None and problem.mask is None:
                self._known[key] = found
                if len(self._known) > REMEMBERED:
                    del self._known[next(iter(self._known))]
            return found
        except KeyboardInterrupt:
            raise
        except BaseException:  # from the model; the attack's own queries report it
            return Resolution(Found.NOT_CHECKED, *sampled[:2])

    def _checked(self, problem: Problem, sampled: Sampled) -> Resolution:
        model, (setting, value, radius, drawing) = self._sender.model, sampled
        precision = model.precision if model.running or model.dtype == torch.float64 else ""
        fine = precision == "float32" and radius >= SETTLED_RADIUS
        if model.quantize is not None:
            precision = f"{model.quantize}-bit images"
        elif fine or precision == "float64":
            return Resolution(Found.RESOLVED, setting, value, precision=precision)
        probe = Probe.of(self._sender, problem, drawing)
        if probe is None:
            return Resolution(Found.NOT_CHECKED, setting, value)
        if probe.resolves(radius, probe.THRESHOLD[probe.labels]):
            return Resolution(Found.RESOLVED, setting, value, precision=precision)
        largest = value * GREYER * math.sqrt(problem.dimension) / radius
        exponents = range(math.floor(math.log10(value)), math.ceil(math.log10(largest)) + 1)
        values = [step * 10.0**exponent for exponent in exponents for step in STEPS]
        larger = [each for each in values if value < each <= largest]
        for least in probe.THRESHOLD[probe.labels], probe.NEARLY:
            first = bisect_left(
                larger, True, key=lambda each: probe.resolves(radius * each / value, least)
            )
            if first < len(larger):
                break
        else:
            return Resolution(Found.NOT_CHECKED, setting, value)
        return Resolution(Found.UNRESOLVED, setting, value, larger[first], precision)


def resolution(model: Model, image: Tensor, label: int, radius: float, subspace: Any) -> float:
    """Return the correlation at a radius for directions of a subspace; NaN if a boundary is needed,
    and none is found."""
    problem = Problem(image.to(model.device, model.dtype), label)
    sender = Sender(model, default_batch_size(model), one_shape=False, metered=False)
    probe = Probe.of(sender, problem, subspace.begin(problem))
    return math.nan if probe is None else probe.correlation(radius)


@dataclass(frozen=True)
class Probe:
    """Two close points, the directions of an attack, and the function that answers around them."""

    problem: Problem
    drawing: Any
    centres: Tensor
    answers: Answers
    labels: bool = False
    """Whether the answers are decisions, not margins."""
    unknown: bool = False
    """Whether the precision is unknown, so that the two points may be too far apart."""

    DIRECTIONS = 64, 128
    THRESHOLD = 0.85, 0.72
    """Number of directions, and smallest correlation of a radius that is resolved: of margins, and
    of decisions, the larger of two where the precision is unknown. An estimate from n answers is
    worth rho n of them, and its final distance grows by about rho^-0.9: by 1.05 at rho = 0.95, 1.16
    at 0.85, 1.2 at 0.82. A correlation of 64 margins has an error of 0.01 at 0.95 and 0.04 at 0.82,
    one of 128 decisions 0.05. Images differ by more, so a run warns if half of its images do."""

    NEARLY = 0.55
    """Correlation that is accepted for the value to set if none reaches the threshold: decisions at
    a large radius also depend on the boundary's curvature."""

    @classmethod
    @torch.no_grad()
    def of(cls, sender: Sender, problem: Problem, drawing: Any) -> Probe | None:
        """Return the probe of an image; None if the model answers with labels only, and no
        boundary is found, or if it is metered and nothing is known about its rounding."""
        model, label = sender.model, problem.label
        greyer = GREYER + (1 - 2 * GREYER) * problem.source
        unknown = not model.running and model.quantize is None
        coarse = model.precision == "bfloat16" or not model.running
        step = 1 / (2 ** (model.quantize or (COARSE_BITS if coarse else FINE_BITS)) - 1)
        dither, sign = _uniform(problem, "dither", 2) - 0.5
        first = greyer + step * dither
        centres = torch.stack([first, first + UNCORRELATED * step * sign.sign()])
        if sender.metered:
            if model.quantize is None:
                return None
            weights = drawing(_noise(problem, "weights", WEIGHTS, drawing.shape), 1.0).flatten(1)
            sent = _batched(sender, lambda points: points.flatten(1) @ weights.T)
            return cls(problem, drawing, centres, sent)
        decide, logits = _batched(sender, model), None
        if model.outputs is not None:
            outputs = _batched(sender, model.outputs)
            logits = outputs(centres)
            if logits.ndim != 2 or not logits.is_floating_point() or logits.shape[1] < 2:
                logits = None
        if logits is None:
            found = _boundary(problem, centres, decide)
            if found is None:
                return None
            return cls(
                problem, drawing, found, lambda points: decide(points) == label, True, unknown
            )
        others = logits[0].clone()
        others[label] = -math.inf
        other = int(others.argmax())

        def margins(points: Tensor) -> Tensor:
            scores = outputs(points).double()
            if bool((scores >= 0).all()) and torch.allclose(scores.sum(1), scores.new_ones(1)):
                scores = scores.clamp_min(torch.finfo(torch.float32).tiny).log()  # probabilities
            difference: Tensor = scores[:, label] - scores[:, other]
            return difference

        return cls(problem, drawing, centres, margins, unknown=unknown)

    @torch.no_grad()
    def correlation(self, radius: float, opposite: bool = False) -> float:
        """Return the correlation of the answers around the two points, or on opposite sides of the
        first; 0 if either are constant."""
        count = self.DIRECTIONS[self.labels]
        noise = _noise(self.problem, "directions", count, self.drawing.shape)
        sides = []
        for rows in noise.split(32):
            steps = self.drawing(rows, radius)
            first, second = self.centres
            both = torch.cat([first + steps, first - steps if opposite else second + steps])
            sides.append(self.answers(both).double().cpu().reshape(2, len(rows), -1))
        one, two = torch.cat(sides, 1)
        one, two = one - one.mean(0), two - two.mean(0)
        scale = float(one.norm() * two.norm()) * (-1 if opposite else 1)
        return float((one * two).sum()) / scale if scale else 0.0

    def resolves(self, radius: float, least: float) -> bool:
        if self.correlation(radius) >= least:
            return True
        return self.unknown and self.correlation(radius, opposite=True) >= least


def _noise(problem: Problem, purpose: str, rows: int, shape: tuple[int, ...]) -> Tensor:
    """Return standard normal rows for one purpose of the check, the same for every seed."""
    return Noise(f"resolution/{problem.content}/{purpose}", rows, shape, problem.source)[0:rows]


def _uniform(problem: Problem, purpose: str, rows: int) -> Tensor:
    """Return rows of numbers between 0 and 1 with the shape of the image."""
    made: Tensor = torch.special.ndtr(_noise(problem, purpose, rows, tuple(problem.source.shape)))
    return made


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
    steps = ends[same.index(False)] - centres
    low, width = centres.new_zeros(len(centres), 1, dtype=torch.float64), 1.0
    for _ in range(ROUNDS):
        width /= SPLIT
        shares = low + width * torch.arange(1, SPLIT, device=low.device)
        lines = centres[:, None] + steps[:, None] * shares.to(steps)[..., None, None, None]
        flagged = decide(lines.flatten(0, 1)) == problem.label
        # The number of flagged points, not the first other one, which noise brings forward.
        low = low + width * flagged.view(shares.shape).sum(1, keepdim=True)
    return centres + steps * (low + width / 2).to(steps)[..., None, None]
