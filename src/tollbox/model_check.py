"""The model check: whether a model is fit to be measured, and whether its answers are exact.

1. It precedes a run, uses a few images, and takes at most a few dozen batches, which are not
   charged. A metered model is not probed: each row would be a query.
2. The same rows are sent again, in other positions, among other neighbours, and in all batch shapes
   that a run would use. A label that changes makes the model unfit: results would depend on the
   batch. A network must also be in eval mode. Each finding is a sentence.
3. Labels rarely change where logits change in the last bits. So the network's outputs are compared
   bit for bit where they are known (`Model.outputs`); the result is an `Exactness`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from .core.exactness import Exactness, Seen, listed
from .core.execution import LARGEST_BATCH
from .core.model import LAYOUTS, Model, as_model, labels_of
from .core.validation import check_whole, expect
from .engine.batch import default_batch_size
from .engine.sender import Sender
from .errors import InputError, described, mention

CHECKED_IMAGES = 8
"""Number of images that a model is checked on before a run."""
EXACT_SIZES = (128, 64, 256, 32, 512)
"""Batch sizes that `exact_choice` tries after the default."""
NOISE = 0.01
"""Standard deviation of the noise of probes; it makes all rows distinct."""
CHANCE, PLACE = "chance", "its place in the batch"
NEIGHBOURS, SHAPE = "its neighbours in the batch", "the batch shape"
HOW = {
    CHANCE: "sent twice",
    PLACE: "sent in another order",
    NEIGHBOURS: "sent among other images",
    SHAPE: "sent in a batch of another shape",
}
"""What an answer may depend on, and how the images were sent again to test it."""


class Examined(NamedTuple):
    """What the check found: reasons why the model is unfit, a sentence each, and its exactness."""

    findings: list[str]
    exactness: Exactness


def check_model(model: Model, images: Tensor, batch_size: int) -> list[str]:
    """Return the reasons why a model is unfit, from a few images (n, c, h, w)."""
    model = as_model(model)
    check_whole("batch_size", batch_size, 1, LARGEST_BATCH)
    is_tensor = isinstance(images, Tensor)
    right = is_tensor and images.ndim == 4 and len(images) > 0
    given = f"has shape {tuple(images.shape)}" if is_tensor else "is no tensor"
    expect(right, given, "a tensor (n, c, h, w), not empty", input="images")
    return examine(model, images, shapes_of(model, batch_size)).findings


def shapes_of(model: Model, batch_size: int, one_shape: bool = False) -> list[int]:
    """Return the batch shapes of a run in increasing order."""
    return Sender(model, batch_size, one_shape, metered=False).shapes


@torch.no_grad()
def examine(
    model: Model, images: Tensor, shapes: Sequence[int], *, hasty: bool = False
) -> Examined:
    """Check a model in batches of these increasing shapes; with `hasty`, stop at the first
    dependence."""
    findings = []
    if model.network is not None and model.network.training:
        findings.append("The network is in training mode: call .eval() on it.")
    changed: dict[str, int] = {}
    try:
        comparison = _Comparison(model, images, shapes[-1])
        for kind, labels in comparison.differences(shapes):
            changed[kind] = max(labels, changed.get(kind, 0))
            if hasty:
                break
    except (Exception, SystemExit) as error:
        failure = f"The model failed on a batch: {described(error)}"
        return Examined([*findings, failure], Exactness(Seen.FAILED, shapes=tuple(shapes)))
    findings += [
        f"{changed[kind]} of {comparison.compared[kind]} labels changed when the same images were "
        f"{how}: results would depend on the batch."
        for kind, how in HOW.items()
        if changed.get(kind)
    ]
    exactness = Exactness(
        comparison.seen,
        tuple(kind for kind in HOW if kind in changed),
        tuple(shapes),
        model.layout,
        model.precision,
        comparison.digest,
    )
    return Examined(findings, exactness)


class _Comparison:
    """A comparison of a model's answers to the same rows, sent in different ways."""

    def __init__(self, model: Model, images: Tensor, size: int) -> None:
        self._model, self._pool = model, _pool(images, 2 * size, model)
        self._size, self._whole = size, torch.arange(size)
        self.seen, self.digest = Seen.LABELS, ""
        self._asked: Callable[[Tensor], Tensor] = model  # replaced by `outputs` if logits are known
        self.compared = dict.fromkeys(HOW, 0)
        """Maximum number of rows that were compared, by kind."""

    def differences(self, shapes: Sequence[int]) -> Iterator[tuple[str, int]]:
        """Yield each dependence that is found, with the number of labels that changed."""
        whole = decided = self._ask(self._whole)
        if self._model.outputs is not None:
            self._asked = self._model.outputs
            whole = self._ask(self._whole)
            if whole.is_floating_point():
                self.seen = Seen.LOGITS
            else:
                self._asked, whole = self._model, decided
        content = whole.contiguous().view(torch.uint8).numpy().tobytes()
        self.digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        if changed := int((labels_of(whole) != decided).sum()):
            yield CHANCE, changed
        for shape in reversed(shapes):
            reference = whole
            if shape < self._size:
                reference = self._ask(self._whole[:shape])
                yield from self._compared(SHAPE, whole[:shape], reference)
            for kind, rows in probes(shape, self._size, thorough=shape == self._size):
                answer = self._ask(rows)
                same = rows < shape  # others are neighbours only
                if kind == NEIGHBOURS:
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
        return self._asked(self._model.sent(self._pool[rows].to(self._model.device))).cpu()


def probes(shape: int, size: int, *, thorough: bool) -> Iterator[tuple[str, Tensor]]:
    """Yield what each batch tests and its `shape` rows, as numbers in the pool. From row `size` on,
    the pool has other neighbours; the last row is grey."""
    rows = torch.arange(shape)
    yield PLACE, rows.flip(0)
    yield NEIGHBOURS, torch.where(rows % 2 == 0, rows, rows + size)
    if thorough:
        generator, few = torch.Generator().manual_seed(shape), rows < (shape + 7) // 8
        yield CHANCE, rows
        yield PLACE, rows.roll(1)
        for _ in range(3):
            yield PLACE, torch.randperm(shape, generator=generator)
        yield NEIGHBOURS, torch.where(rows % 2 == 1, rows, rows + size)
        yield NEIGHBOURS, torch.where(few, rows, 0)  # like padding
        yield NEIGHBOURS, torch.where(few, rows, 2 * size)
        yield NEIGHBOURS, torch.zeros_like(rows)


def _pool(images: Tensor, rows: int, model: Model) -> Tensor:
    """Return `rows` distinct rows and a grey one: the images, blends of two, where decisions are
    close, and both again with a little noise. They are the same on any machine, and stay on the
    host, so that the device holds one batch at a time."""
    images = images.to("cpu", model.dtype)
    clean = torch.cat([images, torch.lerp(images, images.roll(1, 0), 0.5)])
    pool = clean[torch.arange(rows) % len(clean)]
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(pool.shape, generator=generator, dtype=pool.dtype).mul_(NOISE)
    noise[: len(clean)] = 0
    return torch.cat([pool.add_(noise).clamp_(0, 1), torch.full_like(pool[:1], 0.5)])


def exact_choice(model: Model, images: Tensor, batch_size: int | None) -> tuple[Model, Examined]:
    """Return the model in the first layout, and the findings at the first batch size, in which a
    row depends only on itself; raise InputError if there is none. If `batch_size` is given, or the
    model takes only one, no other size is tried."""
    sizes = [batch_size or default_batch_size(model)]
    if batch_size is None and model.batch is None:
        sizes = list(dict.fromkeys((*sizes, *EXACT_SIZES)))
    others = () if model.relaid is None else LAYOUTS.values()
    models, tried = {model.layout: model}, []
    for size in sizes:
        for layout in dict.fromkeys((model.layout, *others)):
            if layout not in models:
                models[layout] = model.in_layout(layout)
            examined = examine(models[layout], images, [size], hasty=True)
            if examined.exactness.exact:
                return models[layout], examined
            tried.append(examined)
    known = [each.exactness for each in tried if each.exactness.known]
    if not known:
        raise InputError(f"is set, and {tried[0].findings[-1]}", input="exact")
    matters = dict.fromkeys(words for each in known for words in each.matters)
    layouts = dict.fromkeys(each.layout for each in known if each.layout)
    precision = "turn TF32 off" if known[0].precision == "TF32" else "take another precision"
    where = f"{known[0].precision}, batches of {listed(map(str, sizes))}"
    where += f", {listed(layouts)}" if layouts else ""
    raise InputError(
        f"is set, and a row of the model depends on {listed(matters)} ({where})",
        expected="a batch shape and layout in which it depends only on itself",
        remedy=f"{precision}, or another {mention('batch_size')} (1 is slow, but a row is then "
        f"alone), or leave {mention('exact')} out",
        input="exact",
    )


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run the block with `count` threads of torch: sums on a CPU may depend on the number."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
