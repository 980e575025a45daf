"""Where a user's machine keeps what can be made again."""

import os
from collections.abc import Mapping
from pathlib import Path


def directory(environment: Mapping[str, str] = os.environ) -> Path | None:
    """`goqueue/spark` among the user's caches; None where it cannot be made or not be written."""
    named = environment.get("XDG_CACHE_HOME", "")
    try:
        caches = Path(named) if os.path.isabs(named) else Path.home() / ".cache"
        place = caches / "goqueue" / "spark"
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no home, no permission, a file in the way
        return None
    return place if os.access(place, os.W_OK | os.X_OK) else None
