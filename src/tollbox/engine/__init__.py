"""The engine: many attacks, one model; what a query passes on its way."""
