"""`goqueue-admin`: the program for broker operators."""
