"""The `goqueue` command: what runs and inspects a broker on its own machine."""
