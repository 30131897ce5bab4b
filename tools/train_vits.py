"""Train the two small vision transformers and write `src/tollbox/models/tiny_vit_*.safetensors`.

apt-get install dataset-fashion-mnist
.venv/bin/python tools/train_vits.py            # about five minutes on one core
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch.nn import functional
from train_embedded import accuracy, augmented, read

from tollbox.models.stand_ins import PATCHES, TinyViT

BATCH_SIZE = 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--out", type=Path, default=Path("src/tollbox/models"))
    parser.add_argument("--epochs", type=int, nargs=2, default=(6, 3), help="for 7x7 and for 4x4")
    arguments = parser.parse_args()
    train_bytes, train_labels = read(arguments.data, "train")
    test_bytes, test_labels = read(arguments.data, "t10k")
    train_images = train_bytes.float()[:, None] / 255
    test_images = test_bytes.float()[:, None] / 255
    for patch, epochs in zip(PATCHES, arguments.epochs, strict=True):
        torch.manual_seed(0)
        generator = torch.Generator().manual_seed(0)
        net = TinyViT(patch)
        steps = epochs * (len(train_images) // BATCH_SIZE)
        optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
        for epoch in range(epochs):
            began = time.perf_counter()
            order = torch.randperm(len(train_images), generator=generator)
            for index in order[: len(order) // BATCH_SIZE * BATCH_SIZE].split(BATCH_SIZE):
                batch = augmented(train_images[index], generator)
                loss = functional.cross_entropy(net(batch), train_labels[index])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
            share = accuracy(net, test_images, test_labels)
            seconds = time.perf_counter() - began
            print(f"{patch}x{patch}, epoch {epoch + 1}: {share:.4f}, {seconds:.0f} s", flush=True)
        about = {"dataset": "Fashion-MNIST, MIT licence, Zalando SE", "test_accuracy": share}
        tensors = {name: value.contiguous() for name, value in net.state_dict().items()}
        file = arguments.out / f"tiny_vit_{patch}.safetensors"
        save_file(tensors, file, metadata={"about": json.dumps(about)})
        print(f"{file}: {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
