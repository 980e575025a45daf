"""Rows, columns and texts of the screens, computed from answers: no terminal, no network, no clock."""
