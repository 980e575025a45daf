"""`goqueue-cli trace`."""
