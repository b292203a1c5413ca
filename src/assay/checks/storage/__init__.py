"""Shared, local and object storage."""
