"""`goqueue-admin`: the program for those who run a broker."""
