"""Exit codes."""

FAILED = 1
"""Something went wrong that is no mistake of the user's."""
MISTAKE = 2
INTERRUPTED = 130
