"""How much memory does this process take? Parsers are asked to stop by it: they can take gigabytes over a hundred kilobytes."""

from __future__ import annotations

import sys


def resident() -> int:
    """Return the bytes of memory that this process holds; where the system does not say, the most it ever held."""
    import resource

    try:
        with open("/proc/self/statm", "rb") as told:  # noqa: PTH123 - asked often while a file is parsed
            return int(told.read().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
