"""`goqueue-cli schema`: the schema registry."""
