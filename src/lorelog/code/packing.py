"""Uses of one name in one file as a few bytes: about five each, where a row would take forty.

Numbers are written in groups of seven bits, lines as distances from the one before. What stands before the dot is one of a handful
nearly always, and is then part of a byte.
"""

from __future__ import annotations

from collections.abc import Iterable

from lorelog.core.code import Use, UseKind

KINDS = (UseKind.CALL, UseKind.READ, UseKind.WRITE, UseKind.TYPE, UseKind.IMPORT)
_RECEIVERS = ("", "?", "self", "cls", "this", "super", "super()", "@")
"""Their places are what is stored: new ones go behind, and never beyond 14."""
_WRITTEN_OUT = 15
_NUMBER = {kind: place for place, kind in enumerate(KINDS)}
_RECEIVER = {text: place for place, text in enumerate(_RECEIVERS)}
_LOCAL = 8


def pack_numbers(numbers: Iterable[int]) -> bytes:
    """Return numbers that are not negative, in groups of seven bits each."""
    packed = bytearray()
    for number in numbers:
        left = number
        while left > 0x7F:
            packed.append(left & 0x7F | 0x80)
            left >>= 7
        packed.append(left)
    return bytes(packed)


def unpack_numbers(packed: bytes) -> list[int]:
    """Return what `pack_numbers` was given."""
    found: list[int] = []
    number = shift = 0
    for byte in packed:
        number |= (byte & 0x7F) << shift
        if byte & 0x80:
            shift += 7
        else:
            found.append(number)
            number = shift = 0
    return found


def pack_uses(uses: Iterable[Use]) -> bytes:
    """Return uses of one name in one file, sorted by place, as bytes."""
    packed = bytearray()
    last = 0
    for use in sorted(uses, key=lambda one: (one.line, one.column)):
        receiver = _RECEIVER.get(use.receiver, _WRITTEN_OUT)
        packed.append(_NUMBER[use.kind] | (_LOCAL if use.local else 0) | receiver << 4)
        for number in (use.line - last, use.column, use.enclosing + 1):
            left = number
            while left > 0x7F:
                packed.append(left & 0x7F | 0x80)
                left >>= 7
            packed.append(left)
        if receiver == _WRITTEN_OUT:
            text = use.receiver.encode("utf-8", "surrogatepass")
            packed += pack_numbers([len(text)])
            packed += text
        last = use.line
    return bytes(packed)


def unpack_uses(name: str, packed: bytes) -> list[Use]:
    """Return the uses that `pack_uses` was given, in their order in the file."""
    found: list[Use] = []
    place, line, end = 0, 0, len(packed)
    while place < end:
        head = packed[place]
        place += 1
        numbers: list[int] = []
        receiver = head >> 4
        wanted = 4 if receiver == _WRITTEN_OUT else 3
        while len(numbers) < wanted:
            number = shift = 0
            while packed[place] & 0x80:
                number |= (packed[place] & 0x7F) << shift
                shift += 7
                place += 1
            numbers.append(number | packed[place] << shift)
            place += 1
        if receiver == _WRITTEN_OUT:
            before = packed[place : place + numbers[3]].decode("utf-8", "surrogatepass")
            place += numbers[3]
        else:
            before = _RECEIVERS[receiver]
        line += numbers[0]
        found.append(Use(name, KINDS[head & 7], line, numbers[1], numbers[2] - 1, before, bool(head & _LOCAL)))
    return found
