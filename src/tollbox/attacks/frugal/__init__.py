"""The attack `frugal` and the parts that only it uses."""
