"""Readers of what Slurm prints: pure functions from text to values, releases 20.11 to 25.11."""
