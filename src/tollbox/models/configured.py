"""What a model's own configuration says of its images, beside what the user says.

Mean and std are the user's where given, else the configuration's. A record has them in words, since
the user need not have written them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..core.preprocessing import Preprocessing
from ..errors import InputError, mention
from .source import Network

Numbers = Sequence[float] | None


def grey(network: Network) -> Tensor | None:
    """An image that the network takes, if it is known which."""
    channels, height, width = network.shape
    own = network.preprocessing
    if own is not None and own.size is not None:
        height, width = height or own.size[0], width or own.size[1]
    if channels is None or height is None or width is None:
        return None
    return torch.full((channels, height, width), 0.5)


def normalisation(
    source: str, network: Network, mean: Numbers, std: Numbers
) -> tuple[Numbers, Numbers]:
    """Mean and std: the user's, or else the configuration's."""
    if network.lacking and mean is None and std is None:
        raise InputError(
            f"is {source!r}, which {network.lacking}",
            remedy=f"give {mention('mean')} and {mention('std')} (0 and 1 if it takes images as "
            "they are)",
            input="model",
        )
    own = network.preprocessing or Preprocessing()
    return own.mean if mean is None else mean, own.std if std is None else std


def normalised_in_words(network: Network, mean: Numbers, std: Numbers) -> dict[str, str]:
    """Mean and std for a record, where the user need not have given them."""
    if network.preprocessing is None:
        return {}
    given = {"mean": numbers(mean), "std": numbers(std)}
    return {
        name: ", ".join(f"{value:.9g}" for value in values)
        for name, values in given.items()
        if values is not None
    }


def numbers(values: Numbers | float) -> tuple[float, ...] | None:
    """One number, or several, as a tuple."""
    if values is None:
        return None
    return tuple(torch.as_tensor(values, dtype=torch.float64).flatten().tolist())
