"""Finds the endpoint of a method and a path."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import unquote_to_bytes

from goqueue.api.endpoint import Endpoint
from goqueue.errors import EndpointNotFound, MethodNotAllowed
from goqueue.quantities import quoted

Node = dict[str, Any]
_PARAMETER, _ROWS = "{}", "/"
_CACHED_PATHS_MAX = 4096  # the paths that clients use often; others are looked up
_CACHED_CHARACTERS_MAX = 256  # of one of them, so that long paths do not fill the memory

Found = tuple[dict[str, Endpoint], tuple[str, ...]]
"""The endpoints of a path by method, and the values of its parameters."""


class Routes:
    """The paths of all endpoints, each also below `/v1`."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._root, self._names = _tree(tuple(endpoints))
        self._cache: dict[str, Found] = {}

    def find(self, method: str, path: str) -> tuple[Endpoint, dict[str, str]]:
        """Return the endpoint and the path parameters. Raises EndpointNotFound and MethodNotAllowed."""
        rows, values = self.rows_at(path)
        row = rows.get("GET" if method == "HEAD" else method)
        if row is None:
            allowed = sorted({*rows, *(("HEAD",) if "GET" in rows else ())})
            raise MethodNotAllowed(
                f"{path[:200]} does not know the method {method}",
                hint=f"it knows {', '.join(allowed)}",
                allowed=allowed,
            )
        return row, dict(zip(self._names[row.path], values, strict=True))

    def rows_at(self, path: str) -> Found:
        """Return the endpoints of a path. Raises EndpointNotFound."""
        return self._cache.get(path) or self._match(path)

    def _match(self, path: str) -> Found:
        parts = path.removeprefix("/").removesuffix("/").split("/")
        if parts[0] == "v1":
            del parts[0]
        node, values = self._root, []
        for part in parts:
            if part in node and part not in (_PARAMETER, _ROWS):
                node = node[part]
            elif _PARAMETER in node and part:
                node = node[_PARAMETER]
                values.append(_decoded(part))
            else:
                raise _unknown(path)
        if _ROWS not in node:
            raise _unknown(path)
        found = node[_ROWS], tuple(values)
        if len(self._cache) < _CACHED_PATHS_MAX and len(path) <= _CACHED_CHARACTERS_MAX:
            self._cache[path] = found
        return found


@lru_cache(maxsize=2)  # the whole table, and the schema registry's part of it
def _tree(endpoints: tuple[Endpoint, ...]) -> tuple[Node, dict[str, tuple[str, ...]]]:
    """Return the parts of all paths as a tree, and the names of the parameters of each path."""
    root: Node = {}
    for row in endpoints:
        for path in (row.path, *row.aliases):
            node = root
            for part in path.strip("/").split("/"):
                node = node.setdefault(_PARAMETER if part.startswith("{") else part, {})
            node.setdefault(_ROWS, {})[row.method] = row
    return root, {row.path: tuple(_parameters(row.path)) for row in endpoints}


def _parameters(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def _decoded(part: str) -> str:
    """Percent-decode a part of the path. Nothing has a name that is not UTF-8."""
    return unquote_to_bytes(part).decode("utf-8", "replace") if "%" in part else part


def _unknown(path: str) -> EndpointNotFound:
    return EndpointNotFound(f"there is nothing at {quoted(path[:200])}", hint="GET /openapi.json lists all endpoints")
