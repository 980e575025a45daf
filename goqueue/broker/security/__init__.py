"""Recorded changes of keys, roles and rules, and the audit trail."""
