"""Parts that plug into attacks: starts, paths, searches, estimates, priors."""
