"""The vocabulary of the package: ask, prices, ledger, problem, cell, result, model."""
