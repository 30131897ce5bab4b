"""Priors on directions: which are worth asking about, before anything is known of a model.

An estimate of n answers has a cosine of about sqrt(n) |g|_v with the normal g of the boundary,
where |g|_v^2 = E<v, g>^2 is the share of the normal's energy that falls on a random direction v of
the prior. For uniform directions it is 1/d; a prior is as good as it raises that. What it is for
real networks, `benchmarks/sensitivity.py` measures:

    Spectrum    frequencies below a cut, most of the energy along brightness: networks look at light
                far more than at colour
    Texture     the image's own fine texture, each place with its own factor: to strengthen or fade
                what is there says more than to add what is not
    Photo       two spectra and the texture, a third of the energy each: the default of `frugal`
    Reweighed   the perturbation that was found so far, each place and each band with its own
                factor. It lives in few dimensions, so few answers tell which parts of the
                perturbation earn their length; what it can bring is soon used up, and comes back
                as other estimates add noise

A frequency is a number of half-waves per image, so that the same numbers suit small images and
large ones.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import islice
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ..core.problem import Problem
from ..core.validation import MAX_VALUE, above, check, number
from .registry import register
from .subspaces import Drawing, Prior, Recordable, Shape, cosine_columns, transform_planes
from .vectors import unit, unit_rows

BRIGHTNESS = (0.56, 0.74, 0.37)
"""Along which of red, green and blue the normals of networks have most of their energy."""


def _sides(image: Shape, cut: float) -> tuple[int, int]:
    """How many frequencies below the cut there are along each axis."""
    _, height, width = image
    return min(height, math.ceil(cut)), min(width, math.ceil(cut))


def _mask_below(sides: tuple[int, int], cut: float) -> NDArray[np.float64]:
    f = np.hypot(np.arange(sides[0])[:, None], np.arange(sides[1])[None, :])
    return (f < cut).astype(float)


def _expand(rows: Tensor, image: Shape) -> Tensor:
    """Low-frequency coefficients (..., h', w') to planes (..., h, w)."""
    sides = zip(image[1:], rows.shape[-2:], strict=True)
    vertical, horizontal = (cosine_columns(side, 1.0, rows)[:, :count] for side, count in sides)
    return transform_planes(vertical, rows, horizontal.mT)


@lru_cache(maxsize=64)
def _low_pass(
    sides: tuple[int, int], cut: float, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """1 for the frequencies below the cut, 0 for the others."""
    return torch.from_numpy(_mask_below(sides, cut)).to(dtype).to(device, non_blocking=True)


class _FixedDrawing:
    """A drawing that does not depend on the point."""

    def at(self, point: Tensor) -> Self:  # noqa: ARG002
        return self


@register(Prior)
@dataclass(frozen=True)
class Spectrum:
    """Frequencies below `cut`; of three channels a share `grey` of the energy is brightness."""

    cut: float = 56.0
    grey: float = 0.7

    def __post_init__(self) -> None:
        check(self, cut=number(1, MAX_VALUE), grey=number(0, 1))

    def dimension(self, image: Shape) -> int:
        """d', the effective dimension."""
        places = int(_mask_below(_sides(image, self.cut), self.cut).sum())
        if image[0] != 3:
            return places * image[0]
        return max(2, round(places / (self.grey**2 + (1 - self.grey) ** 2 / 2)))

    def begin(self, problem: Problem) -> Recordable:
        """For one image."""
        return _SpectrumDrawing(self, tuple(problem.source.shape))


class _SpectrumDrawing(_FixedDrawing):
    tensors: tuple[Tensor, ...] = ()

    def __init__(self, part: Spectrum, image: Shape) -> None:
        self._part, self._image = part, image
        self.shape = (image[0], *_sides(image, part.cut))
        self.kind: Hashable = (part, image)

    def holding(self, *tensors: Tensor) -> Recordable:  # noqa: ARG002
        return self

    def __call__(self, rows: Tensor, length: float) -> Tensor:
        low_pass, mix = _weights(self._part, self.shape, rows.dtype, rows.device)
        rows = rows * low_pass
        if mix is not None:
            # in the order of memory in which a single row's length would be summed
            rows = torch.einsum("cd,ndhw->nchw", mix, rows).contiguous()
        return _expand(unit_rows(rows) * length, self._image)


@lru_cache(maxsize=64)
def _weights(
    part: Spectrum, shape: Shape, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor | None]:
    low_pass = _low_pass((shape[1], shape[2]), part.cut, dtype, device)
    if shape[0] != 3:
        return low_pass, None
    light = np.array(BRIGHTNESS) / np.linalg.norm(BRIGHTNESS)
    along = np.outer(light, light)
    mix = math.sqrt(part.grey) * along + math.sqrt((1 - part.grey) / 2) * (np.eye(3) - along)
    return low_pass, torch.from_numpy(mix).to(dtype).to(device, non_blocking=True)


@register(Prior)
@dataclass(frozen=True)
class Texture:
    """The image's brightness, its frequencies f weighted by f^power, evened out over windows of a
    share of its side; times smooth random factors of frequencies below `cut`."""

    power: float = 1.5
    window: float = 1 / 56
    cut: float = 32.0

    def __post_init__(self) -> None:
        check(self, power=number(0, 10), window=above(0, 1), cut=number(1, MAX_VALUE))

    def dimension(self, image: Shape) -> int:
        """d', the number of factors."""
        return max(2, int(_mask_below(_sides(image, self.cut), self.cut).sum()))

    def begin(self, problem: Problem) -> Recordable:
        """For one image."""
        image = tuple(problem.source.shape)
        return _TextureDrawing(self, image, _even_texture(self, problem.source))


EVENING_FLOOR = 0.1
"""Windows with less texture than this share of the image's are not raised to the same level."""


def _even_texture(part: Texture, source: Tensor) -> Tensor:
    """The image's fine texture, evened out, (c, h, w)."""
    channels, height, width = source.shape
    light = source.new_ones(channels)
    if channels == 3:
        light = torch.tensor(BRIGHTNESS, dtype=source.dtype).to(source.device, non_blocking=True)
    light = unit(light)
    # of a copy, which is aligned wherever in a batch the image lies (cosines.py)
    plane = torch.einsum("chw,c->hw", source.clone(), light)
    high, wide = cosine_columns(height, 1.0, source), cosine_columns(width, 1.0, source)
    f = _frequencies(height, width, source.dtype, source.device)
    weights = f**part.power
    fine = high @ ((high.mT @ (plane - plane.mean()) @ wide) * weights) @ wide.mT
    reach = max(1, round(part.window * max(height, width)))
    energy = functional.avg_pool2d(
        fine[None, None] ** 2, 2 * reach + 1, 1, reach, count_include_pad=False
    )[0, 0].sqrt()
    tiny = torch.finfo(source.dtype).tiny
    even = fine / (energy + EVENING_FLOOR * fine.square().mean().sqrt()).clamp_min(tiny)
    rounding = torch.finfo(source.dtype).eps * weights.amax() * plane.abs().amax()
    even = torch.where(
        fine.abs().amax() > TEXTURE_ROUNDINGS * rounding, even, torch.ones_like(even)
    )
    return even * light.view(-1, 1, 1)


class _TextureDrawing(_FixedDrawing):
    def __init__(self, part: Texture, image: Shape, base: Tensor) -> None:
        self._part, self._image, self._base = part, image, base
        self._sides, self._cut = _sides(image, part.cut), part.cut
        self.shape: Shape = (1, *self._sides)
        self.kind: Hashable = (part, image)
        self.tensors = (base,)

    def holding(self, *tensors: Tensor) -> Recordable:
        return _TextureDrawing(self._part, self._image, *tensors)

    def __call__(self, rows: Tensor, length: float) -> Tensor:
        low_pass = _low_pass(self._sides, self._cut, rows.dtype, rows.device)
        return unit_rows(_expand(rows * low_pass, self._image) * self._base) * length


TEXTURE_ROUNDINGS = 100.0
"""Texture of fewer roundings is none: an image of one colour has no texture, any place will do."""


@lru_cache(maxsize=64)
def _frequencies(height: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    f = np.hypot(np.arange(height)[:, None], np.arange(width)[None, :])
    return torch.from_numpy(f).to(dtype).to(device, non_blocking=True)


@register(Prior)
@dataclass(frozen=True)
class Photo:
    """What networks for photographs look at: a share of texture, and the rest halved between
    frequencies below `low` and frequencies below `high`, the latter nearly all brightness."""

    texture: float = 1 / 3
    low: float = 56.0
    high: float = 112.0

    def __post_init__(self) -> None:
        check(
            self,
            texture=number(0, 1),
            low=number(1, MAX_VALUE),
            high=number(1, MAX_VALUE),
        )

    @property
    def parts(self) -> list[tuple[float, Texture | Spectrum]]:
        """The parts with their shares of the energy."""
        rest = (1 - self.texture) / 2
        found: list[tuple[float, Texture | Spectrum]] = [
            (self.texture, Texture()),
            (rest, Spectrum(self.low)),
            (rest, Spectrum(self.high, grey=0.9)),
        ]
        return [(share, part) for share, part in found if share > 0]

    def dimension(self, image: Shape) -> int:
        """d', the effective dimension, as if the parts were orthogonal."""
        return max(2, round(1 / sum(s**2 / part.dimension(image) for s, part in self.parts)))

    def begin(self, problem: Problem) -> Recordable:
        """For one image."""
        image = tuple(problem.source.shape)
        parts = [(share, part.begin(problem)) for share, part in self.parts]
        return _BlendDrawing((self, image), parts)


class _BlendDrawing(_FixedDrawing):
    def __init__(self, kind: Hashable, parts: Sequence[tuple[float, Recordable]]) -> None:
        self.kind, self._parts = kind, parts
        self._sizes = [math.prod(drawing.shape) for _, drawing in parts]
        self.shape: Shape = (1, 1, sum(self._sizes))

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(tensor for _, drawing in self._parts for tensor in drawing.tensors)

    def holding(self, *tensors: Tensor) -> Recordable:
        left = iter(tensors)
        return _BlendDrawing(
            self.kind,
            [
                (share, drawing.holding(*islice(left, len(drawing.tensors))))
                for share, drawing in self._parts
            ],
        )

    def __call__(self, rows: Tensor, length: float) -> Tensor:
        pieces = rows.flatten(1).split(self._sizes, dim=1)
        drawn = (
            drawing(piece.reshape(-1, *drawing.shape), math.sqrt(share))
            for (share, drawing), piece in zip(self._parts, pieces, strict=True)
        )
        return unit_rows(reduce(torch.Tensor.add_, drawn)) * length


@register(Prior)
@dataclass(frozen=True)
class Reweighed:
    """The perturbation itself: its bands below `low`, up to `high`, and above, each times a smooth
    random factor of frequencies below `cut`."""

    cut: float = 12.0
    low: float = 14.0
    high: float = 56.0

    def __post_init__(self) -> None:
        check(
            self,
            cut=number(1, MAX_VALUE),
            low=number(1, MAX_VALUE),
            high=number(1, MAX_VALUE),
        )

    def dimension(self, image: Shape) -> int:
        """d', the number of factors."""
        return max(2, 3 * int(_mask_below(_sides(image, self.cut), self.cut).sum()))

    def begin(self, problem: Problem) -> Recordable:
        """For one image."""
        return _ReweighedDrawing(self, problem.source, ())


class _ReweighedDrawing:
    def __init__(self, part: Reweighed, source: Tensor, bands: tuple[Tensor, ...]) -> None:
        self._part, self._source, self._bands = part, source, bands
        self._image: Shape = tuple(source.shape)
        self._sides = _sides(self._image, part.cut)
        self.shape: Shape = (3, *self._sides)
        self.kind: Hashable = (part, self._image)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self._bands

    def holding(self, *tensors: Tensor) -> Recordable:
        return _ReweighedDrawing(self._part, self._source, tensors)

    def at(self, point: Tensor) -> Drawing:
        part, source, (_, height, width) = self._part, self._source, self._image
        away = point - source
        high, wide = cosine_columns(height, 1.0, source), cosine_columns(width, 1.0, source)
        f = _frequencies(height, width, source.dtype, source.device)
        coefficients = high.mT @ away @ wide
        low = high @ (coefficients * (f < part.low)) @ wide.mT
        middle = high @ (coefficients * ((f >= part.low) & (f < part.high))) @ wide.mT
        return _ReweighedDrawing(part, source, (low, middle, away - low - middle))

    def __call__(self, rows: Tensor, length: float) -> Tensor:
        low_pass = _low_pass(self._sides, self._part.cut, rows.dtype, rows.device)
        factors = _expand(rows * low_pass, self._image)
        total = factors[:, :1] * self._bands[0]
        for band in (1, 2):
            total.addcmul_(factors[:, band : band + 1], self._bands[band])
        return unit_rows(total) * length
