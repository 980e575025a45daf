"""Metrics, log lines, history and the doctor: what operators see of a broker."""
