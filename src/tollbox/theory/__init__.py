"""The paper's mathematics: caps, the overshoot, the schedule, and the costs of searches."""
