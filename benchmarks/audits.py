"""An audit of one of the networks of `nets.py`, by `tollbox.audit`: its folder, and the verdict.

    python benchmarks/audits.py --net resnet20 --device cuda --workers 5 --time 440 --out DIR

The images are the first ones, whatever the network says of them; those that it misclassifies are
left out and counted. With the same arguments an audit that was begun goes on. torch, NumPy and
SciPy are enough to run it; where Pillow is missing the page has no pictures, and `tollbox audit
--out DIR` makes it again where that is, without the network. `--record FILE` keeps the answers with
the command and the seconds that it took.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import common
import nets

import tollbox as tb
from tollbox.studies.events import CellEnded, Event, WorkerProgress


class Lines:
    """Prints a line about progress every ten seconds or so."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()
        self._cells = 0
        self._queries: dict[int, int] = {}

    def __call__(self, event: Event) -> None:
        if isinstance(event, CellEnded):
            self._cells += 1
        if isinstance(event, WorkerProgress):
            self._queries.update(event.queries)
        now = time.monotonic()
        if now - self._last < common.EVERY:
            return
        self._last = now
        queries, seconds = sum(self._queries.values()), now - self._began
        print(
            f"{seconds:.0f} s, {self._cells} cells, {queries / seconds:.0f} queries/s", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--net", choices=list(common.CLASSES), default="resnet20")
    parser.add_argument("--images", type=int, default=50)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--budget", type=float, default=None)
    parser.add_argument("--time", type=float, default=math.inf, help="seconds")
    parser.add_argument("--worth", type=float, default=None)
    parser.add_argument("--epsilon", default=None)
    parser.add_argument("--batch-size", type=int, default=None)
    parser.add_argument("--workers", type=int, default=1, help="processes that share the images")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--record", type=Path, default=None, help="write the JSON here")
    args = parser.parse_args()
    common.use_tf32(False)
    mean, std = nets.NORMALISATION[args.net]
    network = nets.network(args.net, folded=True)
    model = tb.models.from_torch(
        network, mean=mean, std=std, device=args.device, classes=common.CLASSES[args.net]
    )
    images, labels = nets.images(args.net, args.images)
    began = time.monotonic()
    found = tb.audit(
        model,
        images,
        labels,
        out=args.out,
        name=args.net,
        budget=args.budget,
        worth=args.worth,
        epsilon=args.epsilon,
        batch_size=args.batch_size,
        workers=args.workers,
        seed=args.seed,
        time_limit=args.time,
        tell=Lines(),
    )
    seconds = round(time.monotonic() - began)
    print(f"{args.net}: {seconds} s; {args.out}")
    print(found.verdict)
    for sentence in (*found.data["advice"], *found.data["notes"]):
        print(f"- {sentence}")
    report = {**common.provenance(args.device), "seconds": seconds, "answers": found.data}
    common.write(args.record, report)


if __name__ == "__main__":
    main()
