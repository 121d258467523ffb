"""One file, read and parsed, in the shape in which it goes from the process that parses to the one that writes.

Plain tuples all through: they cross a pipe. What the tables keep packed is packed here already, since there are several who parse
and one who writes.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from typing import NamedTuple

from lorelog.code.languages import HEAD, language_of
from lorelog.code.names import base_name, tail_of
from lorelog.code.packing import pack_uses
from lorelog.code.reading import MOST_BYTES, read_source
from lorelog.code.tables import digest_of
from lorelog.code.tables_schema import BETWEEN, PLACES
from lorelog.core.code import Extract, Symbol, Use
from lorelog.core.document import Stamp

RECIPE = "1"
"""What files are parsed by: raise it when the same bytes would give other symbols, uses or imports than before."""

SymbolRow = tuple[str, str, int, int, int, int, int, int, str, str, str, str, str, str]
"""Name, kind, span, place of the name, signature, docstring, visibility, container, bases, digest."""
ImportRow = tuple[str, str, str, str, int, int]
"""Module, its last part, name, alias, line, column."""


class Parsed(NamedTuple):
    """What became of one file."""

    path: str
    """Relative to its root."""
    stamp: tuple[int, int, int]
    digest: str
    language: str = ""
    lines: int = 0
    broken: int = 0
    problem: str = ""
    same: bool = False
    """Its bytes are those that are known, and were not parsed again."""
    gone: bool = False
    symbols: tuple[SymbolRow, ...] = ()
    bases: tuple[tuple[int, str], ...] = ()
    """Which symbol names which class as one that it is made from."""
    uses: tuple[tuple[str, bytes], ...] = ()
    imports: tuple[ImportRow, ...] = ()


class Asked(NamedTuple):
    """A file to be parsed."""

    path: str
    digest: str = ""
    """What is known of it: nothing is parsed again while its bytes are the same."""
    size: int = 0


def parse_file(root: str, asked: Asked) -> Parsed:
    """Read and parse one file. Whatever is wrong with it is in the answer."""
    try:
        stamp, content = _read(f"{root.rstrip('/')}/{asked.path}")
    except FileNotFoundError:
        return Parsed(asked.path, (0, 0, 0), "", gone=True)
    except OSError as error:
        return Parsed(asked.path, (0, 0, 0), "", problem=f"cannot be read: {error.strerror or error}")
    if content is None:
        why = "too large" if stamp[0] > MOST_BYTES else "no regular file"
        return Parsed(asked.path, stamp, "", problem=why)
    digest = digest_of(content)
    if digest == asked.digest:
        return Parsed(asked.path, stamp, digest, same=True)
    return _parse(Parsed(asked.path, stamp, digest), content)


def _parse(file: Parsed, content: bytes) -> Parsed:
    language = language_of(file.path, content[:HEAD])
    if language is None:
        return file
    reading = read_source(content, language)
    if reading.refusal:
        return file._replace(language=language, problem=reading.refusal)
    from lorelog.code.extract import extract

    return rows_of(file.path, file.stamp, file.digest, extract(reading.source, language))


def rows_of(path: str, stamp: tuple[int, int, int], digest: str, extract: Extract) -> Parsed:
    """Return what a file says, as rows."""
    symbols = tuple(_symbol_row(one) for one in extract.symbols[:PLACES])
    bases = {
        (place, base_name(base)) for place, one in enumerate(extract.symbols[:PLACES]) for base in one.bases if base
    }
    imports = tuple(
        (one.module, tail_of(one.module), one.name, one.alias, one.line, one.column) for one in extract.imports[:PLACES]
    )
    return Parsed(
        path,
        stamp,
        digest,
        extract.language,
        extract.lines,
        extract.broken,
        symbols=symbols,
        bases=tuple(sorted(bases)),
        uses=_packed(extract),
        imports=imports,
    )


def _symbol_row(one: Symbol) -> SymbolRow:
    line, column, end_line, end_column = one.span
    return (
        *(one.name, str(one.kind), line, column, end_line, end_column, one.name_line, one.name_column),
        *(one.signature, one.docstring, one.visibility, one.container, BETWEEN.join(one.bases), one.digest),
    )


def _packed(extract: Extract) -> tuple[tuple[str, bytes], ...]:
    """Return the uses of each name, without those that cannot mean anything but a variable of the function around them."""
    known = {one.name for one in extract.symbols}
    for taken in extract.imports:
        known.update((taken.name, taken.alias, tail_of(taken.module), taken.module.partition(".")[0]))
    by_name: dict[str, list[Use]] = defaultdict(list)
    for use in extract.uses:
        if not use.local or use.name in known:
            by_name[use.name].append(use)
    return tuple((name, pack_uses(uses)) for name, uses in by_name.items() if name)


def _read(path: str) -> tuple[tuple[int, int, int], bytes | None]:
    """Return a file's stamp and bytes; no bytes for what is no file, or too large. Links are not followed."""
    # A pipe would keep us waiting for whoever writes to it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        stamp = Stamp.of(status)
        seen = (stamp.size, stamp.mtime_ns, stamp.inode)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
            return seen, None
        pieces: list[bytes] = []
        left = MOST_BYTES + 1  # it may grow while it is read
        while left > 0 and (piece := os.read(descriptor, min(left, 1 << 20))):
            pieces.append(piece)
            left -= len(piece)
        return seen, b"".join(pieces)
    finally:
        os.close(descriptor)
