"""Files of `.proto` texts: syntax, imports, options, types, extensions and services."""

from google.protobuf.descriptor_pb2 import FileDescriptorProto, ServiceDescriptorProto

from goqueue.schemas.protobuf.enum_parser import read_enum
from goqueue.schemas.protobuf.message_parser import MessageParser
from goqueue.schemas.protobuf.option_parser import read_option_statement
from goqueue.schemas.protobuf.tokens import TokenReader
from goqueue.schemas.schema_format import check_text


def parse_file(text: str) -> FileDescriptorProto:
    """Read a text. Names of types are as written and not resolved; all options are uninterpreted."""
    check_text(text)
    tokens = TokenReader(text)
    file = FileDescriptorProto(syntax=_syntax(tokens))
    while tokens.peek().kind != "end":
        _read_statement(tokens, file)
    return file


def _syntax(tokens: TokenReader) -> str:
    if tokens.is_at("edition"):
        tokens.fail('editions are not supported; use syntax = "proto2" or "proto3"')
    if not tokens.is_at("syntax") or tokens.peek(1).text != "=":
        return "proto2"
    tokens.next()
    tokens.expect("=")
    token = tokens.peek()
    syntax = tokens.text()
    if syntax not in {"proto2", "proto3"}:
        tokens.fail(f"unknown syntax {syntax!r}; use proto2 or proto3", token)
    tokens.expect(";")
    return syntax


def _read_statement(tokens: TokenReader, file: FileDescriptorProto) -> None:
    token = tokens.next()
    messages = MessageParser(tokens, file.syntax)
    match token.text if token.kind in {"name", "symbol"} else "":
        case ";":
            pass
        case "import":
            _read_import(tokens, file)
        case "package":
            if file.package:
                tokens.fail("the package is stated twice", token)
            file.package = tokens.full_name(may_be_absolute=False)
            tokens.expect(";")
        case "option":
            read_option_statement(tokens, file.options)
        case "message":
            messages.read_message(file.message_type.add())
        case "enum":
            read_enum(tokens, file.enum_type.add())
        case "extend":
            messages.read_extensions(file.extension, file.message_type)
        case "service":
            _read_service(tokens, file.service.add())
        case _:
            tokens.fail(f"expected a statement, found {token.text!r}", token)


def _read_import(tokens: TokenReader, file: FileDescriptorProto) -> None:
    kind = tokens.name() if tokens.is_at("public", "weak") else ""
    token = tokens.peek()
    name = tokens.text()
    if name in file.dependency:
        tokens.fail(f"{name!r} is imported twice", token)
    if kind == "public":
        file.public_dependency.append(len(file.dependency))
    elif kind == "weak":
        file.weak_dependency.append(len(file.dependency))
    file.dependency.append(name)
    tokens.expect(";")


def _read_service(tokens: TokenReader, service: ServiceDescriptorProto) -> None:
    service.name = tokens.name()
    tokens.scope.append(service.name)
    tokens.expect("{")
    while not tokens.accept("}"):
        if tokens.accept(";"):
            continue
        if tokens.accept("option"):
            read_option_statement(tokens, service.options)
            continue
        tokens.expect("rpc")
        method = service.method.add(name=tokens.name())
        method.input_type, is_streamed = _message_of_method(tokens)
        if is_streamed:
            method.client_streaming = True
        tokens.expect("returns")
        method.output_type, is_streamed = _message_of_method(tokens)
        if is_streamed:
            method.server_streaming = True
        if tokens.accept("{"):
            while not tokens.accept("}"):
                if not tokens.accept(";"):
                    tokens.expect("option")
                    read_option_statement(tokens, method.options)
        else:
            tokens.expect(";")
    tokens.scope.pop()


def _message_of_method(tokens: TokenReader) -> tuple[str, bool]:
    tokens.expect("(")
    is_streamed = tokens.is_at("stream") and tokens.peek(1).text != ")"
    if is_streamed:
        tokens.next()
    name = tokens.full_name()
    tokens.expect(")")
    return name, is_streamed
