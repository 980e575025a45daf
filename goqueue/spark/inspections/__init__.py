"""What people ask a log, each as work on splits and the sum of it."""
