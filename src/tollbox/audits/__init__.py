"""Audits: what it costs to attack a model, and what would make attacks unprofitable.

The function is `tollbox.audit`, so the package has another name.
"""
