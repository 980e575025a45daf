"""`goqueue spark-inspect package`: what executors of a cluster need."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goqueue.console import terminal
from goqueue.console.rows import write_rows
from goqueue.quantities import format_size

if TYPE_CHECKING:
    from goqueue.spark.package import PackageFile


def package(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A .zip or a .tar.gz; one that is there is replaced.")],
    output: Annotated[Literal["table", "json"], typer.Option("--output", "-o", help="How to print.")] = "table",
) -> None:
    """Pack what executors of a cluster need to read logs.

    \b
      goqueue spark-inspect package goqueue.zip
      goqueue spark-inspect package goqueue.tar.gz
      goqueue spark-inspect package goqueue.tar.gz -o json

    A .zip has this project alone, for executors that have numpy, pyarrow and the other libraries. A .tar.gz has them
    all, copied from this environment without a network; it fits executors with the same version of Python and the
    same kind of machine. The lines that use it are printed. One environment gives the same bytes each time.
    """
    from goqueue.spark.package import pack  # noqa: PLC0415

    packed = pack(file)
    if output == "json":
        row = {
            "file": packed.path,
            "bytes": packed.bytes,
            "holds": list(packed.holds),
            "python": packed.python,
            "settings": packed.settings,
        }
        write_rows([row], (), output)
        return
    terminal.write("".join(f"{line}\n" for line in _lines(packed)))
    terminal.say(f"{packed.path}: {format_size(packed.bytes)}, for {packed.python or 'any Python from 3.11 on'}")


def _lines(packed: "PackageFile") -> list[str]:
    """Return the command lines that use the file, for our commands and for other jobs."""
    settings = " ".join(f"--conf '{name}={value}'" for name, value in packed.settings.items())
    return [
        f"goqueue spark-inspect summary DIR --master spark://HOST:7077 {settings}",
        f"spark-submit {settings} JOB.py",
    ]
