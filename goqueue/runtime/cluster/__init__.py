"""A node of a cluster on the event loop: connections, timers, its log and its notes."""
