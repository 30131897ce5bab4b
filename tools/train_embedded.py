"""Train the embedded Fashion-MNIST classifier and write `src/tollbox/models/embedded.safetensors`.

    apt-get install dataset-fashion-mnist
    .venv/bin/python tools/train_embedded.py            # about ten minutes on two cores

Training uses batch norm, shifts and flips; what is shipped has the batch norms folded into the
convolutions. The file also holds the first 200 test images, their labels and the test accuracy.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from tollbox.models.embedded import WIDTHS, network

SHIPPED_IMAGES = 200


def read(folder: Path, split: str) -> tuple[Tensor, Tensor]:
    """Images (n, 28, 28) as uint8 and labels, from the IDX files of the Debian package."""
    with gzip.open(folder / f"{split}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(folder / f"{split}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return torch.from_numpy(images.copy()), torch.from_numpy(labels.copy()).long()


def training_network() -> nn.Sequential:
    """The embedded architecture with a batch norm after each convolution."""
    layers: list[nn.Module] = []
    for inputs, outputs, stride in WIDTHS:
        layers += [
            nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def folded(trained: nn.Sequential) -> nn.Sequential:
    """The same function as `trained` in eval mode, without batch norms."""
    plain = network()
    convolutions = [m for m in trained if isinstance(m, nn.Conv2d)]
    norms = [m for m in trained if isinstance(m, nn.BatchNorm2d)]
    targets = [m for m in plain if isinstance(m, nn.Conv2d)]
    with torch.no_grad():
        for conv, norm, target in zip(convolutions, norms, targets, strict=True):
            scale = norm.weight / (norm.running_var + norm.eps).sqrt()
            target.weight.copy_(conv.weight * scale[:, None, None, None])
            target.bias.copy_(norm.bias - norm.running_mean * scale)
        plain[-1].load_state_dict(trained[-1].state_dict())
    return plain.eval()


def augmented(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image shifted by up to two pixels and flipped half of the time."""
    padded = functional.pad(images, (2, 2, 2, 2))
    count = len(images)
    flip = torch.rand(count, generator=generator) < 0.5
    padded[flip] = padded[flip].flip(-1)
    rows, columns = torch.randint(0, 5, (2, count), generator=generator)
    steps = torch.arange(28)
    y, x = (rows[:, None] + steps)[:, :, None], (columns[:, None] + steps)[:, None, :]
    return padded[torch.arange(count)[:, None, None], 0, y, x][:, None]


def accuracy(net: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Share of images classified correctly."""
    with torch.inference_mode():
        answers = torch.cat([net(part).argmax(1) for part in images.split(1000)])
    return (answers == labels).double().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--out", type=Path, default=Path("src/tollbox/models/embedded.safetensors"))
    parser.add_argument("--epochs", type=int, default=16)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    train_images, train_labels = read(arguments.data, "train")
    test_bytes, test_labels = read(arguments.data, "t10k")
    train_images = train_images.float()[:, None] / 255
    test_images = test_bytes.float()[:, None] / 255

    net = training_network().to(memory_format=torch.channels_last)
    size = 128
    steps = arguments.epochs * (len(train_images) // size)
    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=steps)
    for epoch in range(arguments.epochs):
        began = time.perf_counter()
        net.train()
        order = torch.randperm(len(train_images), generator=generator)
        for index in order[: len(order) // size * size].split(size):
            batch = augmented(train_images[index], generator)
            loss = functional.cross_entropy(
                net(batch.contiguous(memory_format=torch.channels_last)), train_labels[index]
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        net.eval()
        print(
            f"epoch {epoch + 1}: test accuracy {accuracy(net, test_images, test_labels):.4f}, "
            f"{time.perf_counter() - began:.0f} s",
            flush=True,
        )

    shipped = folded(net)
    final = accuracy(shipped, test_images, test_labels)
    tensors = {name: value.contiguous() for name, value in shipped.state_dict().items()}
    tensors["images"] = test_bytes[:SHIPPED_IMAGES].contiguous()
    tensors["labels"] = test_labels[:SHIPPED_IMAGES].to(torch.uint8).contiguous()
    about = {"dataset": "Fashion-MNIST, MIT licence, Zalando SE", "test_accuracy": final}
    save_file(tensors, arguments.out, metadata={"about": json.dumps(about)})
    print(f"{arguments.out}: {arguments.out.stat().st_size} bytes, test accuracy {final:.4f}")


if __name__ == "__main__":
    main()
