"""The run: append-only evidence on disk, chained, and its rebuildable index."""
