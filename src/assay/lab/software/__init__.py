"""What is installed and running on an invented host. Pure: settings in, files and tools out."""
