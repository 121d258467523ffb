"""Arithmetic on single vectors, without the import time of numpy."""

from __future__ import annotations

import math
import struct
import sys
from array import array

from lorelog.core.errors import ModelFault

FEW_VECTORS = 4
"""So many vectors take Python less time than the import of numpy, which is as long as 25 of 1,536 dimensions. Fewer than the first
batch of an index run, which goes on with more."""


def needs_numpy(count: int) -> bool:
    """Return whether numpy computes with so many vectors: with many, or if the process has imported it already."""
    return count > FEW_VECTORS or "numpy" in sys.modules


def is_finite_vector(vector: bytes) -> bool:
    """Return whether all numbers of a little-endian float32 vector are finite."""
    return all(map(math.isfinite, struct.unpack(f"<{len(vector) // 4}f", vector)))


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
