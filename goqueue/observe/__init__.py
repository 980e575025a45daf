"""What the broker tells its operators: metrics and log lines."""
