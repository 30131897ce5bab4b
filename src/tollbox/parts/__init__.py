"""Parts that plug into attacks. Importing a file here registers its parts (`registry.py`)."""

from . import blocks as blocks
from . import comparisons as comparisons
from . import directions as directions
from . import estimates as estimates
from . import paths as paths
from . import priors as priors
from . import searches as searches
from . import starts as starts
from . import subspaces as subspaces
