"""The audit: choose checks, collect their evidence into a run, judge the run."""
