"""The model check: is this model fit to be measured, and is what it gives exact?

1. Uncharged, on a few images, before a run; some tens of batches at most. A metered model is not
   probed: each row would be a query.
2. The same rows are asked again, in other places, among other neighbours, and in all batch shapes
   that a run would use. A label that changes makes the model unfit: results would depend on the
   batch. Each such finding is a sentence. A network must also be in eval mode.
3. Labels rarely change where their logits do in the last bits. So what the network gives before
   the decision is compared bit for bit where it is known (`Model.outputs`): that is `Exactness`.
4. `exact_choice` looks for one batch shape and layout in which a row depends on nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .core.device import tf32_allowed
from .core.exactness import Exactness, Seen, listed
from .core.model import LAYOUTS, Model, as_model, labels_of
from .core.validation import check_whole
from .engine.batch import LARGEST_BATCH, default_batch_size
from .engine.sender import Sender
from .errors import InputError, mention

CHECKED_IMAGES = 8
"""Images that a model is checked on before a run."""
EXACT_SIZES = (128, 64, 256, 32, 512)
"""Batch sizes that `exact_choice` tries after the default."""
NOISE = 0.01
"""Of the probes; enough to make all rows distinct."""
HOW = {
    "chance": "asked twice",
    "place": "asked in another order",
    "neighbours": "asked among other images",
    "shape": "asked in a batch of another shape",
}


class ModelWarning(UserWarning):
    """The model is not fit to be measured; the message says why."""


class Examined(NamedTuple):
    """What the check found."""

    findings: list[str]
    """What makes the model unfit, a sentence each."""
    exactness: Exactness


class Probe(NamedTuple):
    """A batch of rows, by their numbers in the pool, and what it is to show."""

    kind: str
    rows: Tensor


def check_model(model: Model, images: Tensor, batch_size: int) -> list[str]:
    """What makes the model unfit; empty if nothing was found. `images` are a few, (n, c, h, w)."""
    model = as_model(model)
    check_whole("batch_size", batch_size, 1, LARGEST_BATCH)
    if not isinstance(images, Tensor) or images.ndim != 4 or len(images) == 0:
        given = f"has shape {tuple(images.shape)}" if isinstance(images, Tensor) else "is no tensor"
        raise InputError(given, expected="a tensor (n, c, h, w), not empty", input="images")
    return examine(model, images, shapes_of(model, batch_size)).findings


def shapes_of(model: Model, batch_size: int, one_shape: bool = False) -> list[int]:
    """The batch shapes of a run, rising."""
    return Sender(model, batch_size, one_shape, metered=False).shapes


@torch.no_grad()
def examine(
    model: Model, images: Tensor, shapes: Sequence[int], *, hasty: bool = False
) -> Examined:
    """All that is found of a model in batches of these shapes, which rise; with `hasty`, the first
    thing that a row depends on."""
    findings = []
    if model.network is not None and model.network.training:
        findings.append("The network is in training mode: call .eval() on it.")
    changed: dict[str, int] = {}
    try:
        asking = _Asking(model, images, shapes[-1])
        for kind, labels in asking.differences(shapes):
            changed[kind] = max(labels, changed.get(kind, 0))
            if hasty:
                break
    except Exception as error:
        failure = f"The model failed on a batch: {type(error).__name__}: {error}"
        return Examined([*findings, failure], Exactness(Seen.FAILED, shapes=tuple(shapes)))
    findings += [
        f"{changed[kind]} of {asking.compared[kind]} labels changed when the same images were "
        f"{how}: results would depend on the batch."
        for kind, how in HOW.items()
        if changed.get(kind)
    ]
    matters: dict[str, Any] = dict.fromkeys(changed, True)
    exactness = Exactness(
        asking.seen,
        **matters,
        shapes=tuple(shapes),
        layout=model.layout,
        precision=precision_of(model),
        digest=asking.digest,
    )
    return Examined(findings, exactness)


class _Asking:
    """A model that is asked for rows of a pool, in many ways."""

    def __init__(self, model: Model, images: Tensor, size: int) -> None:
        self._model, self._pool = model, _pool(images, 2 * size, model)
        self._size, self._whole = size, torch.arange(size)
        self.seen, self.digest = Seen.LABELS, ""
        self._asked: Callable[[Tensor], Tensor] = model
        """Gives logits if they are known, else labels."""
        self.compared = dict.fromkeys(HOW, 0)
        """Rows that were compared at most, by kind."""

    def differences(self, shapes: Sequence[int]) -> Iterator[tuple[str, int]]:
        """What a row is found to depend on, again and again, with how many labels changed."""
        whole = decided = self._ask(self._whole)
        outputs = self._model.outputs
        if outputs is not None:
            logits = outputs(self._sent(self._whole)).cpu()
            if logits.is_floating_point():
                self.seen, self._asked, whole = Seen.LOGITS, outputs, logits
        content = whole.contiguous().view(torch.uint8).numpy().tobytes()
        self.digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        if changed := int((labels_of(whole) != decided).sum()):
            yield "chance", changed
        for shape in reversed(shapes):
            reference = whole
            if shape < self._size:
                reference = self._ask(self._whole[:shape])
                yield from self._compared("shape", whole[:shape], reference)
            for kind, rows in probes(shape, self._size, thorough=shape == self._size):
                answer = self._ask(rows)
                same = rows < shape  # others are neighbours only
                if kind == "neighbours":
                    same = rows == self._whole[:shape]
                yield from self._compared(kind, reference[rows[same]], answer[same])

    def _compared(self, kind: str, first: Tensor, second: Tensor) -> Iterator[tuple[str, int]]:
        self.compared[kind] = max(self.compared[kind], len(first))
        alike = first == second
        if first.is_floating_point():
            alike |= first.isnan() & second.isnan()
        if not alike.all():
            yield kind, int((labels_of(first) != labels_of(second)).sum())

    def _ask(self, rows: Tensor) -> Tensor:
        return self._asked(self._sent(rows)).cpu()

    def _sent(self, rows: Tensor) -> Tensor:
        return self._model.sent(self._pool[rows].to(self._model.device))


def probes(shape: int, size: int, *, thorough: bool) -> Iterator[Probe]:
    """Batches of `shape` rows; those from `size` on in the pool are other neighbours, and the last
    of them is grey."""
    rows = torch.arange(shape)
    generator = torch.Generator().manual_seed(shape)
    yield Probe("place", rows.flip(0))
    yield Probe("neighbours", torch.where(rows % 2 == 0, rows, rows + size))
    if thorough:
        yield Probe("chance", rows)
        yield Probe("place", rows.roll(1))
        for _ in range(3):
            yield Probe("place", torch.randperm(shape, generator=generator))
        yield Probe("neighbours", torch.where(rows % 2 == 1, rows, rows + size))
        yield Probe("neighbours", torch.where(rows < (shape + 7) // 8, rows, 0))  # as padding is
        yield Probe("neighbours", torch.where(rows < (shape + 7) // 8, rows, 2 * size))
        yield Probe("neighbours", torch.zeros_like(rows))


def _pool(images: Tensor, rows: int, model: Model) -> Tensor:
    """So many distinct rows: the images, blends of two, where decisions are close, and both again
    with a little noise; and a grey one. The same on any machine, and on the host: one batch at a
    time takes memory of the device."""
    images = images.to("cpu", model.dtype)
    count, numbers = len(images), torch.arange(rows)
    parts = [images, torch.lerp(images, images.roll(1, 0), 0.5)]
    pool = torch.cat(parts)[numbers % (2 * count)]
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(pool.shape, generator=generator, dtype=pool.dtype).mul_(NOISE)
    noise[: 2 * count] = 0
    grey = torch.full_like(pool[:1], 0.5)
    return torch.cat([pool.add_(noise).clamp_(0, 1), grey])


def precision_of(model: Model) -> str:
    """What the model computes in, in a word: as it was told, else as torch is set."""
    dtype = model.running.get("dtype", str(model.dtype).removeprefix("torch."))
    if dtype == "float32" and model.device.type == "cuda":
        told = model.running.get("tf32")
        if tf32_allowed() if told is None else told == "true":
            return "TF32"
    return dtype


# -- exact ----------------------------------------------------------------------------------------


def exact_choice(model: Model, images: Tensor, batch_size: int | None) -> tuple[Model, Examined]:
    """The model in the first layout, and what was found at the first batch size, with which a row
    depends on nothing else; raises InputError if there is none.

    A batch size that is given, or the only one that the model takes, is the only one tried.
    """
    if batch_size is None and model.batch is None:
        sizes = list(dict.fromkeys((default_batch_size(model), *EXACT_SIZES)))
    else:
        sizes = [batch_size or default_batch_size(model)]
    others = [] if model.relaid is None else list(LAYOUTS.values())
    models, tried = {model.layout: model}, []
    for size in sizes:
        for layout in dict.fromkeys((model.layout, *others)):
            if layout not in models:
                models[layout] = model.in_layout(layout)
            examined = examine(models[layout], images, [size], hasty=True)
            if examined.exactness.exact:
                return models[layout], examined
            tried.append(examined)
    raise _no_exact_shape(sizes, tried)


def _no_exact_shape(sizes: list[int], tried: list[Examined]) -> InputError:
    matters = dict.fromkeys(words for each in tried for words in each.exactness.matters)
    known = [each.exactness for each in tried if each.exactness.known]
    if not known:
        return InputError(f"is set, and {tried[0].findings[-1]}", input="exact")
    layouts = list(dict.fromkeys(each.layout for each in known if each.layout))
    precision = "turn TF32 off" if known[0].precision == "TF32" else "take another precision"
    batches = f"batches of {listed([str(size) for size in sizes])}"
    where = f"{known[0].precision}, {batches}{f', {listed(layouts)}' if layouts else ''}"
    return InputError(
        f"is set, and a row of the model depends on {listed(list(matters))} ({where})",
        expected="a batch shape and layout in which it depends on nothing else",
        remedy=f"{precision}, or another {mention('batch_size')} (1 is slow, but a row is then "
        f"alone), or leave {mention('exact')} out",
        input="exact",
    )


@contextmanager
def threads(count: int) -> Iterator[None]:
    """While entered, torch has so many threads: a CPU's sums may depend on their number."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
