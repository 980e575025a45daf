"""The entry point of `goqueue-admin`."""

import sys

from goqueue.console import entry


def main(arguments: list[str] | None = None) -> int:
    """Run the program with `arguments`, or with those of the process."""
    code = entry.main("goqueue-admin", "goqueue_admin.registry", sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        entry.exit_process(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
