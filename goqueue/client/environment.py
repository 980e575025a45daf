"""The API key and the tenant of a client that is given none: those of the environment."""

import os

from goqueue.errors import RequestInvalid

_KEY_CHARACTERS_MAX = 4096


def environment_key() -> str | None:
    """Return the API key of GOQUEUE_API_KEY, or of the file that GOQUEUE_API_KEY_FILE names."""
    key, name = os.environ.get("GOQUEUE_API_KEY"), os.environ.get("GOQUEUE_API_KEY_FILE")
    if key or not name:
        return key or None
    try:
        with open(os.path.expanduser(name), encoding="utf-8") as file:
            return file.read(_KEY_CHARACTERS_MAX).strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RequestInvalid(
            f"the API key in {name} cannot be read: {reason}", hint="GOQUEUE_API_KEY_FILE names a file with the key"
        ) from None


def environment_tenant() -> str | None:
    """Return the tenant of GOQUEUE_TENANT."""
    return os.environ.get("GOQUEUE_TENANT") or None
