"""The terminal dashboard. Only this package imports Textual."""
