"""What completes the programs in a shell: scripts made of the commands, and names that only a broker knows."""
