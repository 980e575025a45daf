"""`goqueue-cli`: the program for those who use topics."""
