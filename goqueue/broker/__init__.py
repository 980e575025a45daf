"""The rules: what topics, partitions and producers are, and what may be done with them. Silent and synchronous."""
