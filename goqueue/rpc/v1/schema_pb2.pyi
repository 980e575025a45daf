from goqueue.rpc.v1 import options_pb2 as _options_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RegisterSchemaRequest(_message.Message):
    __slots__ = ("subject", "schema", "schema_type", "references")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_TYPE_FIELD_NUMBER: _ClassVar[int]
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    subject: str
    schema: str
    schema_type: str
    references: _containers.RepeatedCompositeFieldContainer[SchemaReference]
    def __init__(self, subject: _Optional[str] = ..., schema: _Optional[str] = ..., schema_type: _Optional[str] = ..., references: _Optional[_Iterable[_Union[SchemaReference, _Mapping]]] = ...) -> None: ...

class SchemaReference(_message.Message):
    __slots__ = ("name", "subject", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    subject: str
    version: int
    def __init__(self, name: _Optional[str] = ..., subject: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class RegisterSchemaResponse(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class GetSchemaRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class Schema(_message.Message):
    __slots__ = ("subject", "version", "id", "schema_type", "schema", "references")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_TYPE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    subject: str
    version: int
    id: int
    schema_type: str
    schema: str
    references: _containers.RepeatedCompositeFieldContainer[SchemaReference]
    def __init__(self, subject: _Optional[str] = ..., version: _Optional[int] = ..., id: _Optional[int] = ..., schema_type: _Optional[str] = ..., schema: _Optional[str] = ..., references: _Optional[_Iterable[_Union[SchemaReference, _Mapping]]] = ...) -> None: ...

class GetVersionRequest(_message.Message):
    __slots__ = ("subject", "version")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    subject: str
    version: str
    def __init__(self, subject: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class TestCompatibilityRequest(_message.Message):
    __slots__ = ("subject", "version", "schema", "schema_type", "references")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_TYPE_FIELD_NUMBER: _ClassVar[int]
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    subject: str
    version: str
    schema: str
    schema_type: str
    references: _containers.RepeatedCompositeFieldContainer[SchemaReference]
    def __init__(self, subject: _Optional[str] = ..., version: _Optional[str] = ..., schema: _Optional[str] = ..., schema_type: _Optional[str] = ..., references: _Optional[_Iterable[_Union[SchemaReference, _Mapping]]] = ...) -> None: ...

class TestCompatibilityResponse(_message.Message):
    __slots__ = ("is_compatible", "messages")
    IS_COMPATIBLE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    is_compatible: bool
    messages: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, is_compatible: _Optional[bool] = ..., messages: _Optional[_Iterable[str]] = ...) -> None: ...

class DeleteVersionRequest(_message.Message):
    __slots__ = ("subject", "version", "permanent")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PERMANENT_FIELD_NUMBER: _ClassVar[int]
    subject: str
    version: str
    permanent: bool
    def __init__(self, subject: _Optional[str] = ..., version: _Optional[str] = ..., permanent: _Optional[bool] = ...) -> None: ...

class DeleteVersionResponse(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    def __init__(self, version: _Optional[int] = ...) -> None: ...
