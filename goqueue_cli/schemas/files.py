"""Schemas in files: their text, their format by the name, and references to other subjects."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from goqueue.console.failure import UsageInvalid
from goqueue.errors import PathInvalid
from goqueue.quantities import quoted

if TYPE_CHECKING:
    from goqueue.client import SchemaReferenceInfo
    from goqueue.client.schema_requests import SchemaType

SubjectArgument = Annotated[
    str, typer.Argument(metavar="SUBJECT", help="A subject, such as orders-value for the values of topic orders.")
]
FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="A file with a schema; - reads stdin.")]
TypeFlag = Annotated[
    Literal["avro", "json", "protobuf"] | None,
    typer.Option("--type", help="The format. Default: by the name, .json or .proto; otherwise avro."),
]
ReferenceFlag = Annotated[
    list[str] | None,
    typer.Option("--reference", metavar="NAME=SUBJECT:VERSION", help="What a name in the schema stands for; repeats."),
]


def read_schema(path: str) -> str:
    """Return the text of a file."""
    try:
        if path == "-":
            return sys.stdin.read()
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise PathInvalid(f"{path} cannot be read: {error.strerror}", hint="name a file, or - for stdin") from None
    except UnicodeDecodeError as error:
        raise PathInvalid(f"{path} is not UTF-8: byte {error.start}", hint="schemas are text") from None


def schema_type(path: str, given: str | None) -> "SchemaType":
    """Return the format by the flag, or by the name of the file."""
    if given is None:
        given = "protobuf" if path.endswith(".proto") else "json" if path.endswith(".json") else "avro"
    return cast("SchemaType", given.upper())


def parse_references(texts: list[str] | None) -> "list[SchemaReferenceInfo]":
    from goqueue.client import SchemaReferenceInfo  # noqa: PLC0415 - not before the command line is understood

    found = []
    for text in texts or ():
        name, _, target = text.partition("=")
        subject, _, version = target.rpartition(":")
        if not (name and subject and version.isascii() and version.isdecimal()):
            hint = "write NAME=SUBJECT:VERSION, such as shop.Order=orders-value:1"
            raise UsageInvalid(f"--reference {quoted(text)} is not a reference", hint=hint)
        found.append(SchemaReferenceInfo(name, subject, int(version)))
    return found


def parse_version(text: str) -> int | Literal["latest"]:
    """Return the number of a version."""
    if text == "latest":
        return "latest"
    if not (text.isascii() and text.isdecimal() and 0 < len(text) <= 10):
        raise UsageInvalid(f"{quoted(text)} is not a version", hint="write a number, or latest")
    return int(text)
