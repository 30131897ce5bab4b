import os

import torch
from hypothesis import HealthCheck, Phase, settings

torch.set_num_threads(1)  # the tests run in two processes on two cores

settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "search", parent=settings.get_profile("ci"), derandomize=False, max_examples=1000
)
settings.register_profile(  # for `make mutants`: a failure is enough, it need not be small
    "mutants", parent=settings.get_profile("ci"), phases=[Phase.generate]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
