"""Where files are written to: a directory of this machine, or whatever Hadoop has a name for."""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from goqueue.errors import PathInvalid, RequestInvalid
from goqueue.quantities import quoted
from goqueue.spark.failure import is_foreign
from goqueue.spark.logs.port import Logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OURS = re.compile(r"part-.*|_SUCCESS|_temporary.*|_spark_metadata|\..*\.crc|[a-z]+=.*")
"""What Spark and we put into a directory of files; a directory with anything else is no export."""
_HINT = "name another directory, or replace what is there with --overwrite"


@dataclass(frozen=True, slots=True)
class Target:
    """A directory that need not exist."""

    name: str
    local: Path | None
    """Where it is on this machine, if that is where the tasks run."""
    files: Any = None
    """Hadoop's view of it; None where a Connect server keeps that to itself."""

    @classmethod
    def of(cls, spark: "SparkSession", name: str) -> "Target":
        if not name or name.isspace():
            raise RequestInvalid("the target has no name")
        jvm: Any = getattr(spark, "_jvm", None) if hasattr(spark, "_jsparkSession") else None
        if jvm is None:
            return cls(name, None)
        is_here = str(spark.sparkContext.master).startswith("local")
        context: Any = spark.sparkContext._jsc
        try:
            path = jvm.org.apache.hadoop.fs.Path(name)
            files = path.getFileSystem(context.hadoopConfiguration())
        except Exception as error:  # whatever a file system finds wrong with an address
            if not is_foreign(error):
                raise
            reason = str(getattr(error, "java_exception", error)).splitlines()[0].partition(": ")[2]
            raise PathInvalid(f"{quoted(name)} cannot be written: {reason}") from None
        return cls(name, local_path(name) if is_here and files.getScheme() == "file" else None, (files, path))

    def check_free(self, *, overwrites: bool, logs: Logs) -> None:
        """Refuse what would mix two exports, or remove what is none."""
        if self.local is not None:
            self._check_apart(self.local, logs.name)
        found = self._entries()
        if found and not overwrites:
            raise PathInvalid(f"{self.name} is not empty", hint=_HINT)
        strange = [name for name in found if not _OURS.fullmatch(name)]
        if strange:
            raise PathInvalid(
                f"{self.name} holds {quoted(strange[0])}, which no export has put there",
                hint="nothing was removed; name a directory that holds an export, or none",
            )

    def _check_apart(self, local: Path, logs: str) -> None:
        if local.exists() and not local.is_dir():
            raise PathInvalid(f"{self.name} is a file", hint="name a directory")
        here, there = Path(os.path.realpath(local)), Path(os.path.realpath(logs))
        if there.is_dir() and (here == there or there in here.parents):
            raise PathInvalid(f"{self.name} is in the data directory {logs}", hint="name a directory elsewhere")

    def _entries(self) -> list[str]:
        if self.files is None:
            return []
        files, path = self.files
        if not files.exists(path):
            return []
        return [str(one.getPath().getName()) for one in files.listStatus(path)]

    def measure(self) -> tuple[int | None, int | None]:
        """How many files of data there are, and their bytes."""
        if self.files is None:
            return None, None
        files, path = self.files
        found, number, size = files.listFiles(path, True), 0, 0
        while found.hasNext():
            one = found.next()
            if one.getPath().getName().startswith("part-"):
                number, size = number + 1, size + one.getLen()
        return number, size

    @staticmethod
    def clear(directory: Path, *, keeps: Path) -> None:
        """Remove an export, once what takes its place is whole."""
        for entry in directory.iterdir():
            if entry == keeps or not _OURS.fullmatch(entry.name):
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()


def local_path(name: str) -> Path:
    """A path as it is, or the one of a file: URL."""
    url = urlsplit(name)
    return Path(unquote(url.path)) if url.scheme == "file" else Path(name)
