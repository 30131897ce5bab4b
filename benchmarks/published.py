"""The paper's Table 1 on ResNet-50: median l2 over 500 images, by preset and price."""

from __future__ import annotations

BUDGETS = {2.0: 10_000.0, 5.0: 15_000.0, 100.0: 150_000.0, 1000.0: 250_000.0}
"""What was spent at each price."""

RESNET_50: dict[str, tuple[float, float, float, float]] = {
    "surfree": (4.09, 5.19, 5.21, 17.49),
    "a-surfree": (3.45, 3.52, 3.80, 7.59),
    "hsja": (2.24, 2.77, 4.66, 23.72),
    "hsja+as": (2.16, 2.72, 4.09, 19.07),
    "hsja+agrest": (2.19, 2.51, 2.49, 14.62),
    "a-hsja": (2.13, 2.39, 2.16, 12.28),
    "geoda": (2.80, 3.21, 4.02, 10.80),
    "geoda+as": (2.66, 3.12, 3.32, 9.24),
    "geoda+agrest": (2.89, 2.95, 2.19, 6.28),
    "a-geoda": (2.93, 2.80, 2.11, 5.78),
    "cgba": (1.21, 1.42, 2.22, 9.97),
    "cgba+as": (1.17, 1.39, 2.06, 9.28),
    "cgba+agrest": (1.12, 1.36, 1.63, 5.73),
    "a-cgba": (1.15, 1.33, 1.58, 6.23),
}


def published(preset: str, price: float, budget: float) -> float | None:
    """The paper's median at its own budget, if it has one."""
    if preset not in RESNET_50 or BUDGETS.get(price) != budget:
        return None
    return RESNET_50[preset][list(BUDGETS).index(price)]
