"""`goqueue-cli topic`."""
