"""The engine: many attacks on one model, and the stages of a query."""
