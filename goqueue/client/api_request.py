"""Requests to the broker as values, with their answers and errors."""

import os
import re
import weakref
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, cast, overload

import msgspec

from goqueue.client.address import Address, parse_all, quote
from goqueue.client.answers import read_answer
from goqueue.client.environment import environment_key, environment_tenant
from goqueue.client.hints import translate
from goqueue.client.servers import Servers
from goqueue.client.times import seconds
from goqueue.client.tls import TlsOptions, tls_context
from goqueue.client.user_agent import user_agent
from goqueue.errors import (
    BrokerUnreachable,
    CallerError,
    GoQueueError,
    LeadershipLost,
    OperatorError,
    RequestInvalid,
    TransientError,
)
from goqueue.nearest import nearest
from goqueue.quantities import quoted
from goqueue.wire.headers import RETRY_AFTER

if TYPE_CHECKING:
    import ssl

    import httpx

    from goqueue.storage.frame import Buffer

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

JSON = (("content-type", "application/json"), ("accept", "application/json"))
_UNSURE_HINT = "it may have been stored: check before you send it again"
_KEY = re.compile(r"[!-~]{1,4096}")


class Sender(NamedTuple):
    """The identity that goes with every request."""

    api_key: str | None = None
    tenant: str | None = None
    """The tenant whose names are meant; a key of a tenant needs none."""

    def __repr__(self) -> str:
        return f"<Sender {self.tenant or ''}>"  # a log line must not get the key


ANONYMOUS = Sender()


class ApiResponse(msgspec.Struct, frozen=True):
    """A whole answer. Header names are in lower case."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes | bytearray
    source: Address | str = "this address"
    """The server, for error messages."""

    def header(self, name: str) -> str:
        return self.headers.get(name.encode(), b"").decode("latin-1")


class ApiRequest(msgspec.Struct, Generic[T], frozen=True, eq=False):
    """A request, and how its answer is decoded.

    An `idempotent` request may be sent again when it is unknown whether it arrived.
    """

    method: str
    path: str
    decode: Callable[[ApiResponse], T]
    body: "Sequence[Buffer]" = ()
    headers: tuple[tuple[str, str], ...] = ()
    idempotent: bool = True
    patience: float = 0.0
    """Seconds for which the broker may delay the answer on purpose."""
    unsure_hint: str = _UNSURE_HINT
    """The hint when it is unknown whether a request arrived that is not `idempotent`."""
    place: tuple[str, int] | None = None
    """The topic and the partition whose leader answers it; None if any node does."""

    def parts(self, address: Address, sender: Sender = ANONYMOUS) -> "list[Buffer]":
        """Return the bytes to send; the body is not copied."""
        lines = [
            f"{self.method} {address.base}{self.path} HTTP/1.1",
            f"host: {address.authority}",
            *(f"{name}: {value}" for name, value in self.fields(sender)),
        ]
        if self.body or self.method not in {"GET", "DELETE"}:
            lines.append(f"content-length: {sum(map(len, self.body))}")
        return ["\r\n".join((*lines, "", "")).encode("latin-1"), *self.body]

    def fields(self, sender: Sender) -> list[tuple[str, str]]:
        """Return the headers that say the same on any connection."""
        found = list(self.headers)
        if self.headers is JSON and self.method != "GET":
            found.append(("user-agent", user_agent()))
        if sender.api_key is not None:
            found.append(("authorization", f"Bearer {sender.api_key}"))
        if sender.tenant is not None:
            found.append(("x-tenant", sender.tenant))
        return found


RequestSequence = Generator[ApiRequest[Any], Any, T]
"""A procedure of several requests: each is yielded, and gets its decoded answer."""


def json_request(  # noqa: PLR0913 - the fields of a request
    method: str,
    path: str,
    kind: type[T],
    body: object = None,
    *,
    field: str | None = None,
    idempotent: bool = True,
    patience: float = 0.0,
    unsure_hint: str = _UNSURE_HINT,
    place: tuple[str, int] | None = None,
) -> ApiRequest[T]:
    """Return a request in JSON. With a `field`, its result is that field of the answer."""

    def decode(answer: ApiResponse) -> T:
        return decode_json(answer, kind) if field is None else decode_field(answer, kind, field)

    parts = () if body is None else (msgspec.json.encode(body),)
    return ApiRequest(method, path, decode, parts, JSON, idempotent, patience, unsure_hint, place)


def decode_field(answer: ApiResponse, kind: type[T], name: str) -> T:
    """Decode one field of a JSON answer."""
    found: T = getattr(decode_json(answer, _with_field(name, cast("Any", kind))), name)
    return found


@cache
def _with_field(name: str, kind: Any) -> type[msgspec.Struct]:
    return msgspec.defstruct("Answer", [(name, kind)])


def decode_json(answer: ApiResponse, kind: type[T]) -> T:
    """Decode a JSON answer. A refusal is raised as its error."""
    if answer.status >= 300:
        raise error_of_response(answer)
    try:
        return msgspec.json.decode(answer.body, type=kind, dec_hook=read_answer)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise unreadable_response(answer, error) from None


def with_query(path: str, **options: object) -> str:
    """Return a path with options: without those that are None or False, and with one for each item of a list."""
    said = []
    for name, given in options.items():
        items = given if isinstance(given, list) else [] if given is None or given is False else [given]
        said += [f"{name}={'true' if item is True else quote(str(item))}" for item in items]
    return f"{path}?{'&'.join(said)}" if said else path


class BlockingCaller(Protocol):
    """A client for threads."""

    def call(self, call: ApiRequest[T]) -> T: ...


class AsyncCaller(Protocol):
    """A client for an event loop."""

    async def call(self, call: ApiRequest[T]) -> T: ...


class Operation(Protocol[P, T_co]):
    """The type of a client's method that sends one request: in an event loop its result is awaited."""

    @overload
    def __get__(self, client: BlockingCaller, owner: type, /) -> Callable[P, T_co]: ...
    @overload
    def __get__(self, client: AsyncCaller, owner: type, /) -> Callable[P, Coroutine[Any, Any, T_co]]: ...


def operation(build: Callable[Concatenate[Any, P], ApiRequest[T]]) -> Operation[P, T]:
    """Return a method of both clients that sends the request which `build` returns."""

    @wraps(build)
    def method(client: Any, *given: P.args, **options: P.kwargs) -> Any:
        return client.call(build(client, *given, **options))

    return cast("Operation[P, T]", method)


def check_names(noun: str, given: Mapping[str, object], known: Sequence[str]) -> None:
    """Refuse options that a producer or consumer does not have."""
    unknown = [name for name in given if name not in known]
    if unknown:
        meant = nearest(unknown[0], known)
        hint = f"did you mean {meant}?" if meant else f"known are {', '.join(known)}"
        raise RequestInvalid(f"a {noun} has no option {', '.join(unknown)}", hint=hint)


def check_api_key(api_key: object) -> str | None:
    """Return the key. The error for an invalid one does not show it."""
    if api_key is None:
        return None
    if isinstance(api_key, str) and _KEY.fullmatch(api_key):
        return api_key
    raise RequestInvalid(
        "the API key is invalid", hint="it is one word of visible ASCII characters, without spaces and line ends"
    )


def check_tenant(tenant: object) -> str | None:
    """Return the id of a tenant; None for an empty one."""
    if tenant is None or tenant == "":
        return None
    if isinstance(tenant, str) and _KEY.fullmatch(tenant):
        return tenant
    raise RequestInvalid(f"tenant is {quoted(str(tenant)[:100])}", hint="it is the id of a tenant, such as team-a")


def _check_http(http: object, kind: str, tls: object) -> None:
    """Refuse an object that is no httpx client of this kind, and settings that belong to it."""
    import httpx  # noqa: PLC0415 - takes longer than a command may

    wanted = f"httpx.{kind}"
    if not isinstance(http, getattr(httpx, kind)):
        given = f"{type(http).__module__.partition('.')[0]}.{type(http).__name__}"
        raise RequestInvalid(f"http is of the type {given}, and must be an {wanted}", hint=f"http={wanted}(...)")
    if tls is not None:
        raise RequestInvalid(
            "tls or one of its files is given beside http", hint=f"give it to the client: {wanted}(verify=...)"
        )


def _check_files(address: Address, files: TlsOptions, tls: object) -> None:
    """Refuse files beside a context, and files that a plain address would ignore."""
    names = ", ".join(name for name, path in zip(files._fields, files, strict=True) if path is not None)
    if tls is not None:
        raise RequestInvalid(f"{names} is given beside tls", hint="the context has all of it: leave out one of them")
    if not address.secure:
        raise RequestInvalid(f"{names} is given, and {address} is not encrypted", hint="write https:// in the address")


_FORKED_AWAY: "weakref.WeakKeyDictionary[Any, str]" = weakref.WeakKeyDictionary()


def refuse_after_fork(owner: Any, noun: str) -> None:
    """Refuse the use of an object in forked children: its thread does not exist there, and its lock may be held."""
    _FORKED_AWAY[owner] = noun


def _forked() -> None:
    for owner, noun in list(_FORKED_AWAY.items()):
        owner._refusal = RequestInvalid(
            f"this {noun} belongs to the process that this one was forked from",
            hint=f"make a {noun} in each process, after the fork",
        )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class ClientCore:
    """The common part of clients for threads and for event loops."""

    _http_kind: str
    """The class of httpx over which requests may go."""

    def __init__(  # noqa: PLR0913 - independent options, given by name
        self,
        server: str | Sequence[str] | None = None,
        timeout: str | float = "30s",
        *,
        connect_timeout: str | float = "5s",
        api_key: str | None = None,
        tenant: str | None = None,
        ca_file: str | None = None,
        client_cert: str | None = None,
        client_key: str | None = None,
        tls: "ssl.SSLContext | TlsOptions | None" = None,
        http: "httpx.Client | httpx.AsyncClient | None" = None,
    ) -> None:
        self._servers = Servers(parse_all(server))
        address = self._servers.current
        self._timeout = seconds(timeout, "timeout")
        self._connect_timeout = seconds(connect_timeout, "connect_timeout")
        self._sender = Sender(
            check_api_key(environment_key() if api_key is None else api_key),
            check_tenant(environment_tenant() if tenant is None else tenant),
        )
        self._http: Any = http
        files = TlsOptions(ca_file, client_cert, client_key)
        if any(files):
            _check_files(address, files, tls)
            tls = files
        if http is not None:
            _check_http(http, self._http_kind, tls)
        self._tls = tls_context(address, tls) if http is None else None
        self._idle: list[Any] = []
        self._closed = False

    def _check_open(self) -> None:
        if self._closed:
            raise RequestInvalid("this client is closed", hint="make another one")

    def _is_in_cluster(self) -> bool:
        return self._servers.cluster is not None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._servers}>"


_GATEWAY = {502, 504}
_UNSURE = {408, 502, 504}  # it is unknown whether the broker carried out the request
_TRANSIENT = {408, 425, 429, 503}


@cache
def error_classes() -> dict[str, type[GoQueueError]]:
    """Return all error classes by their code."""
    found: dict[str, type[GoQueueError]] = {}
    left: list[type[GoQueueError]] = [GoQueueError]
    while left:
        kind = left.pop()
        left += kind.__subclasses__()
        if "code" in vars(kind):
            found.setdefault(kind.code, kind)
    del found["error"]
    return found


def error_of_record(record: object, status: int = 400) -> GoQueueError:
    """Return the error that `{"error": ..., "code": ...}` describes.

    An unknown code becomes the nearest general class; `details["code"]` has it.
    """
    fields: dict[str, Any] = record if isinstance(record, dict) else {}
    sentence, code, hint, details = (fields.get(name) for name in ("error", "code", "hint", "details"))
    given = {str(name): value for name, value in details.items()} if isinstance(details, dict) else {}
    given = {name: value for name, value in given.items() if name not in {"sentence", "hint", "self"}}
    kind = error_classes().get(str(code)) or _general(status)
    if kind.code != code:
        given |= {"code": code, "status": status}
    said = sentence if isinstance(sentence, str) and sentence else f"the answer is {status}"
    error = kind(said, hint=hint if isinstance(hint, str) else None, **given)
    if isinstance(error, LeadershipLost):
        error.details.setdefault("unsure", True)
    translate(error)
    return error


def _general(status: int) -> type[GoQueueError]:
    if status in _GATEWAY:
        return BrokerUnreachable
    if status in _TRANSIENT:
        return TransientError
    return OperatorError if status >= 500 else CallerError


def error_of_response(answer: ApiResponse) -> GoQueueError:
    """Return the error that an answer describes, with the delay that it asks for."""
    try:
        record = msgspec.json.decode(answer.body)
    except msgspec.DecodeError:
        record = None
    has_code = isinstance(record, dict) and isinstance(record.get("code"), str)
    if not has_code and answer.status not in _TRANSIENT | _GATEWAY:
        return not_a_broker(answer.source, f"it answers with status {answer.status} and without a code")
    error = error_of_record(record, answer.status)
    if answer.status in _UNSURE:
        error.details.setdefault("unsure", True)
    after = answer.header(RETRY_AFTER)
    if after.isdecimal() and len(after) < 6:
        error.details.setdefault("retry_after", float(after))
    return error


def unreadable_response(answer: ApiResponse, why: object) -> BrokerUnreachable:
    """Return the error for an answer that this client does not understand."""
    return not_a_broker(answer.source, f"its answer with status {answer.status} cannot be read: {why}")


def not_a_broker(source: Address | str, why: str) -> BrokerUnreachable:
    """Return the error for a server that is not a broker; a retry would not change that."""
    return BrokerUnreachable(
        f"what answers at {source} is not a GoQueue broker: {why}",
        hint="is this its address, and no other server or proxy stands there?",
        foreign=True,
    )
