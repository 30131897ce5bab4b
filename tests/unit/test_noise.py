"""Noise: a function of key, row and column; standard normal to what its table promises."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

import tollbox as tb
from tollbox.core import noise
from tollbox.core.noise import BINS, Noise, quantiles

WIDTH = 1000


def stream(key: str = "0/abc/estimate/1", width: int = WIDTH, dtype=torch.float64) -> Noise:
    return Noise(key, 1 << 20, (width,), torch.empty(0, dtype=dtype))


def test_a_number_is_a_function_of_its_key_row_and_column(monkeypatch):
    """Whatever slice it is asked in, however wide its row is, and in pieces of any size."""
    whole = stream()[0:64]
    assert torch.equal(stream()[17:23], whole[17:23])
    assert torch.equal(stream(width=10)[3:5], whole[3:5, :10])
    monkeypatch.setattr(noise, "AT_ONCE", 2500)
    assert torch.equal(stream()[0:64], whole)


def test_its_numbers_are_known():
    """A study that is resumed elsewhere meets the same ones: they were written down once."""
    assert noise.NOISE_VERSION == 2
    wanted = [
        [-1.2839947938919067, 0.25305846333503723, -1.2927308082580566],
        [-1.7079538106918335, 2.0941691398620605, -0.7606964707374573],
    ]
    assert stream(width=3, dtype=torch.float32)[0:2].tolist() == wanted


def test_float32_rounds_the_same_numbers():
    """A product and a sum, each rounded once: within two roundings of the largest."""
    apart = stream(dtype=torch.float32)[0:200].double() - stream()[0:200]
    assert apart.abs().max() < 2 * 4.7 * torch.finfo(torch.float32).eps


def test_rows_keep_their_shape_and_device():
    rows = Noise("k", 5, (2, 3, 4), torch.empty(0))[1:9]
    assert rows.shape == (4, 2, 3, 4)
    assert rows.dtype == torch.float32


def test_the_line_in_a_bin_leaves_the_moments():
    """By integration over the bins: variance 1 + 4e-6, kurtosis 3 + 7e-6, as the file says."""
    low, high = quantiles()[:-1], quantiles()[1:]

    def moment(order: int) -> float:
        whole = (high ** (order + 1) - low ** (order + 1)) / (order + 1)
        return float(np.mean(whole / (high - low)))

    assert abs(moment(1)) < 1e-12
    assert abs(moment(2) - 1) < 5e-6
    assert abs(moment(4) / moment(2) ** 2 - 3) < 1e-5
    assert 4.6 < quantiles()[-1] < 4.62
    assert (np.diff(quantiles()) > 0).all()
    assert len(low) == BINS


def test_the_distribution_is_normal():
    """Two million numbers: a Kolmogorov-Smirnov distance of 0.0016 is seen with probability .99 at
    the level 1e-4 (a variance of 1.008, or a mean of 0.004)."""
    numbers = stream()[0:2000].numpy()
    assert stats.kstest(numbers.ravel(), "norm").pvalue > 1e-4
    # lengths of rows and of columns: what correlations among many would change
    assert stats.kstest((numbers**2).sum(1), "chi2", (WIDTH,)).pvalue > 1e-4
    assert stats.kstest((numbers**2).sum(0), "chi2", (2000,)).pvalue > 1e-4


def test_rows_columns_and_streams_are_unrelated():
    """Each correlation of n pairs has a standard deviation of 1/sqrt(n). Of 45 000 pairs of rows
    the largest is beyond 5.5 of them with probability 2e-3; the single ones beyond 5, 6e-7."""
    numbers = stream()[0:2000].numpy()
    for rows, size in ((numbers[:300], WIDTH), (numbers.T[:300], 2000)):
        apart = np.corrcoef(rows) - np.eye(300)
        assert np.abs(apart).max() * math.sqrt(size) < 5.5
    others = [stream(key)[0:2000].numpy() for key in ("0/abc/estimate/2", "1/abc/estimate/1")]
    others += [numbers[::-1], numbers[:, ::-1]]
    for other in others:
        assert abs((numbers * other).mean()) * math.sqrt(numbers.size) < 5
    for near, far in ((numbers[1:], numbers[:-1]), (numbers[:, 1:], numbers[:, :-1])):
        assert abs((near * far).mean()) * math.sqrt(near.size) < 5
        assert abs((near**2 * far**2).mean() - 1) * math.sqrt(near.size) / math.sqrt(8) < 5


def test_every_bit_of_a_place_and_a_bin_is_even():
    """Of a million hashes each of 32 bits is set half of the time, and with each other bit a
    quarter: standard deviations of 0.0005 and 0.00043; five of them for 32 and six for 496."""
    firsts, steps = (torch.from_numpy(part) for part in noise._bins(torch.float64))
    numbers = stream()[0:1000].flatten()
    bins = torch.bucketize(numbers, firsts - steps / 2, right=True) - 1
    places = ((numbers - firsts[bins]) / steps[bins]).round().long()
    assert int(places.min()) >= 0
    assert int(places.max()) < BINS
    values = (bins * BINS + places).numpy()
    bits = ((values[:, None] >> np.arange(32)) & 1).astype(float)
    assert np.abs(bits.mean(0) - 0.5).max() < 5 * 0.0005
    both = bits.T @ bits / len(bits) - 0.25
    assert np.abs(both[~np.eye(32, dtype=bool)]).max() < 6 * 0.00061


@pytest.mark.parametrize("change", [{"seed": 1}, {"content": "other"}])
def test_seed_and_content_are_in_the_key(change):
    source = torch.zeros(1, 4, 4)
    base = tb.attack.Problem(source, 0).noise("estimate", 1, 8)[0:8]
    assert torch.equal(tb.attack.Problem(source, 0).noise("estimate", 1, 8)[0:8], base)
    assert not torch.equal(
        tb.attack.Problem(source, 0, **change).noise("estimate", 1, 8)[0:8], base
    )
    assert not torch.equal(tb.attack.Problem(source, 0).noise("estimate", 2, 8)[0:8], base)
    assert not torch.equal(tb.attack.Problem(source, 0).noise("start", 1, 8)[0:8], base)
