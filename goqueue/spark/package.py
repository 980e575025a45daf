"""Pack what executors need to read logs into one file that Spark distributes.

A `.zip` has the packages of this project, for clusters whose Python has the libraries; a `.tar.gz` has the libraries
as well, copied from this environment, for clusters whose Python has nothing. One environment gives the same bytes
each time.
"""

import gzip
import importlib.metadata
import os
import platform
import re
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from tempfile import NamedTemporaryFile
from typing import IO

from goqueue.errors import PathInvalid, SparkUnavailable
from goqueue.quantities import quoted

LIBRARIES = ("crc32c", "httptools", "mmh3", "msgspec", "numpy", "pyarrow", "zstandard")
"""Libraries that the code on executors imports; those that they require come along."""
SCHEMA_LIBRARIES = ("jsonschema-rs", "protobuf")
"""Further libraries for typed columns, where they are installed."""
BACKUP_LIBRARIES = ("cryptography", "obstore")
"""Further libraries for backups that are encrypted or in object stores, where they are installed."""

UNPACKED = "goqueue-packages"
"""The directory beside an executor's work that the archive is unpacked in."""

_LEFT_OUT = {"__pycache__", "include", "test", "tests"}
_LEFT_OUT_ENDINGS = (".a", ".h", ".pxd", ".pyi", ".pyx")
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that the format knows
_MODE = 0o644
_GZIP_LEVEL = 1  # the next ones take three times as long and save an eighth
_HERE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class PackageFile:
    """A file that was written."""

    path: str
    bytes: int
    holds: tuple[str, ...]
    """The distributions in it, with their versions."""
    python: str | None
    """The only version and machine that it fits; None where it fits all."""

    @property
    def settings(self) -> dict[str, str]:
        """The settings with which Spark gives the file to executors."""
        path = os.path.abspath(self.path)
        if self.python is None:
            return {"spark.submit.pyFiles": path}
        return {"spark.archives": f"{path}#{UNPACKED}", "spark.executorEnv.PYTHONPATH": UNPACKED}


def pack(path: str) -> PackageFile:
    """Write it; the ending of the path says which kind. An existing file is replaced once all is written."""
    write = _kind(path)
    directory = os.path.dirname(os.path.abspath(path))
    try:
        with NamedTemporaryFile("w+b", dir=directory, prefix=".goqueue-", delete=False) as file:
            unfinished = Path(file.name)
            try:
                holds, python = write(file)
                unfinished.chmod(_MODE)
                unfinished.replace(path)
            except BaseException:
                unfinished.unlink()
                raise
    except FileNotFoundError:
        raise PathInvalid(f"{quoted(directory)} is no directory", hint="make it first") from None
    except OSError as error:
        raise PathInvalid(f"{quoted(path)} cannot be written: {error.strerror}") from error
    return PackageFile(path, os.path.getsize(path), holds, python)


def _kind(path: str) -> "Callable[[IO[bytes]], tuple[tuple[str, ...], str | None]]":
    if path.endswith(".zip"):
        return _write_zip
    if path.endswith((".tar.gz", ".tgz")):
        return _write_archive
    raise PathInvalid(
        f"{quoted(path)} ends neither in .zip nor in .tar.gz",
        hint="a .zip has this project alone, a .tar.gz its libraries as well",
    )


def _write_zip(file: IO[bytes]) -> tuple[tuple[str, ...], None]:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, path in _own():
            entry = zipfile.ZipInfo(name, _ZIP_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = _MODE << 16
            packed.writestr(entry, path.read_bytes())
    return (_named("goqueue"),), None


def _write_archive(file: IO[bytes]) -> tuple[tuple[str, ...], str]:
    installed = {_plain(str(one.name)) for one in importlib.metadata.distributions()}
    distributions = sorted(
        _distributions((*LIBRARIES, *(one for one in (*SCHEMA_LIBRARIES, *BACKUP_LIBRARIES) if one in installed)))
    )
    members = dict(_own())
    for distribution in distributions:
        members |= _files(distribution)
    with (
        gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as packed,
    ):
        for name, path in sorted(members.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = path.stat().st_size, _MODE
            with path.open("rb") as content:
                packed.addfile(entry, content)
    return tuple(_named(one) for one in ("goqueue", *distributions)), _fits()


def _fits() -> str:
    return f"CPython {sys.version_info[0]}.{sys.version_info[1]} on {sys.platform} {platform.machine()}"


def _own() -> Iterator[tuple[str, Path]]:
    """Yield the modules of this project, and the one by whose name Spark finds the data source."""
    for path in sorted(_HERE.rglob("*.py")):
        yield PurePath(_HERE.name, path.relative_to(_HERE)).as_posix(), path
    discovery = _HERE / "spark" / "discovery" / "pyspark_goqueue.py"
    yield discovery.name, discovery


def _named(distribution: str) -> str:
    return f"{distribution} {importlib.metadata.version(distribution)}"


def _distributions(names: tuple[str, ...]) -> set[str]:
    """Return these distributions and those that they require."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = _plain(waiting.pop())
        if name in found:
            continue
        try:
            required = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            raise SparkUnavailable(f"{name} is not installed", hint="pip install 'goqueue[spark]'") from None
        found.add(name)
        waiting += [one for one in required if ";" not in one]  # behind a semicolon stand extras, and older Pythons
    return found


def _plain(requirement: str) -> str:
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def _files(distribution: str) -> dict[str, Path]:
    """Return the files of a distribution by their place in a directory of packages."""
    found = {}
    for file in importlib.metadata.files(distribution) or ():
        if file.is_absolute() or ".." in file.parts or _LEFT_OUT & set(file.parts):
            continue  # programs and headers stand elsewhere, and tests are of no use there
        path = Path(str(file.locate()))
        if not file.name.endswith(_LEFT_OUT_ENDINGS) and path.is_file():
            found[file.as_posix()] = path
    return found
