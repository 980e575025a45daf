"""Tenants: teams that share a broker, each with names of its own."""
