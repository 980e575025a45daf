"""The entry point of `goqueue-cli`."""

import sys

from goqueue.console import entry


def main(arguments: list[str] | None = None) -> int:
    """The program of the command line when there are no `arguments`: it then ends here."""
    code = entry.main("goqueue-cli", "goqueue_cli.registry", sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        entry.exit_process(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
