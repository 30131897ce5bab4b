"""Audits: what it costs to attack a model, and what would make attacks unprofitable.

The package is not called `audit` because `tollbox.audit` is a function.
"""
