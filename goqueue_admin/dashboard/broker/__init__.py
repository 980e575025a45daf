"""The dashboard's connection to a broker."""
