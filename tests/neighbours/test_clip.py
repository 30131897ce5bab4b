"""clip:, zero-shot, with transformers: the labels of its own pipeline, and names for all uses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from small_models import MEAN, STD, clip

import tollbox as tb
from tollbox.errors import InputError


def test_clip_answers_as_the_zero_shot_pipeline(
    tmp_path: Path, pictures: np.ndarray, images: torch.Tensor
) -> None:
    folder, names = clip(tmp_path / "clip"), tmp_path / "names.txt"
    names.write_text("a wall\nsea\tsome water\nx\tzzzzzzzzzz\n")
    prompts = ["a photo of a a wall", "some water", "zzzzzzzzzz"]
    network = transformers.CLIPModel.from_pretrained(folder).eval()
    tokens = transformers.CLIPTokenizer.from_pretrained(folder)(
        prompts, padding=True, return_tensors="pt"
    )
    normalised = (images - torch.tensor(MEAN).reshape(1, 3, 1, 1)) / torch.tensor(STD).reshape(
        1, 3, 1, 1
    )
    with torch.inference_mode():
        wanted = network(**tokens, pixel_values=normalised).logits_per_image.argmax(1)
    model = tb.models.load(f"clip:{folder}", names=names)
    assert model.names == ("a wall", "sea", "x")
    assert model(images).tolist() == wanted.tolist()
    many = tb.models.load(f"clip:{folder}")
    assert many.classes == 1000
    assert many.names is not None
    assert many.names[:2] == ("tench", "goldfish")
    [result] = tb.run(tb.preset("a-hsja"), many, images[:1], many(images[:1]), budget=60)
    assert result.ledger.cost <= 60
    with pytest.raises(InputError, match=r"has no weights for classifier\.bias.*write clip:"):
        tb.models.load(f"hf:{folder}")


def test_names_are_asked_with_and_shown(tmp_path: Path, pictures: np.ndarray, tollbox: Any) -> None:
    """One file of names: CLIP is asked with them, folders go by them, and they are shown."""
    folder = clip(tmp_path / "clip")
    (tmp_path / "names.txt").write_text("a wall\nsea\tsome water\nx\tzzzzzzzzzz\n")
    for number, name in enumerate(("sea", "A_wall", "x")):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        picture = Image.fromarray(pictures[number]).resize((40 + number, 50))
        picture.save(tmp_path / "pictures" / name / f"{number}.png")
    command = ["attack", "--model", f"clip:{folder}", "--images", "pictures", "--budget", "40"]
    done = tollbox(*command, "--names", "names.txt", "--out", "out")
    assert "Images are resized to 32 on the shorter side" in done.stdout, done.stderr
    ledger = json.loads((tmp_path / "out" / "ledger.json").read_text())
    assert [(each["label"], each["class"]) for each in ledger["images"]] == [
        (0, "a wall"),
        (1, "sea"),
        (2, "x"),
    ]
    refused = tollbox(*command, "--out", "other")  # ImageNet's names, which no folder has
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "the class 'A_wall' is none of the 1000 class names" in refused.stderr
