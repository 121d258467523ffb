"""From what a server answers to vectors, or an `Unreadable` that says what is wrong with it."""

from __future__ import annotations

import array
import binascii
import sys
from collections.abc import Sequence
from math import isfinite
from typing import Any

from lorelog.core.ports import Vector
from lorelog.core.vectors import unit
from lorelog.models.dialect import Told, Unreadable


class NotFinite(Unreadable):
    """An embedding is made of numbers of which some are none: for this text, the model has no answer."""


def in_order(told: Told, expected: int) -> list[Any]:
    """Return the embeddings in the order of their texts; exactly one for each."""
    if len(told.embeddings) != expected:
        raise Unreadable(f"{len(told.embeddings)} embeddings for {expected} texts")
    if told.places is None or all(place is None for place in told.places):
        return told.embeddings
    by_place = {place: one for place, one in zip(told.places, told.embeddings, strict=True) if isinstance(place, int)}
    if set(by_place) != set(range(expected)):
        raise Unreadable("embeddings whose `index` does not name each text once")
    return [by_place[place] for place in range(expected)]


def vector_of(embedding: object) -> Vector:
    """Return an embedding, a list of numbers or base64 of their bytes, as a vector."""
    try:
        if isinstance(embedding, str):
            vector = binascii.a2b_base64(embedding, strict_mode=True)
            numbers = _numbers(vector)
        elif isinstance(embedding, list):
            numbers = array.array("f", embedding)
            vector = _packed(numbers)
        else:
            raise Unreadable("an embedding that is neither a list nor base64")
    except (ValueError, TypeError, OverflowError) as error:
        raise Unreadable("an embedding that is not made of 32-bit numbers") from error
    if not numbers:
        raise Unreadable("an empty embedding")
    # A sum of doubles made from finite 32-bit numbers is finite; one that is not infects it.
    if not isfinite(sum(numbers)):
        raise NotFinite("an embedding with numbers that are not finite")
    return vector


def cut(vectors: Sequence[Vector], dimensions: int) -> list[Vector]:
    """Return the first numbers of each vector, at unit length again."""
    short = min((len(vector) for vector in vectors), default=4 * dimensions)
    if short < 4 * dimensions:
        raise Unreadable(f"vectors of {short // 4} numbers, and {dimensions} are to be kept")
    return [unit(vector[: 4 * dimensions]) for vector in vectors]


def _numbers(vector: Vector) -> array.array[float]:
    numbers = array.array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _packed(numbers: array.array[float]) -> Vector:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()
