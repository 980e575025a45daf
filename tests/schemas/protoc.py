"""The compiler of Protobuf as a judge."""

import os
from importlib.resources import files
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

INCLUDES = str(files("grpc_tools") / "_proto")


def compiled(directory: Path, **texts: str) -> list[FileDescriptorProto] | None:
    """Compile files by name, and return them with what they import; None if the compiler refuses them."""
    directory.mkdir(exist_ok=True)
    for name, text in texts.items():
        (directory / f"{name}.proto").write_text(text, encoding="utf-8")
    target = directory / "set"
    target.unlink(missing_ok=True)
    names = [f"{name}.proto" for name in texts]
    arguments = ["protoc", f"-I{directory}", f"-I{INCLUDES}", "--include_imports", f"--descriptor_set_out={target}"]
    with open(os.devnull, "w") as silence:
        kept = os.dup(2)
        os.dup2(silence.fileno(), 2)  # it writes to the standard error of the process
        try:
            code = protoc.main([*arguments, *names])
        finally:
            os.dup2(kept, 2)
            os.close(kept)
    if code != 0:
        return None
    return list(FileDescriptorSet.FromString(target.read_bytes()).file)


def without_json_names(message: Any) -> Any:
    """Remove the names that the compiler derives, and custom options, which it can read and we keep as text."""
    message.DiscardUnknownFields()
    for field, value in message.ListFields():
        if field.name == "json_name":
            message.ClearField("json_name")
        elif field.message_type is not None:
            for one in value if field.is_repeated else [value]:
                without_json_names(one)
            if field.name == "options" and not value.ListFields():
                message.ClearField("options")
    return message
