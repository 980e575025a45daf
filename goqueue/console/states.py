"""Which states are good, which pass and which need somebody: the colours of a table."""

_FIELDS = ("state", "status", "result", "severity", "health", "event")
"""What the name of a field with states in it ends with."""

_STYLES = {
    "good": (
        *("committed", "complete_commit"),
        *("active", "added", "alive", "altered", "created", "deleted", "done", "fixed", "healthy", "ok", "online"),
        *("running", "stable", "unchanged", "up"),
    ),
    "moving": (
        *("changed", "degraded", "draining", "empty", "joining", "leaving", "lagging", "note", "paused", "pending"),
        *("ongoing", "prepare_abort", "prepare_commit", "preparing", "rebalancing", "revoking", "starting", "stopping"),
        *("syncing", "warning"),
    ),
    "bad": (
        *("critical", "dead", "down", "error", "expired", "failed", "faulty", "fenced", "lost", "offline", "refused"),
        *("removed", "stuck"),
    ),
}
_BY_STATE = {state: style for style, states in _STYLES.items() for state in states}


def style_of(field: str, text: str) -> str:
    """The style of a state, or none for a field with anything else."""
    return _BY_STATE.get(text.lower(), "") if field.endswith(_FIELDS) else ""
