"""The entry point of `goqueue-admin`, which has no commands yet."""

import sys

from goqueue import __version__

HELP = """\
Usage: goqueue-admin [--help] [--version]

goqueue-admin is for those who run a broker: tenants, quotas, keys, backups and the dashboard; its commands
arrive with the broker's network interface.
"""


def main() -> int:
    match sys.argv[1:]:
        case ["--version"]:
            print(f"goqueue-admin {__version__}")
        case ["--help" | "-h"]:
            print(HELP, end="")
        case _:
            print("error: goqueue-admin has no commands yet\nhint: goqueue-admin --help", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
