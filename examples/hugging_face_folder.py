"""A classifier in a Hugging Face folder (`save_pretrained`), on a folder of pictures.

    pip install transformers
    python examples/hugging_face_folder.py path/to/model path/to/pictures

The pictures lie in a folder for each class, called like the classes of the model; they may have any
size. Names, size, mean and std are those of the model's own files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import tollbox as tb

INTERPOLATIONS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
"""By the number that Pillow, and so transformers, has for each."""


def resizing(settings: dict[str, Any]) -> tb.Resizing:
    """How the model's own preprocessing makes pictures fit."""
    size, crop = settings["size"], settings.get("crop_size")
    whole = size["shortest_edge"] if "shortest_edge" in size else (size["height"], size["width"])
    cut = (crop["height"], crop["width"]) if settings.get("do_center_crop") and crop else None
    return tb.Resizing(whole, cut, INTERPOLATIONS[settings.get("resample", 2)])


def main(folder: Path, pictures: Path, limit: int = 4, budget: float = 2000) -> tb.Results:
    from transformers import AutoModelForImageClassification

    network = AutoModelForImageClassification.from_pretrained(folder).float()
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    names = tuple(network.config.id2label[label] for label in range(network.config.num_labels))
    model = tb.models.from_torch(network, mean=settings["image_mean"], std=settings["image_std"])
    images = tb.load_images(pictures, limit=limit, resizing=resizing(settings), names=names)
    results = tb.run(
        tb.preset("frugal"),
        model,
        images.images,
        list(images.labels),
        prices=tb.Prices(source=10, other=1),
        budget=budget,
    )
    for name, label, result in zip(images.names, images.labels, results, strict=True):
        print(f"{name} ({names[label]}): {result.stop}, l2 {result.distance:.3f}, {result.ledger}")
    return results


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
