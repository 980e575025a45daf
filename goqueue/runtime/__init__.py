"""Where the rules meet the event loop: waiting for the disk, waking long polls, background work."""
