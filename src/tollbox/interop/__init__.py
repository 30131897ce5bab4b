"""Attacks in the form that Foolbox and the Adversarial Robustness Toolbox (ART) expect."""
