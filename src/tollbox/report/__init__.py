"""Reports: medians against cost, and figures."""
