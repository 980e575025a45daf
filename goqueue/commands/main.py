"""The entry point of `goqueue`."""

import sys

from goqueue.console import entry


def main(arguments: list[str] | None = None) -> int:
    return entry.main("goqueue", "goqueue.commands.registry", sys.argv[1:] if arguments is None else arguments)


def version() -> None:
    """Print the version.

    \b
      goqueue version
    """
    entry.print_version("goqueue")


if __name__ == "__main__":
    sys.exit(main())
