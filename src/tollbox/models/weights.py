"""A network's weights as one short word: the same for the same numbers under the same names."""

from __future__ import annotations

import hashlib

import torch


def weights_digest(network: torch.nn.Module) -> str:
    """Of all its parameters and buffers: names, shapes, dtypes and bits."""
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        plain = tensor.detach().cpu().contiguous().flatten()
        digest.update(plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
    return digest.hexdigest()
