"""Serializers: a schema, the subject that it belongs to, and how its id is sent with each payload."""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, cast, get_args

from goqueue.client.api_request import RequestSequence
from goqueue.client.schema_requests import SchemaReferenceInfo
from goqueue.client.serializers.known_schemas import LATEST_SECONDS, BoundedCache, KnownSchemas
from goqueue.errors import RequestInvalid, SchemaViolation
from goqueue.schemas import framing
from goqueue.schemas.formats import schema_format
from goqueue.schemas.schema_format import ParsedSchema, SchemaKind
from goqueue.schemas.subject_names import SubjectNaming, record_subject, topic_subject
from goqueue.schemas.values import PayloadEncoder, ValueMismatch, shown

if TYPE_CHECKING:
    from typing import Unpack

    from goqueue.schemas.avro.avro_format import AvroSchema
    from goqueue.schemas.protobuf.descriptors import MessageFile
    from goqueue.schemas.protobuf.protobuf_format import ProtobufSchema

Field = Literal["value", "key"]
IdPlace = Literal["prefix", "header"]
_COMPILED_MAX = 100


class SerializerArguments(TypedDict, total=False):
    """The options that all serializers have."""

    subject: str | None
    naming: SubjectNaming
    id_in: IdPlace
    auto_register: bool
    use_latest: bool
    schema_id: int | None
    normalize: bool | None
    references: Sequence[SchemaReferenceInfo]


_HEADERS = {"value": framing.VALUE_HEADER, "key": framing.KEY_HEADER}


class TopicEncoder(NamedTuple):
    """A serializer in one topic: what is known once the registry was asked."""

    topic: str
    subject: str
    id: int
    prefix: bytes
    header_name: str
    header: tuple[str, str] | None
    encode: Callable[[Any], bytes]
    expires_at: float

    def payload(self, value: Any, field: Field, index: int | None = None) -> bytes:
        """Return a value with the prefix of its schema. Raises SchemaViolation, as the broker does for its messages."""
        try:
            return self.prefix + self.encode(value)
        except ValueMismatch as mismatch:
            raise self._refusal(mismatch, field, index) from None

    def _refusal(self, mismatch: ValueMismatch, field: Field, index: int | None) -> SchemaViolation:
        path, reason = mismatch.problem
        which = f"the {field}" if index is None else f"the {field} of message {index}"
        at = f" at {path}" if path else ""
        row = {"index": index or 0, "place": field, "path": path, "problem": reason, "schema_id": self.id}
        return SchemaViolation(
            f"{which} does not match schema {self.id} of {self.subject}{at}: {reason}",
            hint=f"`goqueue-cli schema describe --id {self.id}` shows the schema",
            topic=self.topic,
            messages=1,
            invalid=1,
            invalid_indexes=[index or 0],
            problems=[row],
        )


class SchemaSerializer(ABC):
    """Makes payloads of values by a schema. Give one to `client.producer(serializer=...)`.

    The schema is registered under its subject before the first message, or with `auto_register=False` looked up there.
    With `use_latest` the latest version of the subject is used instead, and with `schema_id` the one with this id.
    The subject follows from `naming`: "topic" is `orders-value` or `orders-key`, "record" the name of the record,
    "topic-record" both; `subject` names it directly. The id is sent in a "prefix" of the payload, as Confluent's
    serializers do, or with `id_in="header"` in a header of the message. Any number of producers may share a serializer.
    """

    kind: SchemaKind

    def __init__(  # noqa: PLR0913 - independent options, given by name
        self,
        schema: Any = None,
        *,
        subject: str | None = None,
        naming: SubjectNaming = "topic",
        id_in: IdPlace = "prefix",
        auto_register: bool = True,
        use_latest: bool = False,
        schema_id: int | None = None,
        normalize: bool | None = None,
        references: Sequence[SchemaReferenceInfo] = (),
    ) -> None:
        for name, given, known in (("naming", naming, get_args(SubjectNaming)), ("id_in", id_in, get_args(IdPlace))):
            if given not in known:
                raise RequestInvalid(f"{name} is {given!r}", hint=f"known are {', '.join(map(repr, known))}")
        sources = [schema is not None, use_latest, schema_id is not None]
        if sum(sources) != 1 and not (self._keeps_class(schema) and sum(sources) == 2):
            raise RequestInvalid(
                f"{type(self).__name__} needs exactly one of a schema, use_latest=True and schema_id",
                hint='give it the text of a schema, for example, or register one with "goqueue-cli schema register"',
            )
        self._subject, self._naming, self._id_in = subject, naming, id_in
        self._auto_register, self._use_latest, self._schema_id = auto_register, use_latest, schema_id
        self._normalize, self._references = normalize, tuple(references)
        self._text = None if schema is None else self._text_of(schema)
        self._parsed: ParsedSchema | None = None
        if self._text is not None and not self._references:
            self._parsed = self._parse(self._text)
        self._compiled: BoundedCache[int, tuple[ParsedSchema, PayloadEncoder]] = BoundedCache(_COMPILED_MAX)

    def _keeps_class(self, schema: Any) -> bool:  # noqa: ARG002
        """Tell whether what was given is a class that is needed for the latest schema, too."""
        return False

    def _text_of(self, schema: Any) -> str:
        """Return the text of a schema that may be given in other forms."""
        return _json_text(schema)

    def _parse(self, text: str) -> ParsedSchema | None:
        return schema_format(self.kind).parse(text)

    # --- in a topic ---

    def bind(self, known: KnownSchemas, topic: str, field: Field) -> RequestSequence[TopicEncoder]:
        """Register or look up the schema for a topic, and return its encoder."""
        expires_at = float("inf")
        if self._schema_id is not None:
            number, parsed = self._schema_id, (yield from known.by_id(self._schema_id))
            subject = self._subject or f"id {number}"
        elif self._use_latest:
            subject = self._subject_in(topic, field, self._record())
            number, parsed = yield from known.latest(subject)
            expires_at = time.monotonic() + LATEST_SECONDS
        else:
            return (yield from self._bind_own(known, topic, field))
        self._check_kind(parsed, subject)
        return self._encoder(topic, subject, number, parsed, field, expires_at)

    def _bind_own(self, known: KnownSchemas, topic: str, field: Field) -> RequestSequence[TopicEncoder]:
        text = cast("str", self._text)
        references = yield from self._needed(known)
        if self._parsed is None:
            self._parsed = yield from known.parse(self.kind, text, references)
        subject = self._subject_in(topic, field, self._record())
        register, normalize = self._auto_register, self._normalize
        number = yield from known.id_of(subject, self.kind, text, references, register=register, normalize=normalize)
        return self._encoder(topic, subject, number, self._parsed, field, float("inf"))

    def _needed(self, known: KnownSchemas) -> RequestSequence[Sequence[SchemaReferenceInfo]]:  # noqa: ARG002
        """Return the references, after what they name was registered if that is needed."""
        yield from ()
        return self._references

    def _check_kind(self, parsed: ParsedSchema, subject: str) -> None:
        if parsed.kind is not self.kind:
            raise RequestInvalid(
                f"the schema of {subject} is of the format {parsed.kind}, and {type(self).__name__} is for {self.kind}",
                hint="use the serializer of that format",
            )

    def _encoder(
        self, topic: str, subject: str, number: int, parsed: ParsedSchema, field: Field, expires_at: float
    ) -> TopicEncoder:
        kept = self._compiled.get(id(parsed))
        if kept is None:
            kept = parsed, self._compile(parsed)
            self._compiled.put(id(parsed), kept)
        indexes = self._indexes(parsed)
        prefix, name, header = b"", _HEADERS[field], None
        if self._id_in == "prefix":
            prefix = framing.encode_prefix(number, indexes)
        else:
            header = (name, framing.encode_header(number, indexes or framing.FIRST_MESSAGE))
        return TopicEncoder(topic, subject, number, prefix, name, header, kept[1].encode, expires_at)

    @abstractmethod
    def _compile(self, parsed: ParsedSchema) -> PayloadEncoder: ...

    def _indexes(self, parsed: ParsedSchema) -> tuple[int, ...] | None:  # noqa: ARG002
        """Return the message indexes, which only Protobuf has."""
        return None

    # --- names ---

    def _record(self) -> str | None:
        """Return the name of the record, if the schema is known and has one."""
        return self._parsed.names[0] if self._parsed is not None and self._parsed.names else None

    def _subject_in(self, topic: str, field: Field, record: str | None) -> str:
        if self._subject is not None:
            return self._subject
        if self._naming == "topic":
            return topic_subject(topic, is_key=field == "key")
        if record is None:
            raise RequestInvalid(
                f"naming is {self._naming!r}, and the schema has no name of a record",
                hint='give it a name or a title, or use naming="topic" or subject=',
            )
        return record_subject(self._naming, topic, record)

    def __repr__(self) -> str:
        source = f"schema {self._schema_id}" if self._schema_id is not None else "latest" if self._use_latest else "own"
        return f"<{type(self).__name__} {source}>"


def _json_text(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    if isinstance(schema, (Mapping, list)):
        return json.dumps(schema)
    raise RequestInvalid(f"the schema is {shown(schema)}, and must be its text")


class AvroSerializer(SchemaSerializer):
    """Serializes dicts, dataclasses and models by an Avro schema.

    Dates, times, UUIDs and decimals become logical types. In a union, `("Name", value)` chooses a branch. A field that
    the schema does not have is refused. With `from_json` values are as JSON has them: text for times, base64 for bytes.
    """

    kind = SchemaKind.AVRO

    def __init__(
        self,
        schema: str | Mapping[str, Any] | list[Any] | None = None,
        *,
        from_json: bool = False,
        **options: "Unpack[SerializerArguments]",
    ) -> None:
        self._is_json = from_json
        super().__init__(schema, **options)

    def _compile(self, parsed: ParsedSchema) -> PayloadEncoder:
        from goqueue.client.serializers import logical_types  # noqa: PLC0415 - Avro alone
        from goqueue.schemas.avro.encoding import AvroEncoder, WriteRules  # noqa: PLC0415

        logical = logical_types.WRITE_JSON if self._is_json else logical_types.WRITE
        return AvroEncoder(cast("AvroSchema", parsed).root, WriteRules(logical, self._is_json))


class JsonSerializer(SchemaSerializer):
    """Serializes dicts, dataclasses and models as JSON that matches a JSON Schema.

    The schema of a dataclass, a TypedDict, or a model of msgspec or pydantic is derived from the class. With
    `validate=False` values are not compared with the schema.
    """

    kind = SchemaKind.JSON

    def __init__(
        self,
        schema: str | Mapping[str, Any] | type | None = None,
        *,
        validate: bool = True,
        **options: "Unpack[SerializerArguments]",
    ) -> None:
        self._validates = validate
        super().__init__(schema, **options)

    def _text_of(self, schema: Any) -> str:
        if isinstance(schema, (str, Mapping)):
            return _json_text(schema)
        from goqueue.client.serializers.derived import json_schema_of  # noqa: PLC0415 - for classes alone

        return json.dumps(json_schema_of(schema))

    def _compile(self, parsed: ParsedSchema) -> PayloadEncoder:
        from goqueue.schemas.json_schema.json_format import JsonFormat  # noqa: PLC0415
        from goqueue.schemas.json_schema.values import JsonEncoder  # noqa: PLC0415

        return JsonEncoder(JsonFormat().validator(parsed) if self._validates else None)


class ProtobufSerializer(SchemaSerializer):
    """Serializes messages of a generated class, or dicts by the text of a file.

    The file of a class is registered with the files that it imports, each under its name. With a text, `message` is
    the full name of a message in it. Default: the first one. Dicts have what constructors of messages take; with
    `from_json` they have the JSON mapping of Protobuf.
    """

    kind = SchemaKind.PROTOBUF

    def __init__(
        self,
        schema: Any = None,
        *,
        message: str | None = None,
        from_json: bool = False,
        **options: "Unpack[SerializerArguments]",
    ) -> None:
        self._message = message
        self._is_json = from_json
        self._file: MessageFile | None = None
        super().__init__(schema, **options)

    def _keeps_class(self, schema: Any) -> bool:
        return hasattr(schema, "DESCRIPTOR")

    def _text_of(self, schema: Any) -> str:
        if isinstance(schema, str):
            return schema
        if not self._keeps_class(schema):
            raise RequestInvalid(
                f"the schema is {shown(schema)}", hint="give a generated message class, or the text of a file"
            )
        from goqueue.schemas.protobuf.descriptors import file_of_class  # noqa: PLC0415

        self._file = file_of_class(schema)
        self._message = self._file.message
        return self._file.text

    def _parse(self, text: str) -> ParsedSchema | None:
        if self._file is not None and self._file.imports:
            return None  # after what it imports
        return super()._parse(text)

    def _record(self) -> str | None:
        return self._message or super()._record()

    def _needed(self, known: KnownSchemas) -> RequestSequence[Sequence[SchemaReferenceInfo]]:
        if self._file is None:
            return self._references
        return (yield from self._register_imports(known, self._file))

    def _register_imports(self, known: KnownSchemas, file: "MessageFile") -> RequestSequence[list[SchemaReferenceInfo]]:
        found = []
        for one in file.imports:
            references = yield from self._register_imports(known, one)
            version = yield from known.version_of(
                one.name, self.kind, one.text, references, register=self._auto_register
            )
            found.append(SchemaReferenceInfo(one.name, one.name, version))
        return found

    def _indexes(self, parsed: ParsedSchema) -> tuple[int, ...] | None:
        messages = dict(cast("ProtobufSchema", parsed).indexed_messages())
        if not messages:
            raise RequestInvalid("the schema has no message", hint="a file of Protobuf needs one to be serialized")
        name = self._message or next(iter(messages))
        if name not in messages:
            known = ", ".join(list(messages)[:10])
            raise RequestInvalid(f"the schema has no message {name}", hint=f"it has {known}")
        return messages[name]

    def _compile(self, parsed: ParsedSchema) -> PayloadEncoder:
        from goqueue.schemas.protobuf.values import MessageEncoder  # noqa: PLC0415

        if self._file is not None:
            return MessageEncoder(self._file.kind, is_json=self._is_json)
        indexes = self._indexes(parsed)
        schema = cast("ProtobufSchema", parsed)
        name = next(name for name, place in schema.indexed_messages() if place == indexes)
        return MessageEncoder(schema.message_class(name), is_json=self._is_json)
