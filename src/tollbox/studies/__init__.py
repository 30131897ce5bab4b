"""Studies: models x attacks x prices x images in a file, and nothing lost on a kill."""
