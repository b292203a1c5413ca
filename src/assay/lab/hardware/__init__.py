"""Emulated hardware as its tools and its kernel show it. Pure: shape and state in, text out."""
