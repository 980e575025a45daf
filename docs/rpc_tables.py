"""The table of gRPC methods and their endpoints in `docs/grpc.md`."""

from goqueue.rpc.endpoints import endpoints_of
from goqueue.rpc.stubs import services

_BEGIN, _END = "<!-- methods -->\n", "<!-- end of methods -->\n"
_SHAPES = {
    (False, False): "",
    (False, True): "stream of responses",
    (True, False): "stream of requests",
    (True, True): "streams of both",
}


def table() -> str:
    """Return a row for each method."""
    lines = ["| Method | Shape | Endpoints that answer it |", "| --- | --- | --- |"]
    for service in services():
        for method in service.methods:
            shape = _SHAPES[method.client_streaming, method.server_streaming]
            named = ", ".join(f"`{one}`" for one in endpoints_of(method)) or "any, or the table of them"
            lines.append(f"| `{service.name}.{method.name}` | {shape} | {named} |")
    return "\n".join(lines) + "\n"


def renewed(page: str) -> str:
    """Return the page with the current table."""
    before, _, rest = page.partition(_BEGIN)
    _, _, behind = rest.partition(_END)
    return f"{before}{_BEGIN}{table()}{_END}{behind}"
