"""Attacks for Foolbox and for the Adversarial Robustness Toolbox (ART)."""
