"""Metrics, health watching, access to profilers."""
