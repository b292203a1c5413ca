"""Single-file programs that a launcher ships to nodes: standard library only, any Python from 3.6 on."""
