"""Invented machines: emulated hardware and whole hosts, for examples, tests and demonstrations. Not used by an audit."""
