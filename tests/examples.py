"""How many examples of a property are tried: all of them in `make test-rest`, a few in `make test`."""

from __future__ import annotations

import os

EVERYDAY_EXAMPLES = 15


def examples(count: int) -> int:
    """Return the number of examples for a property that wants `count` of them."""
    takes_all = os.environ.get("LORELOG_TEST_EXAMPLES") == "all" or os.environ.get("LORELOG_TEST_EXPLORE")
    return count if takes_all else min(count, EVERYDAY_EXAMPLES)
