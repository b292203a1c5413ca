"""Hardware health as the node tells it."""
