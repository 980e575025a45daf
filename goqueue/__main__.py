"""`python -m goqueue` is the `goqueue` command."""

import sys

from goqueue.commands.main import main

if __name__ == "__main__":
    sys.exit(main())
