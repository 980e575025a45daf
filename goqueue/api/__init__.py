"""HTTP: one table of endpoints, a module a resource, and the server they are reached through. Translation only."""
