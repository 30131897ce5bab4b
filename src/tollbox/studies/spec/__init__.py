"""A study file, from TOML to a checked value."""
