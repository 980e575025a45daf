"""How much memory this process has."""

import resource
import sys
from pathlib import Path

_STATM = Path("/proc/self/statm")
_UNIT = 1 if sys.platform == "darwin" else 1024  # of what getrusage says


def memory_bytes() -> int:
    """What is resident; where the system does not tell, the most that ever was."""
    try:
        return int(_STATM.read_bytes().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT
