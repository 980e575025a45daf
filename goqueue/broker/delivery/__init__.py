"""Handing messages out to the members of groups, and what becomes of each of them."""
