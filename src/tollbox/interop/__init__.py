"""Attacks in the form that Foolbox and the Adversarial Robustness Toolbox (ART) expect."""

from . import art, foolbox

__all__ = ["art", "foolbox"]
