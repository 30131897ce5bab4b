"""A small transformer and a small CLIP in folders, as Hugging Face has them, and pictures of
classes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
import transformers
from PIL import Image

MEAN, STD = [0.5, 0.4, 0.3], [0.2, 0.25, 0.3]
SETTINGS = {
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": MEAN,
    "image_processor_type": "ViTImageProcessor",
    "image_std": STD,
    "resample": 2,
    "rescale_factor": 1 / 255,
    "size": {"height": 32, "width": 32},
}
NAMES = ("ant", "bee", "cat", "dog", "eel")


def vit(folder: Path, settings: dict | None = SETTINGS, **config: object) -> Path:
    """A small transformer, as a folder that save_pretrained makes."""
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    network = transformers.ViTForImageClassification(
        transformers.ViTConfig(
            **shape,
            intermediate_size=64,
            image_size=32,
            patch_size=8,
            **({"id2label": dict(enumerate(NAMES))} | config),
        )
    )
    with torch.no_grad():  # so that images have various labels
        network.classifier.weight.normal_(0, 1)
        noise = torch.rand(16, 3, 1, 1) * 4 - 2 + torch.rand(16, 3, 32, 32)
        network.classifier.bias.sub_(network.eval()(noise).logits.mean(0))
    network.save_pretrained(folder)
    if settings is not None:
        (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return folder


def clip(folder: Path) -> Path:
    """A small CLIP, with a vocabulary of bytes."""
    torch.manual_seed(0)
    small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    network = transformers.CLIPModel(
        transformers.CLIPConfig(
            text_config={
                **small,
                "intermediate_size": 64,
                "vocab_size": 514,
                "bos_token_id": 512,
                "eos_token_id": 513,
            },
            vision_config={**small, "intermediate_size": 64, "image_size": 32, "patch_size": 8},
            projection_dim=16,
        )
    )
    network.save_pretrained(folder)
    letters = [chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 256))]
    letters += [chr(256 + number) for number in range(256 - len(letters))]
    words = [*letters, *(f"{letter}</w>" for letter in letters)]
    words += ["<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({word: n for n, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    (folder / "preprocessor_config.json").write_text(
        json.dumps(
            {
                **SETTINGS,
                "image_processor_type": "CLIPImageProcessor",
                "do_center_crop": True,
                "size": {"shortest_edge": 32},
                "crop_size": {"height": 32, "width": 32},
            }
        )
    )
    return folder


def piped(folder: Path, pictures: np.ndarray) -> list[str]:
    """The names of the classes that transformers' own pipeline gives."""
    pipe = transformers.pipeline("image-classification", model=str(folder), top_k=1)
    return [pipe(Image.fromarray(picture))[0]["label"] for picture in pictures]


def class_folders(root: Path, model: Path, pictures: np.ndarray) -> dict[str, str]:
    """Pictures of several sizes, each in a folder called by the class that the pipeline gives it;
    the class of each."""
    found = {}
    for number, pixels in enumerate(pictures):
        size = (33 + 7 * number, 64 - 4 * number)
        picture = Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC)
        [name] = piped(model, np.asarray(picture)[None])
        (root / name).mkdir(parents=True, exist_ok=True)
        picture.save(root / name / f"{number}.png")
        found[f"{name}/{number}.png"] = name
    return found
