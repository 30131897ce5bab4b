"""Where a study keeps what it was answered: SQLite, one file for each shard."""
