"""The address of an object store: `s3://bucket/prefix`, and the same of other clouds."""

import re
from dataclasses import dataclass

from goqueue.quantities import quoted

SCHEMES = ("s3", "gs", "az")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,221}")
_SEGMENT = re.compile(r"[A-Za-z0-9!_.*'()=+,-]{1,255}")


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """A bucket, or a container, and a prefix of names in it."""

    scheme: str
    bucket: str
    prefix: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}{'/' if self.prefix else ''}{self.prefix}"


def is_store_address(text: str) -> bool:
    """Return whether a target is an address, and not a path."""
    return "://" in text


def parse_store_address(text: str) -> StoreAddress:
    """Raise ValueError for what is no address of an object store."""
    scheme, _, rest = text.partition("://")
    bucket, _, prefix = rest.partition("/")
    if scheme not in SCHEMES:
        raise ValueError(f"{quoted(scheme)} is no kind of object store: write {', '.join(SCHEMES)}, or a path")
    if "@" in rest:  # what stands before it may be a secret, so it is not shown
        raise ValueError("an address has no credentials: name a file in backup.credentials_file")
    prefix = prefix.strip("/")
    segments = prefix.split("/") if prefix else []
    if not _BUCKET.fullmatch(bucket) or not all(_SEGMENT.fullmatch(one) and one not in ("..", ".") for one in segments):
        raise ValueError(f"{quoted(text)} is no address of an object store: write it as in s3://bucket/prefix")
    return StoreAddress(scheme, bucket, prefix)


def parse_endpoint(text: str) -> str:
    """Raise ValueError unless this is the URL of a server."""
    found = re.fullmatch(r"(https?)://([A-Za-z0-9.\[\]:_-]+)(/[A-Za-z0-9/._-]*)?", text)
    if found is None:
        raise ValueError(f"{quoted(text)} is no endpoint: write scheme and host, such as https://storage.example:9000")
    return text.rstrip("/")


def parse_region(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", text):
        raise ValueError(f"{quoted(text)} is no region: write it as in eu-central-1")
    return text
