"""Parts that plug into attacks: a file that is imported here is registered (registry.py)."""

from . import adaptive as adaptive
from . import calibrated as calibrated
from . import directions as directions
from . import estimates as estimates
from . import gaussian_rays as gaussian_rays
from . import hsja_schedule as hsja_schedule
from . import inward as inward
from . import opt_style as opt_style
from . import priors as priors
from . import searches as searches
from . import shrinking as shrinking
from . import starts as starts
from . import subspaces as subspaces
from . import sweeps as sweeps
