"""Packages that only some commands need, and that are installed as extras of the project."""

from importlib.util import find_spec

from goqueue.errors import GoQueueError, SparkUnavailable, SqlUnavailable

EXTRAS: dict[str, tuple[type[GoQueueError], tuple[str, ...]]] = {
    "spark": (SparkUnavailable, ("pyspark", "pyarrow", "pandas")),
    "sql": (SqlUnavailable, ("duckdb", "pyarrow")),
}


def require_extra(extra: str) -> None:
    """Raise an error that says what to install, if a package of an extra is missing. Nothing is loaded."""
    kind, packages = EXTRAS[extra]
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        named = " and ".join([", ".join(missing[:-1]), missing[-1]] if len(missing) > 1 else missing)
        raise kind(
            f"this command needs {named}, which {'is' if len(missing) == 1 else 'are'} not installed",
            hint=f"pip install 'goqueue[{extra}]'",
        )
