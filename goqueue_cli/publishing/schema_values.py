"""Values and keys that are JSON on the command line, and payloads of a schema in the topic."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console.failure import UsageInvalid
from goqueue.errors import GoQueueError, RequestInvalid, SchemaViolation
from goqueue.quantities import quoted
from goqueue_cli.publishing.sources import MessageChunk

if TYPE_CHECKING:
    from goqueue.client import Client, SchemaSerializer

_ENDS = (".avsc", ".json", ".proto")
_SOURCE = "SUBJECT|ID|FILE"


@dataclass(frozen=True, slots=True)
class SchemaFlags:
    """Flags for payloads of schemas."""

    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            metavar=_SOURCE,
            help="Encode values, which are JSON, by a subject's latest schema, an id, or a file.",
        ),
    ] = None
    key_schema: Annotated[
        str | None, typer.Option("--key-schema", metavar=_SOURCE, help="Encode keys, which are JSON, in the same way.")
    ] = None
    id_in_header: Annotated[
        bool, typer.Option("--id-in-header", help="Send schema ids in headers instead of a prefix of the payload.")
    ] = False

    def serializers(self, client: "Client") -> dict[str, Any]:
        """Return the options of the producer."""
        place = "header" if self.id_in_header else "prefix"
        named = {"serializer": self.schema, "key_serializer": self.key_schema}
        return {name: _serializer(client, text, place) for name, text in named.items() if text is not None}

    def check(self) -> None:
        if self.id_in_header and self.schema is None and self.key_schema is None:
            raise UsageInvalid("--id-in-header needs --schema", hint="leave it out, or add --schema")

    @contextmanager
    def explaining(self, client: "Client") -> Iterator[None]:
        """Name the flag that encodes messages by the schema of their topic, if that is missing."""
        try:
            yield
        except SchemaViolation as error:
            described = re.match(r"`goqueue-cli schema describe (\S+)` shows", error.hint or "")
            if described is None:
                raise
            subject, flag, given, part = described[1], "--schema", self.schema, "values"
            if subject.endswith("-key"):
                flag, given, part = "--key-schema", self.key_schema, "keys"
            with suppress(GoQueueError):
                if given is None and client.schema(subject).schema_type != "JSON":
                    error.hint = f"`{flag} {subject}` encodes {part} that are JSON; {error.hint}"
            raise

    def decoded(self, chunks: Iterator[MessageChunk]) -> Iterator[MessageChunk]:
        """Yield the messages with the values of their JSON."""
        if self.schema is None and self.key_schema is None:
            yield from chunks
            return
        count = 0
        for values, keys, shared in chunks:
            made = values if self.schema is None else _decoded(values, "value", count)
            yield MessageChunk(made, self._keys(keys, count), shared)
            count += len(values)

    def _keys(self, keys: Sequence[Any] | None, count: int) -> Sequence[Any] | None:
        if keys is None or self.key_schema is None:
            return keys
        return _decoded([key or None for key in keys], "key", count)


def _serializer(client: "Client", text: str, place: str) -> "SchemaSerializer":
    from goqueue.client import AvroSerializer, JsonSerializer, ProtobufSerializer  # noqa: PLC0415 - for these flags
    from goqueue_cli.schemas.files import read_schema, schema_type  # noqa: PLC0415

    options: dict[str, Any] = {"id_in": place}
    if text.isascii() and text.isdecimal():
        number = int(text)
        kind, options["schema_id"] = client.schema_by_id(number).schema_type, number
    elif text.endswith(_ENDS) or os.sep in text:
        kind, options["schema"] = schema_type(text, None), read_schema(text)
    else:
        kind, options["subject"], options["use_latest"] = client.schema(text).schema_type, text, True
    if kind == "JSON":
        return JsonSerializer(**options)
    serializers: dict[str, Any] = {"AVRO": AvroSerializer, "PROTOBUF": ProtobufSerializer}
    made: SchemaSerializer = serializers[kind](from_json=True, **options)
    return made


def _decoded(contents: Sequence[bytes | None], part: str, count: int) -> list[Any]:
    from msgspec import DecodeError, json  # noqa: PLC0415 - a JSON parser that only these flags need

    made: list[Any] = []
    for number, content in enumerate(contents, start=count + 1):
        try:
            made.append(None if content is None else json.decode(content))
        except DecodeError as error:
            told = quoted((content or b"")[:60].decode(errors="backslashreplace"))
            raise RequestInvalid(
                f"the {part} of message {number} is not JSON: {told}: {error}",
                hint="""with a schema they are JSON: '{"id": 17}', 17, or '"text"' with its quotes""",
            ) from None
    return made
