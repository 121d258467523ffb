"""Unique ids. A module of its own because hooks make some and must stay light."""

from __future__ import annotations

import os
import time

_HEX_DIGITS = frozenset("0123456789abcdef")
_CITATION_HASH_DIGITS = 12
"""Digits of the hash in a citation."""


def parse_cited_id(name: str) -> str:
    """Return the id in a citation. A context cites `id:hash`, with the hash of the cited text."""
    identity, _, digits = name.rpartition(":")
    return identity if identity and len(digits) == _CITATION_HASH_DIGITS and _HEX_DIGITS.issuperset(digits) else name


def new_id() -> str:
    """Return a UUIDv7: unique, and sorted by time like the journal it is in."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    digits = f"{value:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
