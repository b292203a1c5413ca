"""Software versions and their age."""
