"""Directories of exported files, and Parquet written from Arrow columns by the tasks that read.

Writing Parquet from Arrow takes a third of the time that rows take through the JVM. A split is in the order of time, so
a day ends where the next one begins, and nothing is sorted. What must stay true: readers never see half an export.
Files get their names when all are written; what they replace is removed then.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from goqueue.errors import PathInvalid, RequestInvalid
from goqueue.limits import MIB
from goqueue.quantities import quoted
from goqueue.spark.logs.port import LogSource
from goqueue.spark.logs.splits import Split
from goqueue.spark.reading.columns import BATCH_MESSAGES
from goqueue.spark.reading.failure import is_spark_error
from goqueue.spark.reading.tasks import Extract, run_on_splits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OURS = re.compile(r"part-.*|_SUCCESS|_temporary.*|_spark_metadata|\..*\.crc|[a-z]+=.*")
"""What Spark and we put into a directory of files; a directory with anything else is no export."""
_HINT = "name another directory, or replace what is there with --overwrite"


@dataclass(frozen=True, slots=True)
class FileTarget:
    """A directory that need not exist."""

    name: str
    local: Path | None
    """Where it is on this machine, if that is where the tasks run."""
    files: Any = None
    """Hadoop's view of it; None where a Connect server keeps that to itself."""

    @classmethod
    def of(cls, spark: "SparkSession", name: str) -> "FileTarget":
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
            if not is_spark_error(error):
                raise
            reason = str(getattr(error, "java_exception", error)).splitlines()[0].partition(": ")[2]
            raise PathInvalid(f"{quoted(name)} cannot be written: {reason}") from None
        return cls(name, local_path(name) if is_here and files.getScheme() == "file" else None, (files, path))

    def check_free(self, *, overwrites: bool, logs: LogSource) -> None:
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
        """Count the data files and their bytes."""
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
    """Return a path, or that of a file: URL."""
    url = urlsplit(name)
    return Path(unquote(url.path)) if url.scheme == "file" else Path(name)


_GROUP_BYTES = 64 * MIB  # of a row group before it is encoded: what a task holds
_GROUP_ROWS = 16 * BATCH_MESSAGES
_REPEATED = ("key", "topic", "partition", "priority")  # columns worth a dictionary
_UNORDERED = ("value", "headers")  # their minimum and maximum do not help to skip


@dataclass(frozen=True, slots=True)
class ParquetLayout:
    """The columns of the files, and their directories."""

    columns: tuple[str, ...]
    partition_by: tuple[str, ...]
    compression: str
    fails_on_loss: bool = True


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that a task has written, and where it belongs."""

    staged: str
    name: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ParquetWriteTask:
    """The work of a task."""

    logs: LogSource
    layout: ParquetLayout
    staging: str

    def __call__(self, split: Split) -> list[WrittenFile]:
        pa.set_cpu_count(1)  # cores are shared out by Spark
        extra = tuple(name for name in ("timestamp",) if name not in self.layout.columns)
        extract = Extract(self.logs, (*self.layout.columns, *extra), fails_on_loss=self.layout.fails_on_loss)
        parts: list[WrittenFile] = []
        open_file: _StagedFile | None = None
        try:
            for batch in extract.batches(split):
                for directory, piece in self._pieces(split, batch):
                    if open_file is None or open_file.directory != directory:
                        parts += open_file.end() if open_file else []
                        open_file = _StagedFile(self.layout, self.staging, directory)
                    open_file.add(piece)
        except BaseException:
            if open_file is not None:
                open_file.abandon()
            raise
        return parts + (open_file.end() if open_file else [])

    def _pieces(self, split: Split, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the rows by directory, in their order."""
        if not len(batch):
            return
        stored = batch.select(list(self.layout.columns))
        unit = "h" if "hour" in self.layout.partition_by else "D"
        times = batch.column("timestamp").cast(pa.timestamp("us")).to_numpy(zero_copy_only=False)
        units = times.astype(f"datetime64[{unit}]")
        edges = [0, *(np.flatnonzero(units[1:] != units[:-1]) + 1).tolist(), len(batch)]
        for first, end in pairwise(edges):
            yield self._directory(split, str(units[first])), stored.slice(first, end - first)

    def _directory(self, split: Split, time: str) -> str:
        names = {
            "day": time[:10],
            "hour": time[11:13],
            "topic": split.topic,
            "partition": str(split.partition),
        }
        return "".join(f"{name}={names[name]}/" for name in self.layout.partition_by)


class _StagedFile:
    """A Parquet file in the staging directory; row groups are cut so that a task holds little."""

    def __init__(self, layout: ParquetLayout, staging: str, directory: str) -> None:
        self.directory = directory
        self._layout = layout
        self._path = Path(staging, f"{uuid4().hex}.parquet")
        self._writer: Any = None
        self._held: list[pa.RecordBatch] = []
        self._held_rows = self._held_bytes = self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self._held_rows += len(batch)
        self._held_bytes += batch.nbytes
        if self._held_bytes >= _GROUP_BYTES or self._held_rows >= _GROUP_ROWS:
            self._write()

    def _write(self) -> None:
        if not self._held:
            return
        table = pa.Table.from_batches(self._held)
        if self._writer is None:
            names = table.column_names
            self._writer = pq.ParquetWriter(
                self._path,
                table.schema,
                compression=self._layout.compression,
                use_dictionary=[name for name in names if name in _REPEATED],
                write_statistics=[name for name in names if name not in _UNORDERED],
                coerce_timestamps="us",
            )
        self._writer.write_table(table, row_group_size=len(table))
        self._rows += len(table)
        self._held, self._held_rows, self._held_bytes = [], 0, 0

    def end(self) -> list[WrittenFile]:
        self._write()
        self._writer.close()
        name = f"{self.directory}part-{self._path.stem}.parquet"
        return [WrittenFile(str(self._path), name, self._rows, self._path.stat().st_size)]

    def abandon(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._path.unlink(missing_ok=True)


def write_parquet(
    spark: "SparkSession",
    logs: LogSource,
    splits: Sequence[Split],
    layout: ParquetLayout,
    target: Path,
    *,
    overwrites: bool,
) -> list[WrittenFile]:
    """Write the files, and move each to its place."""
    with _staging(target) as staging:
        found = run_on_splits(spark, splits, ParquetWriteTask(logs, layout, str(staging)))
        parts = [part for parts in found for part in parts]
        if overwrites:
            FileTarget.clear(target, keeps=staging)
        for part in parts:
            final = target / part.name
            final.parent.mkdir(parents=True, exist_ok=True)
            Path(part.staged).rename(final)
    (target / "_SUCCESS").touch()
    return parts


@contextmanager
def _staging(target: Path) -> Iterator[Path]:
    """Make a directory below the target, so that a rename moves a file to its place."""
    is_new = not target.exists()
    staging = target / f"_temporary-{uuid4().hex}"
    try:
        try:
            staging.mkdir(parents=True)
        except OSError as error:
            raise PathInvalid(f"{target} cannot be written: {error.strerror}") from None
        yield staging
    except BaseException:
        shutil.rmtree(target if is_new else staging, ignore_errors=True)
        raise
    shutil.rmtree(staging, ignore_errors=True)
