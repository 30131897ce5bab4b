"""The stores of recorded answers and results of a study: one SQLite file for each shard."""
