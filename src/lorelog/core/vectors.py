"""Arithmetic on single vectors, for which numpy would cost more to load than to do without."""

from __future__ import annotations

import math
import sys
from array import array

from lorelog.core.errors import ModelFault


def unit(vector: bytes) -> bytes:
    """Return a little-endian float32 vector at unit length; zeros stay zeros, and what is no number is refused."""
    if not vector or len(vector) % 4:
        raise ModelFault(f"a vector of {len(vector)} bytes is not a row of float32 numbers")
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    length = math.hypot(*numbers)
    if not math.isfinite(length):
        raise ModelFault("a vector holds something that is not a finite number")
    if length:
        numbers = array("f", [number / length for number in numbers])
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()
