"""Links between GPUs and between nodes."""
