"""The rules between nodes: who is a member, who is the controller, what its log says. Synchronous, without I/O."""
