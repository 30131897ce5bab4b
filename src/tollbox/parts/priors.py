"""Priors on directions: which directions are worth a query before anything is known about a model.

An estimate of n answers has a cosine of about sqrt(n) |g|_v with the normal g of the boundary,
where |g|_v^2 = E<v, g>^2 is the share of the normal's energy on a random direction v of the prior.
It is 1/d for uniform directions; a good prior raises it. `benchmarks/sensitivity.py` measures it on
real networks:

    Spectrum    frequencies below a cut, with most of the energy in brightness: networks respond to
                light far more than to colour
    Texture     the image's own fine texture, with a random factor at each place: strengthening or
                weakening existing texture is more effective than adding new texture
    Photo       two spectra and the texture, a third of the energy each: the default of `frugal`
    Reweighed   the current perturbation, with a random factor for each place and band. It has few
                dimensions, so that few answers show which parts of the perturbation matter. Its
                benefit is soon exhausted and returns as other estimates add noise

Frequencies are half-waves per image, so that the same numbers suit small and large images.
"""

from __future__ import annotations

import math
from functools import reduce
from itertools import islice
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ..core.problem import Problem
from ..core.validation import MAX_VALUE, number
from .registry import Checked, Fraction, PositiveFraction, Power, register
from .subspaces import Drawing, Prior, Shape, constant, cosine_columns, transform_planes
from .vectors import unit, unit_rows

BRIGHTNESS = (0.56, 0.74, 0.37)
"""The mix of red, green and blue that holds most of the energy of networks' normals."""
ENERGY_FLOOR = 0.1
"""Windows with less than this share of the image's texture are not raised to the same level."""
TEXTURE_ROUNDINGS = 100.0
"""Texture below this many rounding errors counts as none, as in an image of one colour."""
Cut = Annotated[float, number(1, MAX_VALUE)]


def _sides(image: Shape, cut: float) -> tuple[int, int]:
    """Return the number of frequencies below the cut along each axis."""
    _, height, width = image
    return min(height, math.ceil(cut)), min(width, math.ceil(cut))


def _frequencies(height: int, width: int) -> NDArray[np.float64]:
    return np.hypot(np.arange(height)[:, None], np.arange(width)[None, :])


def _low_pass(height: int, width: int, cut: float) -> NDArray[np.float64]:
    """Return 1 for the frequencies below the cut and 0 for the others."""
    return (_frequencies(height, width) < cut).astype(float)


def _count_below(image: Shape, cut: float) -> int:
    return int(_low_pass(*_sides(image, cut), cut).sum())


def _channel_mix(grey: float) -> NDArray[np.float64]:
    light = np.array(BRIGHTNESS) / np.linalg.norm(BRIGHTNESS)
    along = np.outer(light, light)
    return math.sqrt(grey) * along + math.sqrt((1 - grey) / 2) * (np.eye(3) - along)


def _expand(rows: Tensor, image: Shape) -> Tensor:
    """Expand low-frequency coefficients (..., h', w') to planes (..., h, w)."""
    sides = zip(image[1:], rows.shape[-2:], strict=True)
    vertical, horizontal = (cosine_columns(side, 1.0, rows)[:, :count] for side, count in sides)
    return transform_planes(vertical, rows, horizontal.mT)


def _smooth_factors(rows: Tensor, image: Shape, cut: float) -> Tensor:
    """Return smooth random factors, of frequencies below the cut, for each pixel."""
    return _expand(rows * constant(_low_pass, rows, *rows.shape[-2:], cut), image)


@register(Prior)
class Spectrum(Checked):
    """Frequencies below `cut`; with three channels, a share `grey` of the energy is brightness."""

    cut: Cut = 56.0
    grey: Fraction = 0.7

    def dimension(self, image: Shape) -> int:
        places = _count_below(image, self.cut)
        if image[0] != 3:
            return places * image[0]
        return max(2, round(places / (self.grey**2 + (1 - self.grey) ** 2 / 2)))

    def begin(self, problem: Problem) -> Drawing:
        image = tuple(problem.source.shape)
        shape = (image[0], *_sides(image, self.cut))

        def make(rows: Tensor, length: float) -> Tensor:
            rows = rows * constant(_low_pass, rows, *shape[1:], self.cut)
            if shape[0] == 3:
                mix = constant(_channel_mix, rows, self.grey)
                # Contiguous, so that lengths are summed in the same order as for a single row.
                rows = torch.einsum("cd,ndhw->nchw", mix, rows).contiguous()
            return _expand(unit_rows(rows) * length, image)

        return Drawing(shape, make, (self, image))


@register(Prior)
class Texture(Checked):
    """The image's brightness with its frequencies f weighted by f^power, divided by the local
    energy in windows (a share of the side), times smooth factors of frequencies below `cut`."""

    power: Power = 1.5
    window: PositiveFraction = 1 / 56
    cut: Cut = 32.0

    def dimension(self, image: Shape) -> int:
        return max(2, _count_below(image, self.cut))

    def begin(self, problem: Problem) -> Drawing:
        image = tuple(problem.source.shape)

        def make(rows: Tensor, length: float, texture: Tensor) -> Tensor:
            return unit_rows(_smooth_factors(rows, image, self.cut) * texture) * length

        shape = (1, *_sides(image, self.cut))
        return Drawing(shape, make, (self, image), (self._even_texture(problem.source),))

    def _even_texture(self, source: Tensor) -> Tensor:
        """Return the image's fine texture (c, h, w) with about the same energy everywhere."""
        channels, height, width = source.shape
        mix = BRIGHTNESS if channels == 3 else (1.0,) * channels
        light = unit(constant(np.array, source, mix))
        # A copy is aligned wherever the image lies in a batch (see subspaces.py).
        plane = torch.einsum("chw,c->hw", source.clone(), light)
        high, wide = cosine_columns(height, 1.0, source), cosine_columns(width, 1.0, source)
        weights = constant(_frequencies, source, height, width) ** self.power
        fine = high @ ((high.mT @ (plane - plane.mean()) @ wide) * weights) @ wide.mT
        reach = max(1, round(self.window * max(height, width)))
        energy = functional.avg_pool2d(
            fine[None, None] ** 2, 2 * reach + 1, 1, reach, count_include_pad=False
        )[0, 0].sqrt()
        limits = torch.finfo(source.dtype)
        floor = ENERGY_FLOOR * fine.square().mean().sqrt()
        even = fine / (energy + floor).clamp_min(limits.tiny)
        rounding = limits.eps * weights.amax() * plane.abs().amax()
        is_textured = fine.abs().amax() > TEXTURE_ROUNDINGS * rounding
        return torch.where(is_textured, even, torch.ones_like(even)) * light.view(-1, 1, 1)


@register(Prior)
class Photo(Checked):
    """What networks for photographs respond to: a share of texture, and the rest halved between
    frequencies below `low` and frequencies below `high`, the latter mostly brightness."""

    texture: Fraction = 1 / 3
    low: Cut = 56.0
    high: Cut = 112.0

    @property
    def parts(self) -> list[tuple[float, Texture | Spectrum]]:
        """The component priors with their shares of the energy."""
        rest = (1 - self.texture) / 2
        found: list[tuple[float, Texture | Spectrum]] = [
            (self.texture, Texture()),
            (rest, Spectrum(self.low)),
            (rest, Spectrum(self.high, grey=0.9)),
        ]
        return [(share, part) for share, part in found if share > 0]

    def dimension(self, image: Shape) -> int:
        """Return the effective dimension d', as if the components were orthogonal."""
        return max(2, round(1 / sum(s**2 / part.dimension(image) for s, part in self.parts)))

    def begin(self, problem: Problem) -> Drawing:
        parts = [(share, part.begin(problem)) for share, part in self.parts]
        sizes = [math.prod(drawing.shape) for _, drawing in parts]

        def make(rows: Tensor, length: float, *tensors: Tensor) -> Tensor:
            left = iter(tensors)
            pieces = rows.flatten(1).split(sizes, dim=1)
            drawn = (
                drawing.make(
                    piece.reshape(-1, *drawing.shape),
                    math.sqrt(share),
                    *islice(left, len(drawing.tensors)),
                )
                for (share, drawing), piece in zip(parts, pieces, strict=True)
            )
            return unit_rows(reduce(torch.Tensor.add_, drawn)) * length

        kind = (self, tuple(problem.source.shape))
        tensors = tuple(tensor for _, drawing in parts for tensor in drawing.tensors)
        return Drawing((1, 1, sum(sizes)), make, kind, tensors)


@register(Prior)
class Reweighed(Checked):
    """The perturbation itself: its bands below `low`, up to `high`, and above, each times a smooth
    random factor of frequencies below `cut`."""

    cut: Cut = 12.0
    low: Cut = 14.0
    high: Cut = 56.0

    def dimension(self, image: Shape) -> int:
        return max(2, 3 * _count_below(image, self.cut))

    def begin(self, problem: Problem) -> Drawing:
        image = tuple(problem.source.shape)

        def make(rows: Tensor, length: float, *bands: Tensor) -> Tensor:
            factors = _smooth_factors(rows, image, self.cut)
            total = factors[:, :1] * bands[0]
            for band in (1, 2):
                total.addcmul_(factors[:, band : band + 1], bands[band])
            return unit_rows(total) * length

        def bands_at(point: Tensor) -> tuple[Tensor, ...]:
            source, (_, height, width) = problem.source, image
            away = point - source
            high, wide = cosine_columns(height, 1.0, source), cosine_columns(width, 1.0, source)
            f = constant(_frequencies, source, height, width)
            coefficients = high.mT @ away @ wide
            low = high @ (coefficients * (f < self.low)) @ wide.mT
            middle = high @ (coefficients * ((f >= self.low) & (f < self.high))) @ wide.mT
            return low, middle, away - low - middle

        shape = (3, *_sides(image, self.cut))
        return Drawing(shape, make, (self, image), tensors_at=bands_at)
