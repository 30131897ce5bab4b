"""The reference side of `references.py`: published attacks as their authors' code runs them.

Each reference runs in a process of its own, from the user's checkout. Nothing in it is changed,
except:

1. Packages that plot, load data or build networks are empty stand-ins. torch_dct, skimage's resize,
   and Foolbox's distance and blended noise have small working ones.
2. `.cuda()` moves a tensor to the device of the run.
3. Settings are those of the authors for the size of the image; each function names them. Limits on
   queries and iterations are lifted: the run stops at the last mark.
4. The network answers for pixels clipped to [0,1]. The clean image is free, as it is for tollbox.
5. The stealthy attacks compute whole batches and charge up to the first flagged answer. They say
   what was sent, and their marks are flagged answers.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import json
import math
import os
import random
import runpy
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from peers import Normalised, Spent, quiet
from scipy import fft, ndimage
from torch import Tensor, nn

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Normalisation of the pixels that some references work in."""
UNLIMITED = 10**9
SAME = 1e-6
"""A point with no pixel farther than this from the clean image is the clean image."""
EMPTY = (
    "cv2 eagerpy foolbox line_profiler matplotlib pandas pytorch_lightning pywt requests seaborn "
    "skimage sklearn "
    "torch_dct torchmetrics torchvision tqdm transformers"
)


class Run(nn.Module):
    """One run, as the network that the reference attacks: it counts rows and keeps distances."""

    normalised = False
    """Whether rows arrive normalised by `MEAN` and `STD`."""
    blank_is_free = False
    """Whether a black image is padding."""

    def __init__(
        self, code: Path, network: nn.Module, image: Tensor, label: int, last: int, norm: float
    ) -> None:
        super().__init__()
        self.code, self.network, self.last, self.norm = code, network, last, norm
        self.image, self.label = image[None], torch.tensor([label], device=image.device)
        self.small = image.shape[-1] < 224
        self.count = 0
        self.found: list[tuple[int, float]] = []
        """(mark, distance) of each point closer than all before, with the mark it counts from."""

    def forward(self, rows: Tensor) -> Tensor:
        points = rows.detach().to(self.image.device, torch.float32)
        if self.normalised:
            points = points * column(STD, points) + column(MEAN, points)
        points = points.clamp(0, 1)
        with torch.no_grad():
            logits: Tensor = self.network(points)
        moved = (points - self.image).flatten(1)
        sent = moved.abs().amax(1) > SAME
        if self.blank_is_free:
            sent &= points.flatten(1).amax(1) > 0
        apart = torch.linalg.vector_norm(moved.double(), self.norm, dim=1)
        apart = torch.where(logits.argmax(1) != self.label, apart, math.inf)
        for distance in apart[sent].tolist():
            self.count += 1
            if distance < self.at(self.count):
                self.found.append((self.count, distance))
        if self.count >= self.last:
            raise Spent
        return logits.to(rows.device)

    def at(self, mark: int) -> float:
        """Return the best distance at this mark."""
        return min((d for first, d in self.found if first <= mark), default=math.inf)

    def normalise(self, pixels: Tensor) -> Tensor:
        """Return normalised pixels, and expect such rows from now on."""
        self.normalised = True
        return (pixels - column(MEAN, pixels)) / column(STD, pixels)

    def module(self, name: str, folder: str = "") -> Any:
        """Import a module of the checkout."""
        sys.path.insert(0, str(self.code / folder))
        return importlib.import_module(name)


def column(values: tuple[float, ...], like: Tensor) -> Tensor:
    return torch.tensor(values, device=like.device).view(-1, 1, 1)


# -- stand-ins ------------------------------------------------------------------------------------


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds these packages, installed or not; everything in them is an empty class."""

    def __init__(self, names: str = EMPTY) -> None:
        self.names = names.split()

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        known = name.split(".")[0] in self.names
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if known else None

    def exec_module(self, module: ModuleType) -> None:
        module.__getattr__ = lambda name: type(name, (), {})  # type: ignore[method-assign]


def stand_in(name: str, **members: Any) -> None:
    vars(importlib.import_module(name)).update(members)


class LpDistance(NamedTuple):
    """Foolbox's distance; of two images without a batch it is one number, not one per channel."""

    p: float

    def __call__(self, one: Tensor, other: Tensor) -> Tensor:
        apart = other - one
        rows = apart if apart.dim() == 4 else apart[None]
        return torch.as_tensor(torch.linalg.vector_norm(rows.flatten(1), self.p, dim=-1))


class BlendedNoise(NamedTuple):
    """Foolbox's start: uniform noise, blended with the image in steps until it is adversarial."""

    steps: int

    def run(self, model: nn.Module, image: Tensor, labels: Tensor, **_: Any) -> Tensor:
        noise = torch.rand_like(image)
        while (model(noise).argmax(1) == labels).any():
            noise = torch.rand_like(image)
        blended = image
        for share in np.linspace(0, 1, self.steps + 1).tolist():
            blended = (1 - share) * image + share * noise
            if (model(blended).argmax(1) != labels).all():
                break
        return blended


def dct(transform: Callable[..., Any]) -> Callable[..., Tensor]:
    """Return torch_dct's transform of the last two axes, which is scaled as SciPy's."""
    return lambda x, norm=None: torch.from_numpy(
        transform(x.cpu().numpy(), axes=(-2, -1), norm=norm)
    ).to(x.device)


def resized(image: Any, shape: tuple[int, ...]) -> Any:
    """Return skimage's `transform.resize` to a larger shape."""
    zoom = [new / old for new, old in zip(shape, image.shape, strict=True)]
    return ndimage.zoom(image, zoom, order=1, mode="mirror", grid_mode=True)


# -- references -----------------------------------------------------------------------------------


def ttba(run: Run) -> None:
    """Defaults of `Attacker`; below 224 pixels it samples the full space."""
    model = run.module("general_torch_model").GeneralTorchModel(run)
    args = argparse.Namespace(budget=10_000, epsilon=0, early=0)
    attacker = run.module("TtBA").Attacker
    attacker(args, model, run.image, 0, "TtBA", iteration=UNLIMITED).attack()


def cgba_of_seri(run: Run, share: float = 1.0) -> Any:
    """Defaults of `Attacker`; below 224 pixels it samples the full space."""
    args = argparse.Namespace(budget=int(share * run.last), budget2=UNLIMITED, epsilon=0, early=0)
    vars(args).update(
        targeted=0, RandResizePad=0, initSign=1, RGB_mod=0, RGB="RGB", k1=0.2, k2=1.8, dataset=""
    )
    model = run.module("general_torch_model").GeneralTorchModel(run, args)
    base = run.module("CGBA").Attacker(args, model, run.image, 0, iteration=UNLIMITED)
    base.attack()
    return base


def seri(run: Run) -> None:
    """Defaults of `main.py`: four fifths of the queries are CGBA's, the last fifth is SeRI's."""
    base = cgba_of_seri(run, share=0.8)
    attacker = run.module("SeRI").Attacker
    attacker(base.args, base.model, run.image, 0, run.label, None, None, base).attack()


def sar(run: Run) -> None:
    """Defaults of `Attacker`, and the README's shares: 97 % of the queries are CGBA's."""
    base = cgba_of_seri(run, share=0.97)
    attacker = run.module("SAR").Attacker
    attacker(base.args, base.model, run.image, 0, run.label, None, None, base).attack()


def adba(run: Run) -> None:
    """Defaults of `main_ADBA` (ADBA-md), with the tolerance that it passes on."""
    model = run.module("general_torch_model", "code").GeneralTorchModel(run)
    args = argparse.Namespace(budget=UNLIMITED, channels=3, initDir=1, offspringN=2, binaryM=1)
    attack = run.module("ADBA", "code").ATK_ADBA
    attack(model, run.image, 0, run.label.cpu(), 0, 0, 8, args)


def cgba(run: Run, method: str = "CGBA") -> None:
    """Settings of `Non_targeted_attack.py`, for ImageNet; the full space for small images, for
    which there are none."""
    pixels = [run.image, torch.zeros_like(run.image), torch.ones_like(run.image)]
    image, *bounds = (run.normalise(each) for each in pixels)
    settings = {"attack_method": method, "iteration": UNLIMITED}
    attack = run.module("proposed_attack").Proposed_attack
    factor = 1 if run.small else 4
    attack(run, image, MEAN, STD, *bounds, dim_reduc_factor=factor, **settings).Attack()


def tangent(run: Run) -> None:
    """Settings of `HSJA.json` for CIFAR-10 and for ImageNet. Its `__init__` loads data, so its
    fields are set here."""
    sys.meta_path.insert(0, StandIns("dataset glog models"))  # which load data and networks
    stand_in("glog", info=lambda *_: None)
    module = run.module("tangent_attack_hemisphere.attack")
    module.args = argparse.Namespace(ablation_study=False)
    made = object.__new__(module.TangentAttack)
    channels, height, width = run.image.shape[1:]
    dimension, gamma = run.image[0].numel(), 1.0 if run.small else 1000.0
    vars(made).update(model=run, norm="l2", ord=2, epsilon=0, clip_min=0, clip_max=1.0)
    vars(made).update(dim=dimension, shape=(channels, height, width), gamma=gamma)
    vars(made).update(theta=gamma / (np.sqrt(dimension) * dimension), init_num_evals=100)
    vars(made).update(max_num_evals=1e4, num_iterations=UNLIMITED, batch_size=1, total_images=1)
    vars(made).update(stepsize_search="geometric_progression", verify_tangent_point=False)
    vars(made).update(maximum_queries=UNLIMITED, distortion_all=defaultdict(dict))
    made.attack(0, run.image.cpu(), None, run.label.cpu(), None)


def surfree(run: Run) -> None:
    """Settings of `config_example.json`; one for all sizes."""
    run.blank_is_free = True
    config = json.loads((run.code / "config_example.json").read_text())
    settings = config["init"] | {"steps": UNLIMITED, "max_queries": UNLIMITED}
    run.module("surfree").SurFree(**settings)(run, run.image, run.label, **config["run"])


def qeba(run: Run) -> None:
    """Settings of `main_pytorch.py` with the resizing generator, for CIFAR and for ImageNet.

    The true gradient, which they log, is replaced; the attack does not use it.
    """
    stand_in("skimage.transform", resize=resized)
    folder = run.code / "foolbox-based" / "foolbox"
    for name in ("", ".attacks", ".models"):  # their package, without what its __init__ imports
        stand_in(f"foolbox{name}", __path__=[str(folder / name[1:])])
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, StandIns)]
    generator = run.module("resize_generator", "foolbox-based").ResizeGenerator
    classes = run(run.image).shape[1]
    model = run.module("foolbox.models.pytorch").PyTorchModel(run, (0, 1), classes)
    model.gradient_one = lambda x, **_: np.ones_like(x)
    criterion = run.module("foolbox.criteria").Misclassification()
    criterion.target_class = lambda: 0
    attack = run.module("foolbox.attacks.bapp_custom").BAPP_custom(model, criterion)
    queries, factor = (30, 2.0) if run.small else (100, 4.0)
    settings: dict[str, Any] = {
        "initial_num_evals": queries,
        "max_num_evals": queries,
        "iterations": UNLIMITED,
    }
    settings |= {"stepsize_search": "geometric_progression", "atk_level": 999, "batch_size": 16}
    settings |= {"rv_generator": generator(factor=factor), "internal_dtype": np.float32}
    attack(run.image[0].cpu().numpy(), run.label.item(), plot_adv=False, **settings)


def qfool(run: Run) -> None:
    """Settings of Figure 3 in `main.py`; for small images, defaults of `qFool`: the full space."""
    os.chdir(run.code / "src")
    attack = run.module("qfool", "src").qFool
    attack.transform_input = lambda _, image: run.normalise(image)
    attack.bounds = lambda self: [
        run.normalise(torch.full_like(self.image, value)) for value in (0, 1)
    ]
    chosen = {} if run.small else {"init_estimation": 340, "subspacedim": 75}
    attack(run.image[0].cpu(), run, "cpu", max_queries=UNLIMITED, **chosen).run()


def rays(run: Run) -> None:
    """Defaults of `RayS`, without early stopping."""
    model = run.module("general_torch_model").GeneralTorchModel(run)
    attack = run.module("RayS_Single").RayS(model, early_stopping=False)
    attack(run.image, run.label, query_limit=UNLIMITED)


def halves(image: Any, _: str) -> tuple[Any, tuple[Any, ...]]:
    """Return PyWavelets' `dwt2` of images with even sides, for the Haar wavelet."""
    planes = np.asarray(image)
    a, b = planes[..., ::2, ::2], planes[..., ::2, 1::2]
    c, d = planes[..., 1::2, ::2], planes[..., 1::2, 1::2]
    return (a + b + c + d) / 2, ((a + b - c - d) / 2, (a - b + c - d) / 2, (a - b - c + d) / 2)


def doubled(bands: tuple[Any, tuple[Any, ...]], _: str) -> Any:
    """Return PyWavelets' `idwt2` of a lowest band alone, for the Haar wavelet."""
    lowest = np.asarray(bands[0]) / 2
    return lowest.repeat(2, -2).repeat(2, -1)


def dpattack(run: Run) -> None:
    """Defaults of `OursCifar10DBS.py`, without a radius to stop at.

    Its class imports relative to the folder above, and it reads `api_type` where its command line
    sets `apitype`. Its script for ImageNet calls a function without one of its arguments.
    """
    stand_in("pywt", dwt2=halves, idwt2=doubled)
    sys.path.insert(0, str(run.code.parent))
    name = "models.OursClass"
    sys.modules[name] = importlib.import_module(f"{run.code.name}.{name}")
    args = argparse.Namespace(budget=UNLIMITED, api_type="standard", lowtype="rcolor", earlyexit=1)
    vars(args).update(onlyone=0, ablation=0, replace=0, binaryM=1, useadba=0, paratype=22)
    vars(args).update(initDir=-1e5, offspringN=2, channels=3, stepp=0.01, early_stop=1)
    vars(args).update(mu=0, initystd=0, initcbstd=0, initcrstd=0)
    vars(run).update(predict_label=lambda pixels: run(pixels).argmax(1))
    attack = run.module("OursCifar10DBS").ATK_ADBA
    attack(run, run.image, 0, run.label, 0, 0, 8, math.inf, None, "", "", args)


def opt(run: Run, file: str = "OPT_attack", name: str = "OPT_attack") -> None:
    """Defaults of the attack."""
    model = run.module("models").PytorchModel(run, [0, 1], 0)
    made = getattr(run.module(file, "attack"), name)(model)
    made.attack_untargeted(run.image, run.label, query_limit=UNLIMITED)


def tria(run: Run) -> None:
    """Defaults of `TA.py`, for ImageNet, with the side of our images."""
    stand_in("torch_dct", dct_2d=dct(fft.dctn), idct_2d=dct(fft.idctn))
    stand_in("foolbox.attacks.base", get_criterion=lambda labels: labels)
    name = "foolbox.attacks.blended_noise"
    stand_in(name, LinearSearchBlendedUniformNoiseAttack=BlendedNoise)
    sys.argv = ["TA.py"]
    args = run.module("TA").get_args()
    args.side_length, args.max_queries = run.image.shape[-1], UNLIMITED
    run.module("attack_mask").TA(run, run.image.device).attack(args, run.image, run.label)


class Counter(NamedTuple):
    """The stealthy attacks' account. Each increase returns another one, which they may discard."""

    run: Run
    flagged: int = 0
    found: tuple[tuple[int, float], ...] = ()
    total_queries: int = 0
    total_unsafe_queries: int = 0

    def increase(self, _: Any, safe: Tensor, distance: Tensor, **__: Any) -> Counter:
        self.run.found = list(self.found)
        if self.flagged >= self.run.last:
            raise Spent
        flagged, found = self.flagged, list(self.found)
        for is_safe, apart in zip(safe.tolist(), distance.flatten().tolist(), strict=True):
            flagged += not is_safe
            if is_safe and (not found or apart < found[-1][1]):
                found.append((flagged + 1, apart))  # sent only if one more may be flagged
        return Counter(self.run, flagged, tuple(found))

    def is_out_of_queries(self) -> bool:
        return False


class Given(Exception):
    """The options of a command."""


def stealthy(options: str, large: str) -> Callable[[Run], None]:
    """Options of the README's commands, for ImageNet; the attack is what `main.py` would run with
    them. Small images have defaults instead of `large`."""

    def attack(run: Run) -> None:
        norms = {"LpDistance": LpDistance, "l2": LpDistance(2), "linf": LpDistance(math.inf)}
        stand_in("foolbox.distances", **norms)
        stand_in("torch_dct", dct_2d=dct(fft.dctn))
        setup = run.module("src.setup")

        def given(args: argparse.Namespace, _: Any) -> None:
            raise Given(args)

        setup.setup_model_and_data = given
        limits = f"--early 0 --max-queries {UNLIMITED} --max-unsafe-queries {UNLIMITED}"
        sys.argv = [
            "main.py",
            *limits.split(),
            *options.split(),
            *([] if run.small else large.split()),
        ]
        try:
            runpy.run_path(str(run.code / "main.py"), run_name="__main__")
        except Given as caught:
            made = setup.setup_attack(caught.args[0])
        made._make_queries_counter = lambda: Counter(run)
        clipped = nn.Sequential(nn.Hardtanh(0, 1), run.network)
        model = run.module("src.model_wrappers").TorchModelWrapper(clipped)
        run.found = list(made(model, run.image, run.label)[1].found)

    return attack


class Reference(NamedTuple):
    """A published implementation."""

    repository: str
    """Its name on GitHub; the checkout has the part behind the slash as its name."""
    run: Callable[[Run], None]
    norm: str = "l2"
    by_flagged: bool = False

    @property
    def folder(self) -> str:
        return self.repository.split("/")[1]


def of_eggs(options: str, norm: str = "l2", large: str = "") -> Reference:
    made = stealthy(f"--norm {norm} {options}", large)
    return Reference("ethz-spylab/realistic-adv-examples", made, norm, by_flagged=True)


LINES = "--search line --opt-beta 0.01 --opt-n-searches 2"
REFERENCES = {
    "ttba": Reference("BUPTAIOC/TtBA", ttba),
    "cgba": Reference("BUPTAIOC/SeRI", cgba_of_seri),
    "cgba+seri": Reference("BUPTAIOC/SeRI", seri),
    "cgba+sar": Reference("Flyingssheep/SAR", sar),
    "cgba-original": Reference("Farhamdur/CGBA", cgba),
    "cgba-h": Reference("Farhamdur/CGBA", partial(cgba, method="CGBA_H")),
    "surfree-original": Reference("t-maho/SurFree", surfree),
    "qeba": Reference("AI-secure/QEBA", qeba),
    "qfool": Reference("ShahryarBQ/qFool", qfool),
    "rays": Reference("uclaml/RayS", rays, "linf"),
    "dpattack": Reference("csjunjun/DPAttack", dpattack, "linf"),
    "adba": Reference("BUPTAIOC/ADBA", adba, "linf"),
    "opt": Reference("cmhcbb/attackbox", opt),
    "sign-opt": Reference(
        "cmhcbb/attackbox", partial(opt, file="Sign_OPT", name="OPT_attack_sign_SGD")
    ),
    "tria": Reference("xiaosen-wang/TA", tria),
    "tangent": Reference("machanic/TangentAttack", tangent),
    "stealthy-opt": of_eggs(f"--attack opt {LINES}"),
    "stealthy-sign-opt": of_eggs(f"--attack sign_opt {LINES}"),
    "stealthy-rays": of_eggs("--attack rays --search line --line-search-tol 0.1", "linf"),
    "stealthy-hsja": of_eggs("--attack hsja --search line --hsja-grad-est-mode opt"),
    "stealthy-geoda": of_eggs(
        "--attack geoda --geoda-bias-coef 30", large="--geoda-dim-reduc-factor 4"
    ),
}


class Outcome(NamedTuple):
    """What one side reached."""

    at: dict[int, list[float]]
    """Distances at each mark, image by image."""
    seconds: float
    failed: list[str]
    """Errors that stopped runs; such a run counts with what it had found."""


def run_reference(
    preset: str,
    args: argparse.Namespace,
    images: list[Tensor],
    labels: list[int],
    marks: tuple[int, ...],
) -> Outcome:
    """Run a reference on one image after another, in a process that has run no other."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.Tensor.cuda = lambda self, *_, **__: self.to(args.device)  # type: ignore[method-assign]
    sys.meta_path.insert(0, StandIns())
    reference, network = REFERENCES[preset], Normalised(args.net).to(args.device).eval()
    code = (args.code / reference.folder).resolve()
    norm = math.inf if reference.norm == "linf" else 2.0
    began, runs, failed = time.monotonic(), [], []
    for index, (image, label) in enumerate(zip(images, labels, strict=True)):
        for seeded in (torch.manual_seed, np.random.seed, random.seed):
            seeded(args.seed + index)
        pixels = image.to(args.device).contiguous()
        runs.append(Run(code, network, pixels, label, marks[-1], norm).eval())
        try:
            with quiet(), contextlib.suppress(Spent):
                reference.run(runs[-1])
        except Exception as error:
            failed.append(f"image {index}: {type(error).__name__}: {error}")
    at = {mark: [run.at(mark) for run in runs] for mark in marks}
    return Outcome(at, time.monotonic() - began, failed)
