"""Exit codes."""

FAILED = 1
"""A failure that is not the user's mistake."""
MISTAKE = 2
INTERRUPTED = 130
"""Ctrl-C."""
TERMINATED = 143
"""SIGTERM."""
STOPPED = frozenset({INTERRUPTED, TERMINATED})
