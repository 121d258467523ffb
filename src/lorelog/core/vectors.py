"""Arithmetic on single vectors, without the import time of numpy."""

from __future__ import annotations

import math
import sys
from array import array

from lorelog.core.errors import ModelFault


def unit_vector(vector: bytes) -> bytes:
    """Return a little-endian float32 vector at unit length; zeros stay zeros. Raise ModelFault for other bytes or
    NaN.
    """
    if not vector or len(vector) % 4:
        raise ModelFault(f"a vector of {len(vector)} bytes is not an array of float32 numbers")
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    length = math.hypot(*numbers)
    if not math.isfinite(length):
        raise ModelFault("a vector contains a value that is not finite")
    if length:
        numbers = array("f", [number / length for number in numbers])
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()
