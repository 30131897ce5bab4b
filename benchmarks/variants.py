"""The ablation of `frugal`: each part taken out of it, and each put alone into `a-cgba`.

frugal-start      begins with growing noise, as the others do
frugal-texture    no directions along the image's texture
frugal-prior      directions of the lowest quarter of the frequencies, as CGBA draws them
frugal-wide       no wider prior in the place of one that is exhausted
frugal-own        the perturbation is not reweighed
frugal-radius     delta is not raised with the distance
frugal-likely     searches divide the whole arc evenly
frugal-gain       30 sqrt(t) queries an estimate, as CGBA
frugal-price      plans for c* = 1, but for the start: no overshoot, searches by halves
a-cgba+inward, +photo, +calibrated, +optimal    A-CGBA with one part of `frugal`
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tollbox as tb
from tollbox.attacks.frugal.calibrated import Calibrated
from tollbox.attacks.frugal.ray_start import RayStart
from tollbox.parts.priors import Photo
from tollbox.parts.searches import OptimalSearch
from tollbox.parts.starts import GrowingNoise
from tollbox.parts.subspaces import Dct

FRUGAL: Any = tb.preset("frugal")
A_CGBA: Any = tb.preset("a-cgba")

VARIANTS: dict[str, Any] = {
    "frugal-start": replace(FRUGAL, start=GrowingNoise()),
    "frugal-texture": replace(FRUGAL, prior=Photo(texture=0)),
    "frugal-prior": replace(FRUGAL, prior=Dct(4)),
    "frugal-wide": replace(FRUGAL, fallback_prior=FRUGAL.prior),
    "frugal-own": replace(FRUGAL, reweighing_period=0),
    "frugal-radius": replace(FRUGAL, relative_delta=0),
    "frugal-likely": replace(FRUGAL, tail=1),
    "frugal-gain": replace(FRUGAL, schedule=30),
    "frugal-price": replace(FRUGAL, plan=1),
    "a-cgba+inward": replace(A_CGBA, start=RayStart()),
    "a-cgba+photo": replace(A_CGBA, estimate=replace(A_CGBA.estimate, subspace=Photo())),
    "a-cgba+calibrated": replace(A_CGBA, estimate=Calibrated(subspace=Dct(4))),
    "a-cgba+optimal": replace(A_CGBA, search=OptimalSearch()),
}
