"""Invented machines and a cluster of them: emulated hardware for examples, tests and demonstrations."""
