"""`goqueue-cli bench`: what a broker does under load, measured from here, over the network that is in between."""
