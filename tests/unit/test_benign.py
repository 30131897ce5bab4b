"""The benign panel: harmless sessions for each image, the same each time, shown to the detector
alone, and counted."""

from __future__ import annotations

import sys

import pytest
import torch

import tollbox as tb
from tollbox import testing
from tollbox.core.detector import BenignStats, Sessions
from tollbox.detection import KINDS, WALK_SIZE, benign_panel
from tollbox.studies.store.record import from_json

IMAGES = torch.rand(3, 3, 12, 10, generator=torch.Generator().manual_seed(1))
QUERIES = 6
"""Of a session: the image, and what was made of it."""


def no_model(images):
    raise AssertionError("the model was asked")


class Witness:
    """Alarms on the last query of each session, and keeps what it was shown."""

    def __init__(self):
        self.shown = []

    def begin(self, image):
        def session(rows):
            self.shown.append(rows.clone())
            return torch.arange(len(rows)) == len(rows) - 1

        return session


def model(**options):
    return tb.models.from_callable(no_model, **options)


def test_each_image_has_a_session_of_each_kind_and_no_model_is_asked():
    witness = Witness()
    panel = benign_panel(witness, IMAGES, model())
    assert list(panel.kinds) == ["recompressed", "cropped", "brightened", "walk"]
    assert set(panel.kinds.values()) == {Sessions(3, 3, 3 * QUERIES, 3)}
    assert (panel.all.rate, panel.all.per_query) == (1.0, 1 / QUERIES)
    assert len(witness.shown) == 3 * len(KINDS)
    for number, rows in enumerate(witness.shown):
        assert rows.shape == (QUERIES, *IMAGES.shape[1:])
        assert torch.equal(rows[0], IMAGES[number // len(KINDS)])
        assert rows.min() >= 0
        assert rows.max() <= 1
        assert len({tuple(row.flatten().tolist()) for row in rows}) == QUERIES  # all are different


def test_queries_are_as_the_model_would_be_sent_them_and_the_same_each_time():
    one, other, third = Witness(), Witness(), Witness()
    benign_panel(one, IMAGES, model(quantize=8))
    benign_panel(other, IMAGES.flip(0), model(quantize=8))
    benign_panel(third, IMAGES, model(quantize=8), seed=5)
    for rows in one.shown:
        assert torch.allclose(rows * 255, (rows * 255).round(), atol=1e-4)
    count = len(KINDS)
    assert all(map(torch.equal, one.shown[:count], other.shown[-count:]))
    assert not torch.equal(one.shown[3], third.shown[3])  # a walk
    assert torch.equal(one.shown[2], third.shown[2])  # brightened: nothing is drawn


def test_small_steps_are_told_from_large_ones():
    """A walk moves by 0.01 * sqrt(d) each time, and a brighter copy much farther."""
    step = WALK_SIZE * IMAGES[0].numel() ** 0.5
    panel = benign_panel(testing.NearDuplicates(1.3 * step, window=1), IMAGES, model())
    assert panel.kinds["walk"] == Sessions(3, 3, 3 * QUERIES, 3 * (QUERIES - 1))
    assert panel.kinds["brightened"].alarms == 0
    assert f"{panel.all.rate:.1%} of 12 benign sessions raise an alarm" in panel.sentence
    assert "walk 100%" in panel.sentence


def test_what_there_is_not_is_told(monkeypatch):
    four = benign_panel(Witness(), IMAGES[:1].repeat(1, 2, 1, 1)[:, :4], model())
    assert "recompressed" not in four.kinds
    assert "No session is recompressed: JPEG does not support 4 channels." in four.sentence
    monkeypatch.setattr(tb.detection, "find_spec", lambda name: None)
    bare = benign_panel(Witness(), IMAGES, model())
    assert "recompressed" not in bare.kinds
    assert bare.all.sessions == 9
    assert "Pillow is not installed (pip install 'tollbox[cli]')." in bare.sentence
    assert "PIL" in sys.modules  # it was not missed in earnest


class Fails:
    def begin(self, image):
        raise ValueError("no")


def test_a_detector_that_fails_is_told():
    panel = benign_panel(Fails(), IMAGES, model())
    said, place = panel.sentence.split(" (")
    assert said == (
        "There are no benign sessions to compare with. The detector failed on it: ValueError: no"
    )
    assert place.startswith("test_benign.py:")


def test_results_have_the_panel_where_there_is_one_detector():
    boundary = testing.half_space(0.3)
    near = testing.NearDuplicates(0.5)
    cell = tb.attack.Cell(
        tb.preset("surfree"), boundary.source, 0, limits=tb.Limits(60), detection=tb.Detection(near)
    )
    results = tb.attack.run_cells([cell], boundary.model())
    assert results.benign.all.sessions == len(KINDS)
    assert results[:1].benign == results.counted.benign == results.benign
    said = f"{results.alarms:,} alarms at 1 images (benign sessions: {results.benign.all.rate:.1%})"
    assert said in repr(results)
    both = tb.attack.run_cells(
        [cell, tb.attack.Cell(cell.attack, cell.image, 0, limits=tb.Limits(60))], boundary.model()
    )
    assert both.benign is None
    assert "(benign sessions: not known)" in repr(both)
    assert tb.attack.run_cells([], boundary.model()).benign is None


def test_a_panel_is_read_as_it_was_written():
    panel = BenignStats({"walk": Sessions(3, 1, 18, 2)}, ("nothing else",))
    kinds = {name: vars(one) for name, one in panel.kinds.items()}
    assert from_json(BenignStats, {"kinds": kinds, "missing": ["nothing else"]}) == panel
    with pytest.raises(KeyError):
        from_json(BenignStats, {"kinds": {"walk": {"steps": 3}}, "missing": []})
