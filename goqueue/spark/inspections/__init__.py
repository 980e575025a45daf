"""Inspections of logs: fixed analyses, each as work on splits and its sum."""
