"""Detectors to test with, and what a detector does on benign queries."""
