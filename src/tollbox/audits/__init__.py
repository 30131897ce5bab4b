"""Audits: what it costs to attack a model, and what would make it uneconomic.

`tollbox.audit` is the function, so the package is not called like it.
"""
