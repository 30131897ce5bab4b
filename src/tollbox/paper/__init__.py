"""The paper's experiments, each with its study and its figure or table."""
