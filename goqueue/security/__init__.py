"""API keys, roles and rules: who may do what. Pure: no clock, no randomness and no files of its own."""
