"""Study files: what they mean; every mistake is told with the file, the line, the key, a remedy."""

import dataclasses
import hashlib
import math
import os
import pickle
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import nn

import tollbox as tb
from tollbox.attacks.frugal.attack import Frugal
from tollbox.core.limits import Limits
from tollbox.core.model import Model
from tollbox.core.noise import content_hash
from tollbox.data.images import ImageSet, load_images
from tollbox.errors import FileError, InputError
from tollbox.studies.images import images_digest
from tollbox.studies.inputs import StudyInputs, load
from tollbox.studies.specs import AttackSpec, GoalSpec, ImagesSpec, ModelSpec, SurrogateSpec, Tariff
from tollbox.studies.study import Study
from tollbox.studies.toml import line_of

BASE = """\
name = "small"
budget = 5000
max_queries = 900
prices = [2, 100, inf]
seeds = [0, 7]
device = "cpu"

[images]
path = "set.npz"
limit = 2
list = "images.txt"

[goal]
target = 5
start = "start.png"

[[models]]
source = "net.pt2"
mean = [0.5, 0.4, 0.3]
std = 0.25
quantize = 8
[[models]]
source = "bright:labels"

[[attacks]]
preset = "a-cgba"
name = "fine"
search.tau = 1e-3
[[attacks]]
preset = "cgba"
"""
MODEL = "def labels(images):\n    return (images.mean((1, 2, 3)) > 0.48).long()\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with all that BASE names."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (4, 3, 4, 5), np.uint8)
    np.savez(tmp_path / "set.npz", images=images, labels=[3, 1, 4, 1])
    (tmp_path / "pictures").mkdir()
    for i, image in enumerate(images):
        Image.fromarray(image.transpose(1, 2, 0)).save(tmp_path / "pictures" / f"{i}.png")
    rows = "".join(f"{i}.png,{label}\n" for i, label in enumerate([3, 1, 4, 1]))
    (tmp_path / "labels.csv").write_text(f"file,label\n{rows}")
    hashes = [content_hash(image) for image in load_images(tmp_path / "set.npz").images]
    lines = [f"# chosen\n\n{hashes[3].upper()}\tpicture 3\n", f"  {hashes[0]} # and 0\n", hashes[2]]
    (tmp_path / "images.txt").write_text("".join(lines))
    (tmp_path / "start.png").write_bytes(b"")
    (tmp_path / "net.pt2").write_bytes(b"")
    (tmp_path / "bright.py").write_text(MODEL)
    (tmp_path / "prices.csv").write_text("class,price\n3,20\ndefault,1\n")
    (tmp_path / "free.csv").write_text("class,price\n3,20\ndefault,0\n")
    (tmp_path / "wrong.csv").write_text("class,price\n3,lots\n")
    return tmp_path


def images_of(study: Study) -> ImageSet:
    """The images that a study names."""
    return load(dataclasses.replace(study, goal=GoalSpec())).images


def model_of(study: Study, number: int, example: torch.Tensor) -> Model:
    """One of the models of a study, for images like `example`."""
    images = ImageSet(example[None], (0,), ("0",), ("",))
    inputs = StudyInputs(study, images, [None], [None], torch.device("cpu"), {})
    return inputs.model(study.models[number])


def written(folder: Path, text: str | bytes) -> Path:
    file = folder / "study.toml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def base(*changes: tuple[str, str]) -> str:
    """BASE with some of its text replaced, which must be there, once."""
    text = BASE
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def hashes_of(file: Path) -> list[str]:
    return [content_hash(image) for image in load_images(file).images]


# -- what a file means ----------------------------------------------------------------------------


def test_a_study_with_everything(folder: Path) -> None:
    file = written(folder, BASE)
    study = Study.from_toml(file)
    assert (study.text, study.where, study.folder) == (BASE, str(file), folder)
    assert study.name == "small"
    assert study.images == ImagesSpec(
        folder / "set.npz", None, 2, listed=folder / "images.txt", digest=None
    )
    assert study.goal == GoalSpec(5, folder / "start.png")
    assert study.seeds == (0, 7)
    assert study.models == (
        ModelSpec(
            name="net",
            source="net.pt2",
            resolved=str(folder / "net.pt2"),
            mean=(0.5, 0.4, 0.3),
            std=(0.25,),
            quantize=8,
        ),
        ModelSpec(name="labels", source="bright:labels", resolved="bright:labels"),
    )
    assert [(a.name, a.preset, a.overrides) for a in study.attacks] == [
        ("fine", "a-cgba", {"search": {"tau": 1e-3}}),
        ("cgba", "cgba", {}),
    ]
    assert study.attacks[1].attack == tb.preset("cgba")
    assert [t.name for t in study.tariffs] == ["2", "100", "inf"]
    assert [t.prices for t in study.tariffs] == [
        tb.Prices(source=2),
        tb.Prices(source=100),
        tb.Prices.flagged_only(),
    ]
    assert {t.limits for t in study.tariffs} == {Limits(5000, 900)}
    assert study.device == "cpu"
    assert pickle.loads(pickle.dumps(study)) == study
    assert Study.from_text(BASE, folder, str(file)) == study


def test_defaults(folder: Path) -> None:
    study = Study.from_toml(
        written(
            folder,
            'prices = [1]\nmax_queries = 10\nimages.path = "set.npz"\n'
            'models = [{source = "net.pt2"}]\nattacks = [{preset = "HSJA"}]\n',
        )
    )
    assert study.name == "study"
    assert study.seeds == (0,)
    assert study.goal == GoalSpec(None, None)
    assert (study.device, study.execution) == (None, tb.Execution())
    assert (study.charge_clean, study.keep_images) == (True, False)
    assert study.tariffs[0].limits == Limits(max_queries=10)
    assert (study.attacks[0].name, study.attacks[0].attack) == ("hsja", tb.preset("hsja"))
    assert study.images == ImagesSpec(folder / "set.npz")


def test_settings(folder: Path) -> None:
    given = "batch_size = 32\nworkers = 3\nmetered = true\none_shape = true\n"
    given += "charge_clean = false\nkeep_images = true\n"
    study = Study.from_toml(written(folder, given + BASE))
    options = {"batch_size": 32, "workers": 3, "metered": True, "one_shape": True}
    assert study.execution == tb.Execution(**options)
    assert (study.charge_clean, study.keep_images) == (False, True)
    both = "check and metered are both set: .* leave check out"
    with pytest.raises(FileError, match=rf"study\.toml, line 3: {both}"):
        Study.from_toml(written(folder, given + "check = true\n" + BASE))
    exact = Study.from_toml(written(folder, "exact = true\ncheck = true\n" + BASE))
    assert exact.execution == tb.Execution(exact=True, check=True)


def test_prices_with_limits_of_their_own(folder: Path) -> None:
    tables = """\
[[prices]]
ratio = 100
budget = 20000
max_queries = 1000
[[prices]]
ratio = 100
name = "uncapped"
max_queries = inf
max_flagged = 12
[[prices]]
ratio = "prices.csv"
[[prices]]
ratio = 0.5
budget = inf
"""
    study = Study.from_toml(written(folder, base(("prices = [2, 100, inf]\n", "")) + tables))
    assert [(t.name, t.limits.budget, t.limits.max_queries) for t in study.tariffs] == [
        ("100", 20000, 1000),
        ("uncapped", 5000, math.inf),
        ("prices", 5000, 900),
        ("0.5", math.inf, 900),
    ]
    assert [t.limits.max_flagged for t in study.tariffs] == [math.inf, 12, math.inf, math.inf]
    assert study.tariffs[2].prices == tb.Prices.per_class({3: 20.0}, 1.0)
    mixed = base(("prices = [2, 100, inf]", 'prices = [2, {ratio = 3, budget = 9}, "prices.csv"]'))
    study = Study.from_toml(written(folder, mixed))
    budgets = {t.name: t.limits.budget for t in study.tariffs}
    assert budgets == {"2": 5000, "3": 9, "prices": 5000}


def test_a_csv_whose_name_is_a_number(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "inf").write_text("class,price\n3,20\n")
    text = base(("prices = [2, 100, inf]", 'prices = ["./inf"]'))
    [tariff] = Study.from_text(text, Path(), "study.toml").tariffs
    assert tariff.prices == tb.Prices.per_class({3: 20.0}, 1.0)


def test_byte_order_mark_and_line_ends_of_windows(folder: Path) -> None:
    study = Study.from_toml(written(folder, b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode()))
    assert not study.text.startswith("\ufeff")
    assert study.name == "small"
    wrong = base(("limit = 2", "limit = 0")).replace("\n", "\r\n")
    with pytest.raises(FileError, match=r"study\.toml, line 10: images\.limit is 0"):
        Study.from_text("\ufeff" + wrong, folder, "study.toml")


def test_only_looked_at_nothing_need_be_there(tmp_path: Path) -> None:
    study = Study.from_toml(written(tmp_path, BASE), files=False)
    assert [model.resolved for model in study.models] == [
        str(tmp_path / "net.pt2"),
        "bright:labels",
    ]
    with pytest.raises(FileError, match=r"set\.npz does not exist"):
        Study.from_toml(tmp_path / "study.toml")


def test_absolute_paths_and_names_of_models(folder: Path, tmp_path_factory: Any) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "net.v2.pt2").write_bytes(b"")
    text = base(
        ('"net.pt2"', f'"{elsewhere}/net.v2.pt2"'),
        ('source = "bright:labels"', 'source = "bright:a.labels"\nname = "my own"'),
    )
    first, second = Study.from_toml(written(folder, text)).models
    assert (first.name, first.resolved) == ("net.v2", f"{elsewhere}/net.v2.pt2")
    assert (second.name, second.resolved) == ("my own", "bright:a.labels")


SETTINGS = "batch_size = 32\nworkers = 3\nmetered = true\none_shape = true\nkeep_images = true\n"


RUNNING = """\
dtype = "bfloat16"
channels_last = false
compile = true
cuda_graphs = true
tf32 = false
"""
SURROGATES = """[[attacks]]
preset = "frugal+surrogate"
surrogate = "bright:net"
tail = 0.5
[[attacks]]
preset = "frugal+surrogate"
name = "two"
surrogate = {source = ["net.pt2", "bright:net"], mean = [0.5, 0.4, 0.3], std = 0.25}
"""


@pytest.mark.parametrize("head", ["", f"{SETTINGS}charge_clean = false\n"])
def test_a_study_made_in_memory_is_read_again_from_its_text(folder: Path, head: str) -> None:
    text = base(
        ("prices = [2, 100, inf]", 'prices = [2, 0.3, inf, "prices.csv", {ratio = 3, name = "n"}]'),
        ("limit = 2\n", f'limit = 2\ndigest = "{"a" * 32}"\n'),
        ('name = "fine"', 'name = "\U0001f600 \\\\ \\" [x]"\nestimate.part = "Calibrated"'),
        ("search.tau = 1e-3", 'search = {tau = 1e-3, part = "LineSearch"}\nstart.levels = 7'),
        ("quantize = 8", RUNNING),
        ('"cgba"\n', f'"cgba"\n{SURROGATES}'),
    )
    study = Study.from_toml(written(folder, head + text))
    fields = {field.name: getattr(study, field.name) for field in dataclasses.fields(study)}
    del fields["text"], fields["in_memory"]
    made = Study(**fields)
    assert made.text != study.text
    assert made == dataclasses.replace(study, text=made.text)
    assert made.in_memory
    again = Study.from_text(made.text, folder, str(folder / "study.toml"))
    assert again == made
    assert not again.in_memory
    assert Study(**{**fields, "folder": Path("/elsewhere")}).images.path == folder / "set.npz"


def test_what_is_left_out_of_a_study_in_memory(folder: Path) -> None:
    made = Study(
        name="few",
        images=ImagesSpec(Path("set.npz")),
        models=[ModelSpec.of("net.pt2")],
        attacks=[AttackSpec.of("HSJA")],
        tariffs=[Tariff.of(100, budget=900)],
    )
    assert made.text == (
        'name = "few"\n\n[images]\npath = "set.npz"\n\n'
        '[[prices]]\nratio = 100.0\nname = "100"\nbudget = 900\n\n'
        '[[models]]\nsource = "net.pt2"\nname = "net"\n\n'
        '[[attacks]]\npreset = "hsja"\nname = "hsja"\n'
    )
    assert Study.from_text(made.text, Path(), made.where, files=False) == made
    with pytest.raises(InputError, match=r"^images set\.npz does not exist"):  # no line of a file
        images_of(made)


def test_what_no_text_can_hold_is_refused() -> None:
    parts: dict[str, Any] = {
        "name": "few",
        "images": ImagesSpec(Path("set.npz")),
        "models": [ModelSpec.of("net.pt2")],
        "attacks": [AttackSpec.of("hsja")],
    }
    odd = Tariff("odd", tb.Prices(source=2, other=3), Limits(900))
    with pytest.raises(InputError, match=r"the price 'odd' is .*: expected c\*, or prices from"):
        Study(**parts, tariffs=[odd])
    told = AttackSpec.of("frugal+surrogate", SurrogateSpec.of("bright:net"))
    own = dataclasses.replace(told, attack=Frugal(surrogate=tb.Surrogate(nn.Linear(2, 2))))
    with pytest.raises(InputError, match=r"'frugal\+surrogate' has a surrogate that is loaded alr"):
        Study(**parts | {"attacks": [own]}, tariffs=[Tariff.of(1, budget=9)])
    with pytest.raises(InputError, match="control characters"):
        Study(**parts | {"name": "a\x7fb"}, tariffs=[Tariff.of(1, budget=9)])


def test_limits_and_goals_are_checked_wherever_they_are_made() -> None:
    with pytest.raises(InputError, match="budget is 5: expected at least 100"):
        Tariff.of(100, budget=5)
    with pytest.raises(InputError, match="price is -1: expected a number that is 0 or more, inf"):
        Tariff.of(-1, budget=5)
    with pytest.raises(InputError, match="target is 3, but start is not given"):
        GoalSpec(3)


# -- mistakes -------------------------------------------------------------------------------------

PRICES = "prices = [2, 100, inf]"
CGBA = ('preset = "cgba"',)
TOLD = 'preset = "frugal+surrogate"\nsurrogate'
MISTAKES: list[tuple[str, str, int | None, list[str]]] = [
    # in BASE, what is replaced, by what; the line of the message; what else it says
    # syntax
    (PRICES, "prices = [2, oo]", 4, ["column 14: invalid value", "'prices = [2, oo]'", "quotes"]),
    ('"set.npz"', '"C:\\images"', 9, ["unescaped", "put a path with \\ in single quotes"]),
    ('"set.npz"', '"set.npz', 9, ["illegal character", "close the quotes"]),
    (
        "seeds = [0, 7]",
        "seeds = [0, 7",
        6,
        ["unclosed array", "close the list that is open here with ]"],
    ),
    ("seeds = [0, 7]", "seeds [0, 7]", 5, ["expected '='", "a line is key = value"]),
    ("seeds = [0, 7]", "budget = 3", 5, ["cannot overwrite a value", "give each key once"]),
    ("[goal]", "[images]", 13, ["cannot declare ('images',) twice", "open each table once"]),
    ("[goal]", "[[prices]]", 13, ["cannot mutate", "in one place"]),
    ("[goal]", "[goal", 13, ["expected ']'", "correct it there"]),
    # names
    ("seeds =", "seed =", 5, ["unknown key 'seed'", "did you mean 'seeds'"]),
    ("[goal]", "[gaol]", 13, ["unknown key 'gaol'", "'goal'"]),
    ("limit = 2", "limt = 2", 10, ["unknown key in [images] 'limt'", "did you mean 'limit'"]),
    ("target = 5", "targte = 5", 14, ["unknown key in [goal] 'targte'", "'target'"]),
    ("quantize = 8", "quantise = 8", 21, ["[[models]] number 1 'quantise'", "'quantize'"]),
    ("limit = 2", "workers = 2", 10, ["workers stands in [images]", "before the first [table]"]),
    ('name = "fine"', "budget = 3", 27, ["budget stands in [[attacks]] number 1", "move it"]),
    ('"a-cgba"', '"a-cgbb"', 26, ["unknown preset 'a-cgbb'", "did you mean 'a-cgba'"]),
    ("search.tau", "serach.tau", 28, ["unknown field of CGBA 'serach'", "'search'"]),
    ("search.tau", "search.taus", 28, ["unknown field of AsymmetricSearch 'taus'", "'tau'"]),
    ('preset = "cgba"', 'preset = "frugal+surogate"', 30, ["did you mean 'frugal+surrogate'"]),
    # surrogates
    (
        *CGBA,
        'preset = "frugal+surrogate"',
        29,
        ["surrogate in [[attacks]] number 2 is missing, and the preset 'frugal+"],
    ),
    (
        *CGBA,
        'preset = "cgba"\nsurrogate = "a:b"',
        31,
        ["surrogate in [[attacks]] number 2 is given, and the preset 'cgba' t"],
    ),
    (*CGBA, f"{TOLD} = 3", 31, ["surrogate in [[attacks]] number 2 is 3", "or module:function"]),
    (*CGBA, f"{TOLD} = []", 31, ["is an empty list", 'as ["net.pt2", "other.pt2"]']),
    (*CGBA, f'{TOLD} = "no.pt2"', 31, ["no.pt2 does not exist", "folder of the study file"]),
    (*CGBA, f"{TOLD}.mean = 3", 31, ["surrogate in [[attacks]] number 2 has no source"]),
    (
        *CGBA,
        f'{TOLD} = {{source = "a:b", std = 0}}',
        31,
        ["surrogate.std in [[attacks]]", "above 0"],
    ),
    (*CGBA, f'{TOLD} = {{source = "a:b", side = 0}}', 31, ["'side'", "Known: labels, mean, size,"]),
    # what is missing
    (f"{PRICES}\n", "", None, ["there is no prices", "prices = [1, 100]", "add it"]),
    ('path = "set.npz"\n', "", 8, ["[images] has no path", 'as path = "images"']),
    ('source = "net.pt2"\n', "", 17, ["[[models]] number 1 has no source", 'source = "model.pt2"']),
    ('preset = "cgba"', "", 29, ["[[attacks]] number 2 has no preset", "`tollbox presets` lists"]),
    ("budget = 5000\nmax_queries = 900\n", "", 2, ["neither budget nor max_queries", "'2'"]),
    ("max_queries = 900\n", "", 3, ["some answers are free", "'inf'", "max_queries as well"]),
    ('start = "start.png"\n', "", 14, ["goal.target is 5, but goal.start is not given"]),
    # types
    ('"small"', "3", 1, ["name is 3", "a name in quotes"]),
    ('"small"', '" "', 1, ["name is ' '", "a name in quotes"]),
    ('"small"', '"a\\nb"', 1, ["name is 'a\\nb'", "without control characters"]),
    ("budget = 5000", 'budget = "5000"', 2, ["budget is '5000'", "write it without quotes"]),
    ("budget = 5000", "budget = true", 2, ["budget is true", "expected a number"]),
    ("budget = 5000", "budget = nan", 2, ["budget is nan", "expected a number"]),
    ("budget = 5000", "budget = 1979-05-27", 2, ["budget is a date", "expected a number"]),
    ("budget = 5000", f"budget = {'9' * 400}", 2, ["an integer of", "more than a float can hold"]),
    ("= 900", "= 900.0", 3, ["max_queries is 900.0", "write 900", "inf for no cap"]),
    ("= 900", "= false", 3, ["max_queries is false", "a whole number of 1 or more"]),
    ("= 900", "= 0", 3, ["max_queries is 0", "a whole number of 1 or more"]),
    ("= 900", f"= {2**63}", 3, ["max_queries is 9223372036854775808", "at most 64 bits"]),
    ("[0, 7]", "0", 5, ["seeds is 0", "a list that is not empty, as seeds = [0, 1, 2]"]),
    ("[0, 7]", "[]", 5, ["seeds is an empty list", "as seeds = [0, 1, 2]"]),
    ("[0, 7]", "[0, 1.5]", 5, ["number 2 of seeds is 1.5", "expected a whole number"]),
    ("[0, 7]", "[0, 0]", 5, ["seeds has 0 twice", "leave one out"]),
    ('device = "cpu"', "device = 0", 6, ["device is 0", "cpu, cuda, cuda:1"]),
    ('device = "cpu"', 'device = "gpu"', 6, ["device is 'gpu'", "cpu, cuda, cuda:1"]),
    ('device = "cpu"', 'device = "meta"', 6, ["device is 'meta'", "a device that holds numbers"]),
    ('device = "cpu"', 'metered = "yes"', 6, ["metered is 'yes'", "true or false"]),
    ('device = "cpu"', "workers = 0", 6, ["workers is 0", "a whole number from 1 to 256"]),
    ('device = "cpu"', "batch_size = -1", 6, ["batch_size is -1", "1 to 65536"]),
    ('device = "cpu"', "batch_size = 1000000000", 6, ["batch_size is 10", "1 to 65536"]),
    ("limit = 2", "limit = 0", 10, ["images.limit is 0", "a whole number of 1 or more"]),
    ("limit = 2", 'digest = "9f"', 10, ["images.digest is '9f'", "32 hexadecimal digits"]),
    ("target = 5", "target = -1", 14, ["goal.target is -1", "0 or more"]),
    ("= 0.25", "= 0", 20, ["std in [[models]] number 1 is 0", "a finite number above 0"]),
    ("= 0.25", "= inf", 20, ["std in [[models]] number 1 is inf", "or a list of one per channel"]),
    ("0.4, 0.3]", '"0.4"]', 19, ["number 2 of mean in [[models]] number 1 is '0.4'", "quotes"]),
    ("quantize = 8", "quantize = 17", 21, ["quantize in", "a whole number from 1 to 16"]),
    ("quantize = 8", 'dtype = "half"', 21, ["dtype in [[models]] number 1 is 'half'", "bfloat16"]),
    ("quantize = 8", "dtype = 16", 21, ["dtype in [[models]] number 1 is 16", "in quotes"]),
    ("quantize = 8", "compile = 1", 21, ["compile in [[models]] number 1 is 1", "true or false"]),
    ("quantize = 8", 'tf32 = "no"', 21, ["tf32 in [[models]] number 1 is 'no'", "true or false"]),
    ("[goal]\n", "[[goal]]\n", 13, ["goal is a list", "a table"]),
    (
        BASE[BASE.index("[[models]]") : BASE.index("[[attacks]]")],
        '[models]\nsource = "net.pt2"\n',
        17,
        ["models is a table", 'as [[models]] with source = "model.pt2"'],
    ),
    # prices
    (PRICES, "prices = 2", 4, ["prices is 2", "as prices = [1, 100]"]),
    (PRICES, "prices = [2, -1]", 4, ["number 2 of prices is -1", "0 or more, inf, or the path"]),
    (PRICES, "prices = [2,\n true]", 5, ["number 2 of prices is true", "0 or more"]),
    (PRICES, "prices = [nan]", 4, ["number 1 of prices is nan", "0 or more"]),
    (PRICES, 'prices = ["100"]', 4, ["prices is '100'", "write a number without quotes"]),
    (PRICES, 'prices = ["p.csv"]', 4, ["p.csv does not exist", "folder of the study file"]),
    (PRICES, 'prices = ["pictures"]', 4, ["pictures is a folder", "the path of a CSV"]),
    (PRICES, "prices = [2, 2]", 4, ["number 1 and number 2 of prices", "'2'", "name = "]),
    (PRICES, "prices = [2, 6000]", 2, ["budget is 5000", "at least 6000"]),
    (PRICES, "prices = [{budget = 3}]", 4, ["[[prices]] number 1 has no ratio", "ratio = 100"]),
    (PRICES, "prices = [{ratio = 3, budgt = 3}]", 4, ["unknown key in [[prices]]", "'budget'"]),
    (
        PRICES,
        "prices = [{ratio = 3, budget = 2}]",
        4,
        [
            "budget in [[prices]] number 1 is 2: expected at least 3",
            "the most that one query can cost.",
        ],
    ),
    (
        PRICES,
        'prices = [{ratio = "free.csv", max_queries = inf}]',
        4,
        ["the price 'free': some answers are free", "max_queries in [[prices]] number 1 as well"],
    ),
    (
        f"budget = 5000\nmax_queries = 900\n{PRICES}",
        "budget = inf\nmax_queries = 900\nprices = [1e308]",
        4,
        ["cost more than a float can hold", "a smaller max_queries"],
    ),
    ("[0, 7]", "[.5]", 5, ["a number begins with a digit; write 0.5."]),
    ("= 0.25", "= -.25", 20, ["a number begins with a digit; write -0.25."]),
    ('name = "small"', f'name = "{"x" * 201}"', 1, ["(201 characters)", "at most 200 characters"]),
    # what is not there
    ('"set.npz"', '"start.png"', 9, ["'start.png', a single image", "put it into a folder"]),
    ('"set.npz"', '"sett.npz"', 9, ["images.path is 'sett.npz'", "does not exist", "an .npz"]),
    ('"set.npz"', f'"{"x" * 300}"', 9, ["images.path is 'xxx", "cannot be read: File name too"]),
    ("limit = 2", 'labels = "labels.csv"', 10, ["images.labels is given", "leave images.labels"]),
    ('"images.txt"', '"list.txt"', 11, ["list.txt does not exist", "a content hash on each"]),
    ('"start.png"', '"stat.png"', 15, ["goal.start is 'stat.png'", "an image file, or an .npz"]),
    ('"net.pt2"', '"nte.pt2"', 18, ["nte.pt2 does not exist", "or module:function"]),
    ('"net.pt2"', '"pictures"', 18, ["source in [[models]] number 1", "is a folder"]),
    ('"net.pt2"', '"C:/net.pt2"', 18, ["net.pt2 does not exist", "or module:function"]),
    # one name twice, and parts
    ('"bright:labels"', '"a:net"', 22, ["are both called 'net'", 'name = "net-2" in [[models]]']),
    ('name = "fine"', 'name = "cgba"', 29, ["number 1 and number 2 of attacks", "'cgba'"]),
    (
        '[[models]]\nsource = "bright',
        '[models]\nsource = "bright',
        22,
        ["cannot declare", "[[models]]"],
    ),
    (
        "search.tau = 1e-3",
        "search = 3",
        28,
        ["search in [[attacks]] number 1 is 3", "search.part ="],
    ),
    ("tau = 1e-3", 'tau = "1e-3"', 28, ["search.tau in [[attacks]] number 1", "without quotes"]),
]


@pytest.mark.parametrize(("old", "new", "line", "says"), MISTAKES)
def test_mistakes(folder: Path, old: str, new: str, line: int | None, says: list[str]) -> None:
    text = BASE.replace(old, new, 1)
    assert text != BASE
    file = written(folder, text)
    with pytest.raises(InputError) as error:
        Study.from_toml(file)
    message = str(error.value)
    assert message.startswith(f"{file}: " if line is None else f"{file}, line {line}")
    assert line is None or message[len(f"{file}, line {line}")] in ":,"
    for fragment in says:
        assert fragment in message
    assert "\n" not in message


def test_enough_mistakes_that_differ() -> None:
    assert len({(old, new) for old, new, *_ in MISTAKES}) == len(MISTAKES) >= 30


def test_mistakes_in_files_that_a_study_names(folder: Path) -> None:
    text = base((PRICES, 'prices = ["wrong.csv"]'))
    with pytest.raises(FileError, match=r"wrong\.csv, line 2: the price is 'lots'"):
        Study.from_toml(written(folder, text))
    (folder / "images.txt").write_text(f"{'a' * 32}\n\n{'a' * 31}g\n")
    with pytest.raises(FileError, match=r"images\.txt, line 3: 'a+g' is not a content hash: .* 32"):
        Study.from_toml(written(folder, BASE))
    (folder / "images.txt").write_text(f"{'a' * 32}\n\n{'A' * 32} x\n")
    with pytest.raises(FileError, match=r"images\.txt, line 3: a+ is on line 1 already: .* leave"):
        Study.from_toml(written(folder, BASE))
    (folder / "images.txt").write_text("# none\n")
    with pytest.raises(FileError, match=r"images\.txt lists no image: expected a content hash"):
        Study.from_toml(written(folder, BASE))
    (folder / "images.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(FileError, match=r"images\.txt is not UTF-8 text"):
        Study.from_toml(written(folder, BASE))


def test_files_that_are_no_study_files(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    with pytest.raises(FileError, match=r"the study file .*study\.toml does not exist: expected a"):
        Study.from_toml(file)
    with pytest.raises(
        FileError,
        match=r"^the study file \S+ is a folder: expected a TOML file that describes a study.$",
    ):
        Study.from_toml(str(tmp_path))
    with pytest.raises(FileError, match="a name that no file can have"):
        Study.from_toml("a\0b")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="pipe is not a file"):
        Study.from_toml(tmp_path / "pipe")
    file.write_bytes(b"#" * (1 << 20) + b"\n")
    with pytest.raises(FileError, match=r"is larger than 1 MiB: .* is it the right file"):
        Study.from_toml(file)
    file.write_bytes(b"a = 1\nname = 'caf\xe9'\n")
    with pytest.raises(FileError, match=r"study\.toml, line 2: byte 0xe9 is not UTF-8: .* save it"):
        Study.from_toml(file)
    file.write_text(BASE, encoding="utf-16")
    with pytest.raises(FileError, match=r"line 1: byte 0xff is not UTF-8"):
        Study.from_toml(file)
    file.write_text("seeds = " + "[" * 5000)
    with pytest.raises(FileError, match="nested too deeply"):
        Study.from_toml(file)
    file.write_text(f"seeds = [{'1' * 5000}]")
    with pytest.raises(FileError, match=r"study\.toml cannot be read as TOML: Exceeds the limit"):
        Study.from_toml(file)
    file.write_text("")
    with pytest.raises(FileError, match=r"study\.toml: there is no images: .* add it"):
        Study.from_toml(file)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    file = written(tmp_path, BASE)
    file.chmod(0)
    with pytest.raises(FileError, match="cannot be read: Permission denied"):
        Study.from_toml(file)


# -- images and models ----------------------------------------------------------------------------


@pytest.mark.parametrize("path", ['"set.npz"', '"pictures"\nlabels = "labels.csv"'])
def test_list_then_limit(folder: Path, path: str) -> None:
    study = Study.from_toml(written(folder, base(('"set.npz"', path))))
    everything = load_images(folder / "set.npz")
    images = images_of(study)
    assert torch.equal(images.images, everything.images[[3, 0]])
    assert images.labels == (1, 3)
    assert [name.removesuffix(".png") for name in images.names] == ["3", "0"]
    assert len(images.origins) == 2
    whole = base(('"set.npz"', path), ("limit = 2\n", ""))
    assert images_of(Study.from_toml(written(folder, whole))).labels == (1, 3, 4)
    first = base(('"set.npz"', path), ('list = "images.txt"\n', ""))
    assert images_of(Study.from_toml(written(folder, first))).labels == (3, 1)


def test_digest_is_of_content_labels_and_order(folder: Path) -> None:
    images = images_of(Study.from_toml(written(folder, BASE)))
    digest = images_digest(images)
    right = base(("limit = 2", f'limit = 2\ndigest = "{digest.upper()}"'))
    assert images_of(Study.from_toml(written(folder, right))).labels == images.labels
    pictures = right.replace('"set.npz"', '"pictures"\nlabels = "labels.csv"')
    assert images_of(Study.from_toml(written(folder, pictures))).labels == images.labels
    one_less = right.replace("limit = 2", "limit = 1")
    with pytest.raises(FileError) as error:
        images_of(Study.from_toml(written(folder, one_less)))
    found = images_digest(load_images(folder / "set.npz"))
    assert found != digest
    message = str(error.value)
    assert f"study.toml, line 11: images.digest is '{digest}', and the 1 images of" in message
    [offered] = [word.strip('"') for word in message.split() if word.startswith('"')]
    renewed = one_less.replace(digest.upper(), offered)
    assert len(images_of(Study.from_toml(written(folder, renewed)))) == 1


def test_digest_tells_apart(folder: Path) -> None:
    file = folder / "set.npz"
    images = load_images(file)
    arrays = np.load(file)["images"]
    digests = {images_digest(images)}
    for labels, order in [([3, 1, 4, 2], [0, 1, 2, 3]), ([1, 3, 4, 1], [1, 0, 2, 3])]:
        np.savez(file, images=arrays[order], labels=labels)
        digests.add(images_digest(load_images(file)))
    arrays[2, 0, 0, 0] ^= 1
    np.savez(file, images=arrays, labels=[3, 1, 4, 1])
    digests.add(images_digest(load_images(file)))
    assert len(digests) == 4
    # what it is made of is part of the format of study files: it never changes
    plain = load_images(file, limit=1)
    line = f"{content_hash(plain.images[0])} 3\n".encode()
    assert images_digest(plain) == hashlib.blake2b(line, digest_size=16).hexdigest()


def test_what_a_list_names_must_be_there(folder: Path) -> None:
    study = Study.from_toml(written(folder, BASE))
    first = hashes_of(folder / "set.npz")[0]
    (folder / "images.txt").write_text(f"{first}\n{'a' * 32}\n")
    with pytest.raises(FileError, match=r"images\.txt, line 2: none of the 4 images of .* a{32}: "):
        images_of(study)
    arrays = np.load(folder / "set.npz")["images"]
    np.savez(folder / "set.npz", images=arrays[[0, 1, 0]], labels=[3, 1, 4])
    (folder / "images.txt").write_text(first)
    with pytest.raises(FileError, match=r"line 1: 2 images .* different labels, 3 and 4: .*"):
        images_of(study)
    np.savez(folder / "set.npz", images=arrays[[0, 1, 0]], labels=[3, 1, 3])
    assert images_of(study).names == ("0",)


def test_models(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: Any) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "bright", raising=False)
    text = base(('source = "bright:labels"', 'source = "bright:labels"\nquantize = 3'))
    study = Study.from_toml(written(folder, text))
    example = torch.full((3, 4, 5), 0.9)
    model = model_of(study, 1, example)
    assert model.quantize == 3
    assert model(torch.stack([example, example / 2])).tolist() == [1, 0]
    with pytest.raises(FileError, match=r"study\.toml, line 18: the model 'net': \w+ .*net\.pt2"):
        model_of(study, 0, example)
    text = base(('source = "bright:labels"', 'source = "bright:labels"\nmean = [0.1, 0.2]'))
    study = Study.from_toml(written(folder, text))
    with pytest.raises(
        InputError, match=r"line 24: the model 'labels': mean has 2 numbers"
    ) as error:
        model_of(study, 1, example)
    assert "--" not in str(error.value)


def test_a_model_is_normalised(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "bright", raising=False)
    text = base(('source = "bright:labels"', 'source = "bright:labels"\nmean = 0.4\nstd = 0.5'))
    study = Study.from_toml(written(folder, text))
    model = model_of(study, 1, torch.zeros(3, 4, 5))
    assert model.running == {}
    levels = torch.tensor([0.6, 0.7]).view(2, 1, 1, 1).expand(2, 3, 4, 5)
    assert model(levels).tolist() == [0, 1]  # (0.6 - 0.4) / 0.5 = 0.4, (0.7 - 0.4) / 0.5 = 0.6


def test_how_a_network_is_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "bright", raising=False)
    monkeypatch.delitem(sys.modules, "nets", raising=False)
    lines = "from torch import nn\ndef make():\n    return nn.Sequential(nn.Conv2d(3, 2, 3))\n"
    (folder / "nets.py").write_text(lines.replace("3))", "3), nn.Flatten())"))
    text = base(('"bright:labels"', '"nets:make"\ndtype = "float16"\ntf32 = false'))
    text = text.replace("tf32", "channels_last = false\ntf32")
    study, example = Study.from_toml(written(folder, text)), torch.zeros(3, 4, 5)
    assert (study.models[0].dtype, study.models[0].tf32) == (None, False)
    model = model_of(study, 1, example)
    assert (model.dtype, model.outputs(example[None]).dtype) == (torch.float32, torch.float16)
    assert model.running == {"dtype": "float16", "channels_last": "false"}
    refused = {
        ("nets:make", "cuda_graphs = true"): "cuda_graphs is set, but the device is cpu",
        ("nets:make", "tf32 = true"): "tf32 is set, but the device is cpu: expected a CUDA device",
        ("bright:labels", "compile = true"): "compile is given, but bright:labels is a function of "
        "images: expected it for networks by name or module:function and exported programs only",
    }
    for (source, line), words in refused.items():
        text = base(('"bright:labels"', f'"{source}"\nname = "it"\n{line}'))
        study = Study.from_toml(written(folder, text))
        with pytest.raises(FileError, match=f"line 25: the model 'it': {words}"):
            model_of(study, 1, example)


# -- lines ----------------------------------------------------------------------------------------


def key_lines(text: str) -> dict[tuple[str | int, ...], int | None]:
    """The line of each key of a text."""
    return {key: line_of(text, key) for key in keys_of(tomllib.loads(text))}


def test_lines_of_keys() -> None:
    text = '''\
# a = 1
"b c".d = """
[x]
e = 3"""
l = [ # [
  1, "]", [2,
  3], {m = {n = 4}, o.p = '#'},
]
[[t]]
u = 1979-05-27 07:32:00
[t.v]
w = \'\'\'
k = "\'\'\'\'
[[t]]
[[t.s]]
[[t.s]]
'q.r' = 1.5'''
    assert tomllib.loads(text)["t"][1]["s"][1]["q.r"] == 1.5
    assert key_lines(text) == {
        ("b c",): 2,
        ("b c", "d"): 2,
        ("l",): 5,
        ("l", 0): 6,
        ("l", 1): 6,
        ("l", 2): 6,
        ("l", 2, 0): 6,
        ("l", 2, 1): 7,
        ("l", 3): 7,
        ("l", 3, "m"): 7,
        ("l", 3, "m", "n"): 7,
        ("l", 3, "o"): 7,
        ("l", 3, "o", "p"): 7,
        ("t",): 9,
        ("t", 0): 9,
        ("t", 0, "u"): 10,
        ("t", 0, "v"): 11,
        ("t", 0, "v", "w"): 12,
        ("t", 1): 14,
        ("t", 1, "s"): 15,
        ("t", 1, "s", 0): 15,
        ("t", 1, "s", 1): 16,
        ("t", 1, "s", 1, "q.r"): 17,
    }


def keys_of(value: Any, key: tuple[str | int, ...] = ()) -> Iterable[tuple[str | int, ...]]:
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for name, below in inner:
        yield (*key, name)
        yield from keys_of(below, (*key, name))


SCALARS = ["1", "-0.5e3", "inf", "true", '"#]}"', "'[='", '"""\n[a]\n"""', "'''\nb = 1'''"]
VALUES: st.SearchStrategy[str] = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda each: f"[ # [\n{', '.join(each)}\n]"),
        st.lists(st.sampled_from(SCALARS[:6]), max_size=3).map(
            lambda each: "{" + ", ".join(f"'k {i}' = {v}" for i, v in enumerate(each)) + "}"
        ),
    ),
    max_leaves=6,
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["[[t]]", "[[t.s]]", "[t.v{}]", "[u{}.w]", "", "# x = 1"]),
            st.lists(VALUES, max_size=3),
        ),
        max_size=5,
    )
)
def test_every_key_has_its_line(blocks: list[tuple[str, list[str]]]) -> None:
    lines: list[str] = ["[[t]]"]
    for number, (header, values) in enumerate(blocks):
        lines.append(header.format(number))
        lines += [f'key-{number}."{i}.x" = {value}' for i, value in enumerate(values)]
    text = "\n".join(lines)
    for key, line in key_lines(text).items():
        assert line is not None
        if isinstance(key[-1], str) and key[-1].endswith(".x"):
            assert f'{key[-2]}."{key[-1]}" = ' in text.split("\n")[line - 1]


def test_lines_of_what_is_not_there() -> None:
    assert line_of("a = [1]\n", ("b",)) is None
    assert line_of("a = [1]\n", ("a", 1)) is None
    assert line_of("a = 1\n", ("a", "b")) is None
    deep = "a = [[[[[[\n1\n]]]]]]\n"
    assert line_of(deep, ("a", 0)) == 3  # where the list ends
