"""`goqueue-cli delayed`."""
