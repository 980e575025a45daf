"""`goqueue-cli consume`: what is read, and the forms in which it is printed."""
