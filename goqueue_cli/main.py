"""The entry point of `goqueue-cli`, which has no commands yet."""

import sys

from goqueue import __version__

HELP = """\
Usage: goqueue-cli [--help] [--version]

goqueue-cli is for those who use topics: publishing, consuming, groups, dead letters; its commands
arrive with the broker's network interface.
"""


def main() -> int:
    match sys.argv[1:]:
        case ["--version"]:
            print(f"goqueue-cli {__version__}")
        case ["--help" | "-h"]:
            print(HELP, end="")
        case _:
            print("error: goqueue-cli has no commands yet\nhint: goqueue-cli --help", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
