"""The command line of all programs: finding commands, printing, failing and ending."""
