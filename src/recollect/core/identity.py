"""Names that never repeat. Apart from what has them, because hooks make some and must not load the rest."""

from __future__ import annotations

import os
import time


def new_id() -> str:
    """Return a UUIDv7: unique, and sorted by time like the journal it stands in."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    digits = f"{value:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
