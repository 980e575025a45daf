"""Texts of JSON: decoding within the limits, and paths."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from goqueue.schemas import limits
from goqueue.schemas.schema_format import ROOT, check_text, schema_error


def escaped(name: str | int) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")


def read_json(text: str) -> Any:
    """Decode a schema's text within the limits. Numbers that Python cannot hold and repeated keys are refused."""
    check_text(text)
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except RecursionError:
        raise schema_error(ROOT, f"more than {limits.SCHEMA_DEPTH_MAX} levels deep") from None
    except json.JSONDecodeError as error:
        raise schema_error(ROOT, f"not JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except ValueError as error:
        raise schema_error(ROOT, f"not JSON: {error}") from None
    _check_size(value)
    return value


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        repeated = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {repeated!r} is repeated")
    return found


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not a number of JSON")


def _check_size(value: Any) -> None:
    """Walk without recursion, so that no depth can exhaust the stack."""
    nodes = 0
    level = [(ROOT, value)]
    depth = 0
    while level:
        nodes += len(level)
        if nodes > limits.SCHEMA_NODES_MAX:
            raise schema_error(ROOT, f"more than {limits.SCHEMA_NODES_MAX:,} keywords and values")
        if depth > limits.SCHEMA_DEPTH_MAX:
            raise schema_error(level[0][0], f"more than {limits.SCHEMA_DEPTH_MAX} levels deep")
        level = [child for path, node in level for child in _members(path, node)]
        depth += 1


def _members(path: str, node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, float) and node in {float("inf"), float("-inf")}:
        raise schema_error(path, "a number is too large")
    if isinstance(node, dict):
        yield from ((f"{path}/{escaped(name)}", member) for name, member in node.items())
    elif isinstance(node, list):
        yield from ((f"{path}/{index}", member) for index, member in enumerate(node))


def compact_json(value: Any, *, sort_keys: bool = False) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)
