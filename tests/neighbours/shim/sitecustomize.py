"""Lets torchvision, built for CUDA, be imported beside a CPU build of torch; for tests alone.

Two operators that it registers meanings for are declared before it is imported. Python runs this
file when it starts, in every process whose PYTHONPATH has its folder.
"""

import sys

OPERATORS = ("nms", "qnms")
KEPT = []


class Declaring:
    """Finds nothing, but is asked first."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name != "torchvision":
            return
        sys.meta_path.remove(self)
        import torch

        if not torch.cuda.is_available():
            KEPT.append(torch.library.Library("torchvision", "FRAGMENT"))
            for operator in OPERATORS:
                KEPT[0].define(f"{operator}(Tensor dets, Tensor scores, float threshold) -> Tensor")


sys.meta_path.insert(0, Declaring())
