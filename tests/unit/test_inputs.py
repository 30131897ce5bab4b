"""What a caller may get wrong: each is refused before the first query, in one clear sentence."""

from __future__ import annotations

import inspect
import math
from dataclasses import replace

import pytest
import torch
from options import grouped

import tollbox as tb
from tollbox.errors import InputError
from tollbox.parts.searches import AsymmetricSearch
from tollbox.parts.starts import Pool

IMAGES = torch.full((2, 1, 4, 4), 0.5)


def never(images):
    raise AssertionError("no query may be made")


MODEL = tb.models.from_callable(never, classes=10)


def run(**changes):
    call = {
        "attack": tb.preset("hsja"),
        "model": MODEL,
        "images": IMAGES,
        "labels": [0, 1],
        "budget": 100,
        **changes,
    }
    inputs = [call.pop(name) for name in ("attack", "model", "images", "labels")]
    return tb.run(*inputs, **(call if "limits" in changes else grouped(call)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": 0.5}, "^budget is 0.5: expected at least 1"),
        ({"budget": math.nan}, "^budget is nan"),
        ({"budget": math.inf}, "neither budget nor max_queries"),
        ({"max_queries": 0}, "max_queries is 0: expected a whole number of 1 or"),
        ({"max_queries": 10.5}, "max_queries is 10.5: expected a whole number"),
        ({"max_queries": math.nan}, "max_queries is nan"),
        ({"max_flagged": 0}, "max_flagged is 0: expected a whole number of 1 or"),
        ({"max_flagged": "3"}, "max_flagged is '3': expected a whole number"),
        (
            {"budget": math.inf, "max_flagged": 9},
            "neither budget nor max_queries .*; max_flagged alone may never end the run",
        ),
        ({"budget": None}, "^budget is None: expected a number"),
        ({"prices": 100}, "prices is 100: expected tb.Prices"),
        ({"check": True, "metered": True}, "check and metered are both set"),
        ({"prices": tb.Prices.flagged_only()}, "some answers are free .* expected max_queries"),
        ({"prices": tb.Prices(200, 1)}, "^budget is 100: expected at least 200"),
        ({"images": IMAGES[:0], "labels": []}, "there are no images"),
        ({"images": IMAGES[0]}, r"shape \(1, 4, 4\): expected \(n, c, h, w\)"),
        ({"images": IMAGES * 510}, r"image 0 has values from 255 to 255.*; divide by 255\?$"),
        ({"images": IMAGES - 0.6}, r"image 0 has values from -0.1"),
        ({"images": IMAGES * math.nan}, "image 0 has values that are not finite"),
        ({"images": (IMAGES * 255).byte()}, "image 0 is torch.uint8.*divide by 255"),
        ({"images": [IMAGES[0], IMAGES[1, :, :2]]}, r"image 1 has shape \(1, 2, 4\)"),
        ({"images": [IMAGES[0], "cat.png"]}, "image 1 is a str: expected a tensor"),
        ({"labels": [0]}, "got 1 labels but more images"),
        ({"labels": [0, 1, 2]}, "got 2 images but more labels"),
        ({"labels": [0, 10]}, "the label of image 1 is 10: expected 0 to 9"),
        ({"labels": [0, -1]}, "the label of image 1 is -1"),
        ({"labels": [0, 0.5]}, "the label of image 1 is 0.5: expected an integer"),
        ({"labels": torch.tensor([0.0, 1.0])}, "the label of image 0 is 0.0: expected an integer"),
        ({"labels": [True, False]}, "the label of image 0 is True: expected an integer"),
        ({"labels": torch.tensor([True, True])}, "the label of image 0 is True: expected an int"),
        ({"labels": torch.zeros(2, device="meta")}, "^labels is a tensor on the meta device"),
        (
            {"images": IMAGES.to_sparse()},
            r"^images is a tensor with layout torch\.sparse_coo: expected a den",
        ),
        (
            {"images": [IMAGES[0].to("meta")] * 2},
            "^image 0 is a tensor on the meta device, without",
        ),
        (
            {"mask": torch.ones(4, 4).bool().to_sparse()},
            "^mask is a tensor with layout torch.sparse_coo",
        ),
        ({"labels": 3}, "labels is 3: expected one label per image"),
        ({"targets": [5]}, "got 1 targets but more images: expected one target per image"),
        ({"targets": [5, 6, 7]}, "got 2 images but more targets: expected one target per"),
        ({"targets": [5, 1], "starts": IMAGES}, "the target of image 1 is its source class, 1"),
        ({"targets": 0}, "the target of image 0 is its source class, 0"),
        ({"targets": [5, 10], "starts": IMAGES}, "the target of image 1 is 10: expected 0 to 9"),
        ({"targets": 5}, "^targets is 5, but starts is not given: expected an image of that class"),
        ({"targets": -1}, "the target of image 0 is -1: expected 0 to 9"),
        ({"targets": 2.5}, "the target of image 0 is 2.5: expected an integer"),
        ({"targets": True}, "the target of image 0 is True: expected an integer"),
        ({"targets": torch.tensor([5.0, 6.0])}, "the target of image 0 is 5.0: expected an int"),
        ({"targets": [5, None]}, "the target of image 1 is None: expected one for each image"),
        ({"starts": [IMAGES[0], None]}, "the start of image 1 is None: expected one for each"),
        ({"starts": IMAGES[:1]}, "got 1 starts but more images: expected one start per"),
        ({"starts": [*IMAGES, IMAGES[0]]}, "got 2 images but more starts"),
        ({"starts": IMAGES[0, 0]}, r"starts has shape \(4, 4\): expected \(n, c, h, w\), or"),
        ({"starts": 3}, "starts is 3: expected images, as tensors"),
        ({"starts": ["a.png", "b.png"]}, "the start of image 0 is a str: expected a tensor"),
        (
            {"starts": IMAGES[:, :, :2]},
            r"the start of image 0 has shape \(1, 2, 4\): expected that",
        ),
        (
            {"starts": IMAGES[0, :, :2]},
            r"the start of image 0 has shape \(1, 2, 4\): expected that",
        ),
        ({"starts": IMAGES[0] * 510}, r"the start of image 0 has values .*; divide by 255\?"),
        ({"starts": [IMAGES[0], IMAGES[1] * math.nan]}, "the start of image 1 has values that are"),
        ({"starts": (IMAGES * 255).byte()}, "the start of image 0 is torch.uint8.*divide by 255"),
        ({"attack": "hjsa"}, "unknown preset 'hjsa': did you mean 'hsja'"),
        ({"budget": math.inf, "limits": 5}, r"^limits is 5: expected tb.Limits\(...\)"),
        ({"detection": 5}, r"^detection is 5: expected tb.Detection\(...\)"),
        ({"limits": tb.Limits(9)}, "^budget is 100, and limits has a budget of 9: expected one of"),
        ({"execution": 5}, r"^execution is 5: expected tb.Execution\(...\)"),
        ({"model": torch.nn.Linear(2, 2)}, "bare torch network .Linear.*from_torch"),
        ({"model": 3}, "^model is 3: expected a callable"),
        ({"batch_size": 0}, "batch_size is 0"),
        (
            {"batch_size": 10**9},
            "batch_size is 1000000000: expected a whole number from 1 to",
        ),
        (
            {"prices": tb.Prices(1e308, 1), "budget": math.inf, "max_queries": 100},
            "more than a float can hold",
        ),
        ({"live": 0}, "live is 0"),
        ({"seed": 1.5}, "^seed is 1.5: expected a whole number"),
        ({"seed": -1}, "^seed is -1: expected a whole number from 0 to"),
        ({"seed": None}, "^seed is None: expected a whole number"),
        ({"batch_size": 2.5}, "^batch_size is 2.5: expected a whole number from 1 to 65536"),
        ({"batch_size": True}, "^batch_size is True: expected a whole number"),
        ({"charge_clean": torch.zeros(2)}, "^charge_clean is .*: expected True or False"),
        ({"progress": 3}, "^progress is 3: expected a function"),
        ({"targets": 99}, "the target of image 0 is 99: expected 0 to 9"),
        (
            {"prices": tb.Prices.per_class({300: 5})},
            "^prices has a price for class 300, but the model has 10 classes: expected 0 to 9",
        ),
        ({"time_limit": 0}, "time_limit is 0"),
        ({"time_limit": "8"}, "^time_limit is '8': expected a time, such as .*; write 8s for sec"),
    ],
)
def test_a_wrong_call_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        run(**changes)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tb.Prices(-1, 1), "the source price is -1: expected"),
        (lambda: tb.Prices(math.nan, 1), "the source price is nan"),
        (lambda: tb.Prices(math.inf, 1), r"flagged_only\(\)"),
        (lambda: tb.Prices("dear", 1), "the source price is 'dear': expected a finite number"),
        (lambda: tb.Prices("3"), "the source price is '3': expected a finite number"),
        (lambda: tb.Prices(True), "the source price is True: expected a finite number"),
        (lambda: tb.Prices(1, 10**400), "the price of other answers is int: expected"),
        (
            lambda: tb.Prices.per_class({"cat": 3}),
            "a price is set for class 'cat': expected classes as",
        ),
        (
            lambda: tb.Prices.per_class({1.5: 3}),
            "a price is set for class 1.5: expected classes as whole",
        ),
        (
            lambda: tb.Prices.per_class({-1: 3}),
            "a price is set for class -1: expected classes as whole",
        ),
        (lambda: tb.Prices.per_class([3]), r"the prices per class are \[3\]: expected a mapping"),
        (lambda: tb.Prices(0, 0), "all prices are 0"),
        (lambda: tb.Prices.per_class({3: -2}), "the price of class 3 is -2"),
        (lambda: tb.Prices.per_class({3: 0}, default=0), "all prices are 0"),
        (lambda: tb.preset("a-hjsa"), "unknown preset 'a-hjsa': did you mean 'a-hsja'"),
        (lambda: tb.preset("zzzz"), "no name is similar. Known: a-adba, a-aha, a-boundary"),
        (lambda: tb.preset(None), "name is None: expected the name of a preset"),
        (lambda: tb.preset(3), "name is 3: expected the name of a preset"),
        (lambda: tb.models.from_torch(3), "network is 3: expected a network .*from_callable"),
        (lambda: tb.models.embedded(device="mps"), "device is 'mps', which this .*expected cpu"),
        (lambda: tb.models.from_callable(never, quantize=0), "quantize is 0"),
        (lambda: tb.models.from_callable(never, dtype=torch.uint8), "dtype is torch.uint8"),
        (lambda: tb.models.from_torch(torch.nn.Identity(), std=[0.0]), "std is 0: expected"),
        (
            lambda: tb.attack.Engine(
                tb.models.from_callable(never, batch=4), execution=tb.Execution(batch_size=8)
            ),
            "batch_size is 8: expected 4, the only",
        ),
        (
            lambda: tb.attack.Engine(
                tb.models.from_callable(never, batch=4), execution=tb.Execution(metered=True)
            ),
            "padding would",
        ),
    ],
)
def test_a_wrong_argument_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_target_must_differ_from_the_source():
    cell = tb.attack.Cell(tb.preset("hsja"), IMAGES[0], 3, limits=tb.Limits(10), target=3)
    with pytest.raises(InputError, match="the target of image 0 is its source class, 3"):
        tb.attack.run_cells([cell], MODEL)


NETWORK = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 10)).eval()


@pytest.mark.parametrize("function", [tb.run, lambda *a, **b: list(tb.stream(*a, **b))])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": [50, 51]}, "the label of image 0 is 50: expected 0 to 9"),
        ({"targets": 99, "starts": IMAGES}, "the target of image 0 is 99: expected 0 to 9"),
        ({"goal": tb.Goal.leave({99})}, "flagged has class 99, but the model has 10 classes"),
        (
            {"images": torch.zeros(2, 1, 5, 4)},
            r"^model failed on a batch of 1 of the given images, of shape \(1, 5, 4\) \(Runtime",
        ),
    ],
)
def test_a_network_is_tried_on_an_image_first(function, changes, message):
    """Its number of classes need not be given."""
    given = {"images": IMAGES, "labels": [0, 1], "budget": 9, **changes}
    with pytest.raises(InputError, match=message):
        function("hsja", tb.models.from_torch(NETWORK), **given)


def test_a_target_is_found_among_images_of_it():
    attack = replace(tb.preset("hsja"), start=Pool(IMAGES, torch.tensor([5, 5])))
    assert len(run(attack=attack, targets=5)) == 2
    with pytest.raises(InputError, match="targets is 5, but starts is not given"):
        run(attack="rays-l2", targets=5)


def test_times_have_units_or_are_seconds():
    for given, seconds in {"90s": 90, " 1H30m ": 5400, "0.5h": 1800, 8: 8, "inf": math.inf}.items():
        assert tb.Execution(time_limit=given).time_limit == seconds
    for given in ("", "8", "m", "1m1h", "-5s", "0s", "1e3s", "nan", "8 m 3"):
        with pytest.raises(InputError, match="expected a time, such as 90s, 8m or 1h30m"):
            tb.Execution(time_limit=given)


def test_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'batchsize'"):
        run(batchsize=3)


@pytest.mark.parametrize("function", [tb.run, tb.stream, tb.attack.run_cells])
def test_an_unknown_option_is_told_the_nearest(function):
    with pytest.raises(TypeError) as refusal:
        function(batchsize=3)
    assert str(refusal.value) == (
        f"{function.__name__}() got an unexpected keyword argument 'batchsize': "
        "did you mean execution=tb.Execution(batch_size=...)?"
    )
    with pytest.raises(TypeError, match=r"'zzz'; it has .*execution"):
        function(zzz=3)


@pytest.mark.parametrize("function", [tb.run, tb.stream, tb.attack.run_cells])
def test_the_options_stand_in_the_signature(function):
    names = set(inspect.signature(function).parameters)
    image = {"prices", "budget", "limits", "detection", "seed", "charge_clean", "targets", "starts"}
    common = {"execution", "progress"}
    assert names >= common | (set() if function is tb.attack.run_cells else image)
    assert "options" not in names


def test_errors_say_which_argument_is_wrong():
    with pytest.raises(InputError) as raised:
        run(budget=0.5)
    error = raised.value
    assert (error.input, error.given) == ("budget", "is 0.5")
    assert error.sentence(lambda name: f"--{name}").startswith("--budget is 0.5: expected")
    with pytest.raises(InputError) as raised:
        run(budget=math.inf)
    assert raised.value.sentence(str.upper).startswith("neither BUDGET nor MAX_QUERIES is set")
    with pytest.raises(InputError) as raised:
        AsymmetricSearch(tau=0)
    assert raised.value.input == "tau"
