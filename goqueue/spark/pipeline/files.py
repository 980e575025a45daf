"""Directories of files wherever Spark can write: on this machine, on a cluster's disks, in a store of objects."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = {
    "parquet": {"compression": "zstd"},
    "json": {"ignoreNullFields": "false"},
    "csv": {"header": "true"},
}


@dataclass(frozen=True, slots=True)
class Holding:
    """What is below a path."""

    files: int
    bytes: int


NOTHING = Holding(0, 0)


def holding(spark: "SparkSession", path: str) -> Holding:
    """What a path holds, marks such as `_SUCCESS` left out. A Connect server does not tell: nothing, then."""
    jvm: Any = getattr(spark, "_jvm", None) if not type(spark).__module__.startswith("pyspark.sql.connect") else None
    if jvm is None:
        return NOTHING
    place = jvm.org.apache.hadoop.fs.Path(path)
    system = place.getFileSystem(spark._jsc.hadoopConfiguration())
    if not system.exists(place):
        return NOTHING
    files = total = 0
    listing = system.listFiles(place, True)
    while listing.hasNext():
        status = listing.next()
        if not status.getPath().getName().startswith(("_", ".")):
            files, total = files + 1, total + status.getLen()
    return Holding(files, total)
