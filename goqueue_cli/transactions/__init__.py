"""`goqueue-cli transaction`."""
