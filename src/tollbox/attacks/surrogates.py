"""Surrogates: public networks or the user's own, whose gradients suggest where a boundary lies.

1. A surrogate is not the model under test: it costs nothing, and can be differentiated.
2. It receives the points of one image at a time, in batches of a fixed shape, in float32 without
   TF32 and with deterministic kernels, so that its answers depend on nothing else.
3. The networks are never changed: if one is not on the device of the run or not in eval mode, a
   copy is used.
4. Each network has its own input size, mean and std. Points are resized by products with two
   matrices, which have the same bits every time; torch's own resizing does not.
5. A network may have other classes than the model. Its margin is then that of its own prediction
   for the source image. With a target, the margin says how much closer the logits are to those of
   the start image than to those of the source image; without a start image, the network is unused.
6. Surrogates with the same weights, mean, std, size and labels are equal, and have the same
   `digest`.

transfer.py makes directions of these gradients. `frugal` starts along them, turns to them, trusts
each network according to its earlier gains, and drops it where estimates gain more for their price.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from ..core.device import CudaGraph, NotRecordable, is_out_of_memory, to_device
from ..core.goal import Goal
from ..core.problem import Problem
from ..core.validation import Range, is_several, require, shown, whole
from ..data.resizing import LARGEST_SIDE, pair
from ..data.user_code import with_kind
from ..errors import InputError
from ..models.loading import load_network
from ..models.network import Network
from ..models.numerics import Normalisation, Numbers, matrix_products, numbers_in
from ..models.pytorch import prepared, weights_digest
from ..parts.subspaces import resized

KEPT_BYTES = 2**30
MAX_GRAPHS = 64
FIRST_GUESSES = 100
"""A network recognises an image if its class is among the first hundredth of the network's
guesses."""
CPU = torch.device("cpu")
SETTINGS = ("mean", "std", "size", "labels")


class Margins(NamedTuple):
    """What a network answers for n points."""

    margins: Tensor  # (n)
    gradients: Tensor  # (n, c, h, w)


@dataclass(frozen=True)
class Member:
    """A network of a surrogate, and how it is run."""

    network: nn.Module
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    size: tuple[int, int] | None
    """(height, width) to which images are resized; None for their own size."""
    labels: str | None
    """"own" if its classes are not those of the model; None to compare their numbers."""
    channels: int | None
    batch: int | None
    normalise: Normalisation

    def on(self, device: torch.device) -> Member:
        network = prepared(self.network, device, torch.float32, torch.contiguous_format)
        return replace(self, network=network, normalise=_normalisation(self.mean, self.std, device))

    def logits(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Return the points, for differentiation, and the network's logits."""
        with torch.enable_grad():
            images = points.detach().to(torch.float32, copy=True).requires_grad_(True)
            batch = self.normalise(resized(images, self.size))
            answers = [self.network(part) for part in batch.split(self.batch or len(batch))]
            # transformers wraps logits in an object
            outputs = [getattr(answer, "logits", answer) for answer in answers]
        for each in outputs:
            if not isinstance(each, Tensor) or each.ndim != 2 or each.shape[1] < 2:
                shape = f"shape {tuple(each.shape)}" if isinstance(each, Tensor) else shown(each)
                expected = "logits (n, classes) of at least two classes"
                raise InputError(f"returns {shape}", expected=expected, input="surrogate")
        return images, outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    def differentiated(
        self, margin: Callable[[Tensor, Tensor], Tensor], points: Tensor, about: Tensor
    ) -> Tensor:
        """Return the gradients of a margin at points and, in the last column, the margins."""
        with torch.enable_grad():
            images, logits = self.logits(points)
            margins = margin(logits, about.to(logits))
            (gradients,) = torch.autograd.grad(margins.sum(), images)
        gradients = torch.nan_to_num(gradients, 0.0, 0.0, 0.0)
        return torch.cat([gradients.flatten(1), margins.detach()[:, None].to(gradients)], 1)

    def classes(self, image: Tensor) -> int:
        """Return the number of logits for an image (c, h, w)."""
        count = len(image)
        if self.channels not in (None, count):
            given = f"takes {self.channels} channels, but the images have {count}"
            raise InputError(given, expected="the same number", input="surrogate")
        _normalisation(self.mean, self.std, image.device, count)  # checks the channels
        try:
            with torch.enable_grad():
                points, logits = self.logits(image[None])
                torch.autograd.grad(logits.sum(), points)
        except InputError:
            raise
        except (Exception, SystemExit) as error:  # user code may raise anything
            size = "" if self.size is None else f", resized to {self.size}"
            raise InputError(
                f"cannot be differentiated at an image of shape {tuple(image.shape)}{size} "
                f"({with_kind(error)})",
                expected="a network of logits (n, classes) for images (n, c, h, w) in [0,1]",
                input="surrogate",
            ) from None
        return logits.shape[1]

    def has_own_labels(self, count: int, classes: int | None, label: int, goal: Goal) -> bool:
        """Return whether its `count` classes cannot be those of a model with `classes`, if known,
        which has the class and the goal of an image."""
        flagged = goal.flagged or frozenset()
        least = max(label, *flagged, goal.target or 0, len(flagged))
        return self.labels == "own" or classes not in (None, count) or count <= least


class Surrogate:
    """One or more networks that map images (n, c, h, w) to logits (n, classes).

    networks: a network, or the name of one as for `tb.models.load` ("timm:resnet18"), or several.
    mean, std: images in [0,1] are normalised to (image - mean) / std: a number, or one per channel.
    size: the side, or height and width, to which images are resized before. Default: their own.
    labels: "own" if the classes are not those of the model under test, which is the default for a
        network with another number of classes. Such a network is attacked on its own prediction.
    trust: whether to load exported programs and TorchScript, which can run code.

    Each setting is one for all networks, or a list of lists (or None) with one for each. A name has
    the defaults of the network's configuration.
    """

    def __init__(
        self,
        networks: nn.Module | str | Sequence[nn.Module | str | Network],
        *,
        mean: Any = None,
        std: Any = None,
        size: Any = None,
        labels: str | Sequence[str | None] | None = None,
        trust: bool = False,
    ) -> None:
        given = [networks] if isinstance(networks, nn.Module | str) else networks
        listed = isinstance(given, Sequence) and len(given) > 0
        expected = "a network (an instance of nn.Module) or the name of one, or several"
        for network in given if listed else [given]:
            known = isinstance(network, nn.Module | str | Network)
            require(known, "surrogate", network, expected)
        settings = {"mean": mean, "std": std, "size": size, "labels": labels}
        each = [_each(name, value, len(given)) for name, value in settings.items()]
        self.members = tuple(map(partial(_member, trust), given, *each))
        self.networks = tuple(each.network for each in self.members)
        self._ready: dict[torch.device, list[Member]] = {}
        self._weights = [weights_digest(each.network)[:12] for each in self.members]
        weights = "-".join(self._weights)
        about = [getattr(each, name) for each in self.members for name in SETTINGS]
        changed = hashlib.sha256(repr(about).encode()).hexdigest()[:8]
        self.digest = weights if about == [None] * len(about) else f"{weights}-{changed}"
        """Digest of the weights, and of the settings if there are any."""
        self._graphs: dict[Any, CudaGraph | None] = {}
        self._counts: dict[int, int] = {}
        self._predictions: dict[Any, int] = {}
        """The classes that networks give to source images, by their content."""
        self.evaluations, self.seconds = 0, 0.0
        """Number of points for which a network was run in this process, and the host time."""

        self.rays: dict[Any, Tensor] = {}
        """Transfer attacks on images of this process (transfer.py)."""

    def keep(self, key: Any, rays: Tensor) -> None:
        """Keep the transfer attacks on one image while there is room. A study goes through its
        images once for each price, so the oldest are needed first."""
        if (len(self.rays) + 1) * rays.nbytes <= KEPT_BYTES:
            self.rays[key] = rays

    @property
    def settings(self) -> dict[str, Any]:
        """Mean, std, size and labels: one for all networks, or a list with one for each."""
        found = {}
        for name in SETTINGS:
            values = [getattr(each, name) for each in self.members]
            found[name] = values[0] if len(set(values)) == 1 else values
        return found

    def __repr__(self) -> str:
        about = {k: v for k, v in self.settings.items() if v is not None or k in ("mean", "std")}
        return f"Surrogate({self.digest!r}, {', '.join(f'{k}={v!r}' for k, v in about.items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Surrogate) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __getstate__(self) -> dict[str, Any]:
        empty: dict[str, Any] = {"_ready": {}, "_graphs": {}, "rays": {}, "_predictions": {}}
        return {**self.__dict__, **empty, "evaluations": 0, "seconds": 0.0}

    def margins(
        self, problem: Problem, points: Tensor, members: Sequence[int] | None = None
    ) -> list[Margins]:
        """Return the margins of the class to reach over the flagged ones and their gradients at
        points (n, c, h, w): of every usable network, or of some. Gradients are 0 outside the
        mask."""
        with self._computing():
            chosen = self.usable(problem) if members is None else members
            return [self._margins(each, problem, points) for each in chosen]

    def recognising(self, problem: Problem) -> list[int]:
        """Return the usable networks that recognise the source image: their first guess is the
        right class, or one of the first if there are many classes. If only one network guesses
        right, it must guess otherwise for two copies with shuffled pixels, which have the image's
        colours and nothing else; several rarely guess right by chance. For a network with its own
        labels, its prediction is the right class, so that only the copies count."""
        source, found, confirmed = problem.source, list[int](), list[int]()
        pixels = source.flatten(1)
        orders = problem.noise("recognition", 0, 2, pixels[:1].shape)[0:2].flatten(1).argsort(1)
        shuffled = [pixels[:, order].view_as(source) for order in orders]
        shuffled = [each for each in shuffled if not each.equal(source)]  # as in one colour
        images = torch.stack([source, *shuffled])
        with self._computing():
            for number in self.usable(problem):
                logits = self._run(number, images)[1].detach()
                own, label = self._has_own_labels(number, problem), problem.label
                label = int(logits[0].argmax()) if own else label
                allowed = max(1, logits.shape[1] // FIRST_GUESSES)
                first, *others = ((logits > logits[:, label, None]).sum(1) < allowed).tolist()
                first = first and bool(logits[0].isfinite().all())
                if first and not own:
                    found.append(number)
                if first and not any(others):
                    confirmed.append(number)
        different = {self._weights[number] for number in found}
        return sorted({*confirmed, *(found if len(different) > 1 else [])})

    def own_labels(self, problem: Problem) -> list[int]:
        """Return the networks whose classes are not those of the model: nothing says whether they
        know the image."""
        with self._computing():
            every = range(len(self.members))
            return [each for each in every if self._has_own_labels(each, problem)]

    def classes(self, image: Tensor) -> tuple[int, ...]:
        """Return each network's number of logits for an image (c, h, w). Raise InputError if one
        cannot be differentiated at the image."""
        return tuple(member.classes(image) for member in self._on(image.device))

    def _on(self, device: torch.device) -> list[Member]:
        if device not in self._ready:
            self._ready[device] = [each.on(device) for each in self.members]
        return self._ready[device]

    @contextlib.contextmanager
    def _computing(self) -> Iterator[None]:
        started = time.perf_counter()
        try:
            with _exact():
                yield
        finally:
            self.seconds += time.perf_counter() - started

    def _run(self, number: int, points: Tensor) -> tuple[Tensor, Tensor]:
        self._count(number, points[0])
        self.evaluations += len(points)
        return self._on(points.device)[number].logits(points)

    def _count(self, number: int, image: Tensor) -> int:
        if number not in self._counts:
            member = self._on(image.device)[number]
            self._counts[number] = member.classes(image)  # checks it against the images
        return self._counts[number]

    def _has_own_labels(self, number: int, problem: Problem) -> bool:
        count = self._count(number, problem.source)
        wanted = problem.classes, problem.label, problem.goal
        return self.members[number].has_own_labels(count, *wanted)

    def _prediction(self, number: int, problem: Problem) -> int:
        key = number, problem.content, problem.source.dtype, problem.source.device
        if key not in self._predictions:
            _, logits = self._run(number, problem.source[None])
            self._predictions[key] = int(logits.argmax())
        return self._predictions[key]

    def usable(self, problem: Problem) -> list[int]:
        """Return the networks that have a margin: all, unless there is a target but no start image
        for those with their own labels."""
        leads = problem.target is None or problem.start_image is not None
        every = range(len(self.members))
        return [each for each in every if leads or not self._has_own_labels(each, problem)]

    def _margins(self, number: int, problem: Problem, points: Tensor) -> Margins:
        own, target = self._has_own_labels(number, problem), problem.target
        margin: Any = towards_start
        if own and target is not None:
            about = self._start_and_source(number, problem)
        else:
            flagged = sorted(problem.goal.flagged or ())
            flagged = [self._prediction(number, problem)] if own else flagged
            margin, about = over_flagged, self._outside(number, flagged, target, points)
        member = self._on(points.device)[number]
        self.evaluations += len(points)
        found = self._recorded(member, margin, points, about)
        gradients = found[:, :-1].view_as(points).to(points)
        return Margins(found[:, -1], problem.only_mask(gradients))

    def _recorded(self, member: Member, margin: Any, points: Tensor, about: Tensor) -> Tensor:
        """Return what `Member.differentiated` does: on a GPU from a recording, if there can be
        one."""
        key = id(member), margin, points.shape, points.dtype
        run: Callable[[Tensor, Tensor], Tensor] = partial(member.differentiated, margin)
        if points.is_cuda and key not in self._graphs:
            self._graphs[key] = None
            try:
                if len(self._graphs) <= MAX_GRAPHS:
                    self._graphs[key] = CudaGraph(run, points, about)
            except RuntimeError as error:
                # Without memory of its own for a recording, it may still run.
                if not isinstance(error, NotRecordable) and not is_out_of_memory(error):
                    raise
        return (self._graphs.get(key) or run)(points, about)

    def _outside(
        self, number: int, flagged: Sequence[int], target: int | None, like: Tensor
    ) -> Tensor:
        """Return rows with -inf for the classes that are not to be reached, and not flagged."""
        outside = torch.full((2, self._counts[number]), -math.inf)
        outside[1, flagged] = 0
        if target is None:
            outside[0] = 0
            outside[0, flagged] = -math.inf
        else:
            outside[0, target] = 0
        return to_device(outside, like.device, torch.float32)

    def _start_and_source(self, number: int, problem: Problem) -> Tensor:
        """Return the logits of the start image and of the source image."""
        if problem.start_image is None:
            wrong = "has other classes than the model, and there is a target but no start image"
            raise InputError(wrong, expected="an image of the target", input="surrogate")
        images = torch.stack([problem.start_image, problem.source])
        return self._run(number, images)[1].detach()


def over_flagged(logits: Tensor, outside: Tensor) -> Tensor:
    """Return the margin of the classes to reach over the flagged ones."""
    rival, flagged = (logits.masked_fill(each < 0, -math.inf).amax(1) for each in outside)
    return rival - flagged


def towards_start(logits: Tensor, about: Tensor) -> Tensor:
    """Return how much closer logits are to those of the start image than to the source's."""
    (start, source), given = _centred(about), _centred(logits)
    closer: Tensor = cosine_similarity(given, start[None])
    return closer - cosine_similarity(given, source[None])


OptionalSurrogate = Annotated[
    Surrogate | None,
    Range("a tb.Surrogate, or None", lambda value: isinstance(value, Surrogate | None)),
]
"""The type of a field `surrogate` of attacks and parts."""


def with_surrogate(attack: Any, surrogate: Surrogate) -> Any:
    """Return an attack with a surrogate wherever it or one of its parts takes one."""
    return _changed(attack, surrogate, ())


def _changed(part: Any, surrogate: Surrogate, around: tuple[int, ...]) -> Any:
    changes = {}
    for name, value in _values(part, around):
        inside = (*around, id(part))
        after = surrogate if name == "surrogate" else _changed(value, surrogate, inside)
        if after is not value:
            changes[name] = after
    return replace(part, **changes) if changes else part


def has_surrogate(attack: Any, around: tuple[int, ...] = ()) -> bool:
    """Return whether an attack or one of its parts has a surrogate."""
    inside = (*around, id(attack))
    return isinstance(attack, Surrogate) or any(
        has_surrogate(value, inside) for _, value in _values(attack, around)
    )


def _values(part: Any, around: tuple[int, ...]) -> list[tuple[str, Any]]:
    """Return the fields of a part with their values; none if the part contains itself."""
    if not is_dataclass(part) or isinstance(part, type) or id(part) in around:
        return []
    return [(each.name, getattr(part, each.name, None)) for each in fields(part) if each.init]


def _centred(logits: Tensor) -> Tensor:
    return logits - logits.mean(1, keepdim=True)


def _each(name: str, value: Any, count: int) -> list[Any]:
    """Return a setting for each of `count` networks."""
    listed = isinstance(value, list | tuple)
    nested = listed and any(each is None or is_several(each) for each in value)
    if not (nested or (name == "labels" and is_several(value))):
        return [value] * count
    if len(value) != count:
        given = f"has {len(value)} entries for {count} network{'s' * (count > 1)}"
        raise InputError(given, expected="one for all networks, or one for each", input=name)
    return list(value)


def _member(trust: bool, network: Any, mean: Any, std: Any, size: Any, labels: Any) -> Member:
    channels = batch = None
    try:
        loaded = load_network(network, trust=trust) if isinstance(network, str) else network
        if isinstance(loaded, Network):
            mean, std = loaded.normalisation(mean, std)
            channels, batch, network = loaded.shape[0], loaded.batch, loaded.forward
            size = loaded.size if size is None else size
    except InputError as error:
        raise error.renamed({"model": "surrogate"}) from None
    normalise, sides = _normalisation(mean, std), whole(1, LARGEST_SIDE).holds
    if size is not None:
        sizes = tuple(size) if is_several(size) else pair(size)
        right = 0 < len(sizes) <= 2 and all(map(sides, sizes))
        require(right, "size", size, f"a length from 1 to {LARGEST_SIDE}, or height and width")
        size = (int(sizes[0]), int(sizes[-1]))
    require(labels in (None, "own"), "labels", labels, '"own", or none')
    about = numbers_in(mean), numbers_in(std), size, labels
    return Member(network, *about, channels, batch, normalise)


def _normalisation(
    mean: Numbers, std: Numbers, device: torch.device = CPU, channels: int | None = None
) -> Normalisation:
    options: Any = {"dtype": torch.float32, "device": device, "channels": channels}
    return Normalisation.checked(mean, std, **options)


@contextlib.contextmanager
def _exact() -> Iterator[None]:
    """Float32 without TF32, and kernels that give the same bits every time."""
    deterministic = torch.backends.cudnn.flags(
        enabled=True, benchmark=False, deterministic=True, allow_tf32=False
    )
    with matrix_products(False), deterministic:
        yield
