"""Security: isolation, versions, privileges."""
