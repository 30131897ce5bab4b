"""The experiments of the paper, each with its study and its figure."""
