"""Exit codes."""

FAILED = 1
"""Something went wrong that is no mistake of the user's."""
MISTAKE = 2
INTERRUPTED = 130
"""Ctrl-C."""
TERMINATED = 143
"""SIGTERM."""
STOPPED = frozenset({INTERRUPTED, TERMINATED})
