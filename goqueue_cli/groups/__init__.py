"""`goqueue-cli group`."""
