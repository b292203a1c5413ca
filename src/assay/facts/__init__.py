"""Parsers: raw text to typed facts. Pure; one module per family of sources."""
