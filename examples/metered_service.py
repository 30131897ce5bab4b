"""A service of one's own that bills every answer, attacked through `module:function`.

    python examples/metered_service.py

`classify` stands for whatever asks your service: here the embedded model, which writes each answer
into `bill.csv` of the current folder. With `--metered` only rows are sent that are certain to be
charged, and nothing is asked beside the attack, but for the first image, on which a model is tried
twice when it is loaded. So the bill and the ledger agree to the last row.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

from torch import Tensor

import tollbox as tb

HERE = Path(__file__).parent
BILL = Path("bill.csv")
SHIPPED = tb.models.embedded()


def classify(images: Tensor) -> list[int]:
    """The labels of images (n, c, h, w) in [0,1], each of which is billed."""
    labels: list[int] = SHIPPED.model(images).tolist()
    with open(BILL, "a", newline="") as file:
        csv.writer(file).writerows([label] for label in labels)
    return labels


def pictures() -> list[tuple[Tensor, int]]:
    """What is attacked: any sequence of (image, label)."""
    return list(zip(SHIPPED.images, SHIPPED.labels.tolist(), strict=True))


def main() -> None:
    BILL.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tollbox", "attack", "--metered"]
    command += ["--model", "metered_service:classify", "--images", "metered_service:pictures"]
    command += ["--limit", "3", "--price", "10", "--budget", "600", "--out", "metered-output"]
    subprocess.run(command, check=True, env=environment())
    with open("metered-output/results.csv", newline="") as file:
        charged = sum(int(row["queries"]) for row in csv.DictReader(file))
    billed = len(BILL.read_text().splitlines())
    print(f"billed {billed} = charged {charged} + {billed - charged} when the model was loaded")


def environment() -> dict[str, str]:
    """That of this process, in which this module can be imported."""
    path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


if __name__ == "__main__":
    main()
