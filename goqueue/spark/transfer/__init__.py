"""Messages on their way: into files, back into topics, and as they come."""
