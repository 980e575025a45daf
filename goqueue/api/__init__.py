"""The HTTP API: a table of endpoints, a module for each resource, and the server. Translation only, no rules."""
