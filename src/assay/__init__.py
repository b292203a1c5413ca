"""Assay: independent, reproducible assessment of GPU clusters."""

__version__ = "0.1.0"
