"""`goqueue-cli publish`: what is given, what is made of it, and its way to the broker."""
