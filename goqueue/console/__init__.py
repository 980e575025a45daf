"""What the three programs share: how a command is found, how it prints, how it fails and how it ends."""
