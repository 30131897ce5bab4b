"""Options and arguments that several commands have."""

from __future__ import annotations

from cyclopts import Parameter

FOLDER = Parameter(help="Where the results are: what --out was.")
LARGEST_SEED = 2**63 - 1

CHECK_HELP = (
    "Test first, uncharged, whether the same images get the same labels in any batch; what is "
    "found is said, and kept with the results."
)
RAY_HELP = (
    "Engines on a Ray cluster, at ADDRESS (host:port); without one, that of RAY_ADDRESS, or a new "
    "one on this machine."
)
RAY_ENGINES_HELP = "How many engines; default: as many as the cluster has room for."
RAY_GPUS_HELP = "GPUs of an engine, as 0.5; default: 1 if the study runs on a GPU."
FORCE_HELP = "As many processes as `workers` says, even if they are more than cores."
