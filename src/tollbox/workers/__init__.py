"""Worker processes, on this machine and on others."""
