"""The metric: distances in it, who is refused, and cells of both in one batch."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import tollbox as tb
from tollbox.core.metric import Metric, check_made_for, metrics_of
from tollbox.errors import InputError
from tollbox.studies.specs import AttackSpec, ImagesSpec, ModelSpec, Tariff
from tollbox.studies.study import Study

GREY = torch.full((3, 4, 4), 0.5, dtype=torch.float64)
HEAD = """\
norm = "linf"
prices = [1]
budget = 10
images = {path = "set.npz"}
models = [{source = "a:b"}]
"""


@dataclass(frozen=True)
class Two:
    """Asks for two points: the first is nearer in linf, the second in l2."""

    def __call__(self, problem):
        flat, spike = torch.zeros_like(GREY) + 0.1, torch.zeros_like(GREY)
        spike[0, 0, 0] = 0.3
        answers = yield tb.attack.Ask(torch.stack([GREY + flat, GREY + spike]), phase="both")
        assert answers.adversarial.all()
        problem.accept(GREY + flat)  # a bare point: its distance is worked out by the engine
        return tb.Stop.CONVERGED


def everything_else(images):
    return (images.flatten(1) != 0.5).any(1).long()


def model():
    return tb.models.from_callable(everything_else, dtype=torch.float64, classes=2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_norms_are_those_of_numpy_whatever_is_beside_a_row(dtype):
    rows = torch.randn(5, 3, 7, 6, generator=torch.Generator().manual_seed(0)).to(dtype)
    flat = rows.double().flatten(1).numpy()
    for metric, order in ((Metric.L2, 2), (Metric.LINF, np.inf)):
        found = metric.norms(rows)
        assert found.dtype == torch.float64
        assert found.tolist() == pytest.approx(np.linalg.norm(flat, order, 1), rel=1e-6)
        assert [metric.norms(row[None]).item() for row in rows] == found.tolist()
        rows_with_nan = rows.clone()
        rows_with_nan[2, 1, 3, 3] = math.nan
        assert [math.isnan(d) for d in metric.norms(rows_with_nan)] == [False, False, True] + [
            False
        ] * 2


def test_cells_of_both_metrics_share_a_batch_and_keep_the_nearest_in_their_own():
    norms = ["l2", "linf", "linf", "l2", tb.attack.Metric.LINF]
    cells = [tb.attack.Cell(Two(), GREY, 0, limits=tb.Limits(9), norm=norm) for norm in norms]
    results = tb.attack.run_cells(cells, model(), execution=tb.Execution(batch_size=64))
    for norm, result in zip(norms, results, strict=True):
        spike = result.adversarial[0, 0, 0] > 0.7
        assert (result.norm, bool(spike)) == (norm, norm == "l2")
        wanted = {"l2": 0.3, "linf": 0.1}[norm]
        assert result.distance == pytest.approx(wanted, rel=1e-12)
        step = {"l2": 0.1 * math.sqrt(48), "linf": 0.1}[norm]
        assert result.trace[0].distance == pytest.approx(step, rel=1e-12)
        assert f"{norm} {wanted}" in repr(result)
        [alone] = tb.attack.run_cells(
            [tb.attack.Cell(Two(), GREY, 0, limits=tb.Limits(9), norm=norm)], model()
        )
        assert alone.distance == result.distance
    assert "median" not in repr(results)
    with pytest.raises(InputError, match=r"^these results are in several metrics: expected one;"):
        results.median_at(9)
    assert repr(results[1:3]).count("median linf 0.1") == 1


def test_run_and_stream_take_a_norm():
    [one] = tb.run(Two(), model(), GREY[None], [0], budget=9, norm="linf")
    [two] = tb.stream(Two(), model(), GREY[None], [0], budget=9, norm="linf")
    assert one.distance == two.distance == pytest.approx(0.1)
    assert tb.run(Two(), model(), GREY[None], [0], budget=9)[0].norm is Metric.L2


@pytest.mark.parametrize("norm", ["l1", 2, None, "L2"])
def test_another_norm_is_refused(norm):
    with pytest.raises(InputError, match=r"^norm is .*: expected 'l2' or 'linf'\.$"):
        tb.run(Two(), model(), GREY[None], [0], budget=9, norm=norm)
    with pytest.raises(InputError, match=r"^norm is .*: expected 'l2' or 'linf'\.$"):
        tb.attack.run_cells(
            [tb.attack.Cell(Two(), GREY, 0, limits=tb.Limits(9), norm=norm)], model()
        )


def test_every_preset_is_made_for_one_metric_and_refuses_the_other_before_a_query():
    for name in tb.presets():
        [metric] = metrics_of(tb.preset(name))
        [other] = set(Metric) - {metric}
        assert name in tb.presets(metric)
        assert name not in tb.presets(other)
        asked = []
        counted = tb.models.from_callable(asked.append, classes=2)
        with pytest.raises(InputError) as error:
            tb.run(tb.preset(name), counted, GREY[None], [0], budget=9, norm=other)
        kind = type(tb.preset(name)).__name__
        assert str(error.value) == (
            f"norm is {other}, but {kind} as given supports {metric}: expected {metric}, or "
            "another attack."
        )
        assert not asked


def test_with_a_surrogate_it_is_refused_too():
    attack = tb.preset("frugal+surrogate", surrogate=torch.nn.Flatten())
    with pytest.raises(InputError, match=r"^norm is linf, but Frugal as given supports l2:"):
        tb.run(attack, model(), GREY[None], [0], budget=9, norm="linf")


def test_an_attack_says_what_it_is_made_for_or_runs_in_any():
    assert metrics_of(Two()) == (Metric.L2, Metric.LINF)

    class Said(Two):
        metrics = ("linf",)

    assert metrics_of(Said()) == (Metric.LINF,)
    check_made_for(Said(), Metric.LINF)
    for wrong in ((), ("l1",), "linf", ["linf"]):
        Said.metrics = wrong
        with pytest.raises(InputError, match=r"^attack has metrics = .*: expected some of 'l2'"):
            metrics_of(Said())


# -- studies --------------------------------------------------------------------------------------


def read(text):
    return Study.from_text(text, Path(), "study.toml", files=False)


def test_a_study_file_has_a_norm_for_all_of_it():
    assert read(f'{HEAD}attacks = [{{preset = "rays"}}]').norm is Metric.LINF
    with pytest.raises(InputError, match=r"^study.toml, line 1: the attack 'hsja': norm is linf,"):
        read(f'{HEAD}attacks = [{{preset = "rays"}}, {{preset = "hsja"}}]')
    with pytest.raises(InputError, match=r"^study.toml: the attack 'rays': norm is l2,"):
        read(f'{HEAD}attacks = [{{preset = "rays"}}]'.removeprefix('norm = "linf"\n'))
    with pytest.raises(InputError, match=r"^study.toml, line 1: norm is 'l3': expected l2 or linf"):
        read(f'{HEAD}attacks = [{{preset = "rays"}}]'.replace("linf", "l3"))


def test_a_study_made_in_memory_writes_its_norm_unless_it_is_l2():
    def made(preset, norm):
        return Study(
            name="both",
            images=ImagesSpec(Path("set.npz")),
            models=[ModelSpec.of("a:b")],
            attacks=[AttackSpec.of(preset)],
            tariffs=[Tariff.of(1, budget=9)],
            norm=norm,
        )

    assert "norm" not in made("hsja", "l2").text
    study = made("rays", "linf")
    assert read(study.text).norm is study.norm is Metric.LINF
    with pytest.raises(InputError, match=r"^norm is l2, but RayS as given"):
        made("rays", "l2")
