"""`goqueue-cli dlq`."""
