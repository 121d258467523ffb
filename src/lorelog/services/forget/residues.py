"""Recognize forgotten text without keeping it: quotations in logs, and residues in files.

Quotes are keyed digests of word sequences: a line quotes a text if both contain the same `WINDOW` words in a row, or the
same word that looks like a key. Case, punctuation and JSON escapes do not matter.

Canaries are fragments of the text, some 24 bytes long and some 64 bytes apart, in every form in which a file may hold
them: other encodings and normal forms, lower case, JSON and HTML escapes. Only keyed digests of them are kept. Wherever a
fragment begins, one of its first 8 offsets is a multiple of 8 in the file: numpy hashes the 8 bytes there, a table tells
whether a fragment has them, and the fragment's digest confirms it. There is one search, by digests: a receipt and an
interrupted forget have nothing else.

Every file is searched as it is, so pages of a database that were freed but not erased are searched too, and then once
more with its content decoded: rows of SQLite, members of archives, compressed streams. A tantivy index stores no text,
only words: a word of the forgotten text is a residue if no visible document has it, but a segment still does.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import html
import json
import lzma
import mmap
import os
import re
import secrets
import sqlite3
import stat
import tarfile
import tempfile
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property, partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.serializable import Serializable
from lorelog.core.sqlite_file import connect_unchanging

if TYPE_CHECKING:
    import numpy as np

    Table = np.ndarray[Any, np.dtype[np.bool_]]

WINDOW = 4
_REPEATED_WORDS = 5
_MIN_QUOTE_CHARS = 8
"""A shorter text is too common to be recognized; only its ids are removed."""
_KEY_LIKE = re.compile(r"(?=\S*\d)(?=\S*[^\W\d_])\S{10,}")
"""Letters and digits in one word, such as a token or a password: recognized alone."""
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|[nrtbf\"\\/])")
_WORD = re.compile(r"[^\W_]+")

FRAGMENT_BYTES = 24
_MAX_FRAGMENT_CHARS = 200
"""A longer one is mostly white space."""
_STRIDE_BYTES = 64
_MAX_FRAGMENTS = 1_024
"""Per text; a longer text has them farther apart."""
_MIN_RECEIPT_BYTES = 48
"""A digest of a shorter text could be found by guessing, so a receipt has none."""
_MIN_TEXT_BYTES = 6
"""A shorter text is in too many files by chance."""
_PREFIX_BYTES = 8
_PREFIX_BITS = 22
_BLOCK_BYTES = 1 << 20
_MAX_WORDS = 2_000
_MAX_DEPTH = 3
_MAX_DECODED_BYTES = 4 << 30
"""Per file; more is a bomb, or must be searched where it is unpacked."""


class Quotes(Struct, frozen=True):
    """Digests of the word sequences of forgotten texts."""

    key: str
    digests: frozenset[str]
    sizes: frozenset[int]
    """Lengths of the sequences, in words."""
    firsts: frozenset[int]
    """16-bit checksums of their first words: most words begin no sequence, and this is checked first."""

    def occur_in(self, text: str) -> bool:
        """Return True if a text quotes a forgotten one."""
        unescaped = [_ESCAPE.sub(lambda match: str(json.loads(f'"{match[0]}"')), text)] if "\\" in text else []
        return any(digest for form in (text, *unescaped) for digest in self.find(form))

    def find(self, text: str) -> Iterator[str]:
        """Yield the digests of the sequences that a text holds."""
        words = _split_words(text)
        starts = [start for start, word in enumerate(words) if _checksum(word) in self.firsts]
        digests = (_digest_words(words[start : start + size], self.key) for start in starts for size in self.sizes)
        return (digest for digest in digests if digest in self.digests)


def make_quotes(texts: Iterable[str], kept: Iterable[str] = (), window: int = WINDOW) -> Quotes:
    """Return the quotes of texts, without those of sequences that a kept text contains, too."""
    sequences: set[tuple[str, ...]] = set()
    for text in texts:
        words = _split_words(text)
        sequences.update(tuple(words[start : start + window]) for start in range(len(words) - window + 1))
        pieces = (words, *map(_split_words, _KEY_LIKE.findall(text)))
        short = (piece for piece in pieces if len(piece) < window and sum(map(len, piece)) >= _MIN_QUOTE_CHARS)
        sequences.update(map(tuple, short))
    key = secrets.token_hex(16)
    digests = frozenset(_digest_words(sequence, key) for sequence in sequences)
    firsts = frozenset(_checksum(sequence[0]) for sequence in sequences)
    quotes = Quotes(key, digests, frozenset(map(len, sequences)), firsts)
    return replace(quotes, digests=digests.difference(*map(quotes.find, kept)))


def find_repetitions(texts: Sequence[str]) -> Callable[[str], bool]:
    """Return a function that is True for a text that repeats a part of others: five words, a word like a key, a fragment."""
    quotes, canaries = make_quotes(texts, window=_REPEATED_WORDS), make_canaries(texts)
    return lambda text: any(quotes.find(text)) or canaries.occur_in(text)


def _split_words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _digest_words(words: Iterable[str], key: str) -> str:
    return hashlib.blake2b(" ".join(words).encode("utf-8", "replace"), key=key.encode(), digest_size=8).hexdigest()


def _checksum(word: str) -> int:
    return zlib.crc32(word.encode("utf-8", "replace")) & 0xFFFF


class CanaryFragment(Serializable, Struct, frozen=True, array_like=True):
    """A fragment of forgotten text in one form, as a digest."""

    form: str
    length: int
    prefixes: tuple[int, ...]
    """Hashes of the 8 bytes at each of its first 8 offsets; -1 for bytes that are all zero."""
    digest: str


class Canaries(Serializable, Struct, frozen=True, dict=True, omit_defaults=True):
    """Digests of fragments of forgotten texts."""

    fragments: tuple[CanaryFragment, ...] = ()
    texts: int = 0
    short: int = 0
    """Texts that are too short for a receipt, and are searched for only once."""
    key: str = ""
    """Secret, hexadecimal: without it nothing can be guessed from the digests."""
    once: tuple[CanaryFragment, ...] = ()
    """Fragments of the short texts."""
    exact: tuple[bytes, ...] = ()
    """Texts shorter than a fragment; never stored."""
    words: tuple[str, ...] = ()
    """Words of the texts as a tantivy index has them; never stored."""

    def __repr__(self) -> str:
        return f"Canaries({self.texts} texts)"

    def without_text(self, *, with_key: bool) -> Canaries:
        """Return the canaries without anything of the text, for a plan; for a receipt also without key and short texts."""
        return replace(self, exact=(), words=(), **({} if with_key else {"key": "", "once": ()}))

    @cached_property
    def by_prefix(self) -> dict[int, dict[tuple[int, int], dict[str, CanaryFragment]]]:
        """The fragments by prefix, then by the prefix's offset and the length, then by digest."""
        found: dict[int, dict[tuple[int, int], dict[str, CanaryFragment]]] = {}
        for each in (*self.fragments, *self.once):
            for offset, prefix in enumerate(each.prefixes):
                if prefix >= 0:
                    found.setdefault(prefix, {}).setdefault((offset, each.length), {})[each.digest] = each
        return found

    @cached_property
    def max_length(self) -> int:
        """The length of the longest fragment."""
        lengths = (each.length for each in (*self.fragments, *self.once))
        return max(*lengths, *map(len, self.exact), 0, 0)

    @cached_property
    def table(self) -> Table:
        """Whether a prefix hash belongs to a fragment, by the hash."""
        import numpy as np

        table = np.zeros(1 << _PREFIX_BITS, dtype=np.bool_)
        table[list(self.by_prefix)] = True
        return table

    @cached_property
    def factor(self) -> int:
        """The odd number that hashes prefixes."""
        return int.from_bytes(bytes.fromhex(self._digest(b"prefix", 8)), "little") | 1

    def make_fragment(self, form: str, data: bytes) -> CanaryFragment:
        """Return the digest of a fragment."""
        prefixes = [self._hash_prefix(data[offset : offset + _PREFIX_BYTES]) for offset in range(_PREFIX_BYTES)]
        return CanaryFragment(form, len(data), tuple(prefixes), self._digest(data))

    def _hash_prefix(self, data: bytes | bytearray) -> int:
        number = int.from_bytes(data, "little")
        return (number * self.factor & (1 << 64) - 1) >> (64 - _PREFIX_BITS) if number else -1

    def _digest(self, data: bytes | bytearray, size: int = 16) -> str:
        return hashlib.blake2b(data, key=bytes.fromhex(self.key), digest_size=size).hexdigest()

    def occur_in(self, text: str) -> bool:
        """Return True if a text holds a fragment, or a whole short text."""
        return any(self.scan(form.encode("utf-8", "replace")) for form in {text, _collapse(text)})

    def scan(self, block: bytes | bytearray, size: int | None = None) -> Counter[str]:
        """Return the fragments that begin in the first `size` bytes, by form."""
        size = len(block) if size is None else size
        found = Counter(fragment.form for fragment in self.matches(block, size))
        for text in self.exact:
            place = block.find(text)
            while 0 <= place < size:
                end = place + len(text)
                edges = (block[max(0, place - 1) : place + 1], block[end - 1 : end + 1])
                # A whole word: no letter or digit continues it on either side.
                found["bytes"] += not any(len(edge) == 2 and edge.isalnum() for edge in edges)
                place = block.find(text, place + 1)
        return +found

    def matches(self, block: bytes | bytearray, size: int) -> Iterator[CanaryFragment]:
        """Yield the fragments that begin in the first `size` bytes."""
        for place in self._candidates(block):
            prefix = self._hash_prefix(block[place : place + _PREFIX_BYTES])
            for (offset, length), digests in self.by_prefix.get(prefix, {}).items():
                start = place - offset
                if 0 <= start < size:
                    fragment = digests.get(self._digest(block[start : start + length]))
                    if fragment is not None:
                        yield fragment

    def _candidates(self, block: bytes | bytearray) -> list[int]:
        """Return the multiples of 8 where the next 8 bytes have the hash of a fragment's bytes."""
        import numpy as np

        if len(block) < _PREFIX_BYTES or not self.by_prefix:
            return []
        numbers = np.frombuffer(block, dtype="<u8", count=len(block) // _PREFIX_BYTES)
        hashes = numbers * np.uint64(self.factor)
        hashes >>= np.uint64(64 - _PREFIX_BITS)
        hits = np.flatnonzero(np.take(self.table, hashes.view(np.int64), mode="clip"))
        places: list[int] = (hits[numbers[hits] != 0] * _PREFIX_BYTES).tolist()
        return places


def make_canaries(
    texts: Sequence[str],
    vector_keys: Sequence[str] = (),
    *,
    vectors: Sequence[bytes] = (),
    kept: Iterable[str] = (),
    analyse: Callable[[str], Iterable[str]] | None = None,
) -> Canaries:
    """Return the canaries of texts, of the content keys of their vectors, and of the vectors' bytes.

    `kept` are texts that stay: a fragment that is also in one of them proves nothing and is left out. `analyse` returns
    the words of a text as the index has them.
    """
    key = secrets.token_hex(32)
    make_fragment = Canaries(key=key).make_fragment
    chosen = {text: _choose_fragments(text) for text in dict.fromkeys(texts)}
    digests = {
        piece: [make_fragment(form, data) for form, data in _forms(piece)] for piece in set().union(*chosen.values())
    }
    every = Canaries(tuple(each for some in digests.values() for each in some), key=key)
    whole = {text.strip() for text, pieces in chosen.items() if not pieces}
    shared: set[str] = set()
    for text in kept:
        for variant in {text, _collapse(text)}:
            data = variant.encode("utf-8", "replace")
            shared.update(fragment.digest for fragment in every.matches(data, len(data)))
            whole = {each for each in whole if each not in variant}
    stored: set[CanaryFragment] = set()
    once: set[CanaryFragment] = set()
    short = {text for text in chosen if len(text.strip().encode("utf-8", "replace")) < _MIN_RECEIPT_BYTES}
    for text, pieces in chosen.items():
        for piece in pieces:
            if shared.isdisjoint(fragment.digest for fragment in digests[piece]):
                (once if text in short else stored).update(digests[piece])
    for form, values in (("vector key", [name.encode() for name in vector_keys]), ("vector", vectors)):
        for value in values:
            if len(data := bytes(value[:FRAGMENT_BYTES])) >= 2 * _PREFIX_BYTES and any(data):
                stored.add(make_fragment(form, data))
    usable = [text for text in whole if len(text.encode("utf-8", "replace")) >= _MIN_TEXT_BYTES]
    words = dict.fromkeys(word for text in chosen for word in (analyse(text) if analyse else ()))
    return Canaries(
        tuple(sorted(stored, key=lambda each: (each.form, each.length, each.digest))),
        texts=len(chosen),
        short=len(short),
        key=key,
        once=tuple(once),
        exact=tuple({data for text in usable for _, data in _forms(text)}),
        words=tuple(words)[:_MAX_WORDS],
    )


def _choose_fragments(text: str) -> set[str]:
    """Return distinctive fragments spread over a text in each of its normal forms."""
    fragments: set[str] = set()
    for variant in {text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)}:
        stride = max(_STRIDE_BYTES, len(variant.encode("utf-8", "replace")) // _MAX_FRAGMENTS)
        due, passed, last = 0, 0, 0
        words = (match.span() for match in re.finditer(r"\S+", variant))
        # where a word begins, and inside words as long as a fragment (scripts without spaces)
        starts = (
            at for start, end in words for at in range(start, end, 16) if at == start or not _continues(variant[at])
        )
        for start in starts:
            passed += len(variant[last:start].encode("utf-8", "replace"))
            last = start
            fragment = _cut_fragment(variant, start) if passed >= due else ""
            letters = sum(letter.isalnum() for letter in fragment)
            has_word = any(len(word) >= 4 and not word.isdigit() for word in _WORD.findall(fragment))
            if (has_word and 2 * letters >= len(fragment)) or (letters >= 8 and not fragment.isascii()):
                fragments.add(fragment)
                due = passed + stride
    return fragments


def _continues(letter: str) -> bool:
    """Return True for a character that normal forms join with the one before it."""
    return unicodedata.combining(letter) > 0 or "\u1160" <= letter <= "\u11ff"


def _cut_fragment(text: str, start: int) -> str:
    """Return the shortest fragment from a position with enough bytes in every form; empty at the end of the text."""
    for end in range(start + 8, min(len(text), start + _MAX_FRAGMENT_CHARS) + 1):
        fragment = text[start:end]
        if not fragment[-1].isspace() and not (end < len(text) and _continues(text[end])):
            forms = (_collapse(unicodedata.normalize(form, fragment)) for form in ("NFC", "NFD"))
            if min(len(form.encode("utf-8", "replace")) for form in forms) >= FRAGMENT_BYTES:
                return fragment
    return ""


def _collapse(text: str) -> str:
    return " ".join(text.split())


def _forms(text: str) -> Iterator[tuple[str, bytes]]:
    """Yield a fragment in every form in which a file may hold it, each one once."""
    seen: set[bytes] = set()
    escaped = json.dumps(text)[1:-1]
    candidates = (
        ("bytes", text),
        ("spaces joined", _collapse(text)),
        ("lower-case", text.lower()),
        ("lower-case", _collapse(text).lower()),
        ("case-folded", _collapse(text).casefold()),
        ("json-escaped", escaped),
        ("json-escaped", json.dumps(text, ensure_ascii=False)[1:-1]),
        ("json-escaped", json.dumps(escaped)[1:-1]),
        ("html-escaped", html.escape(text)),
        ("html-escaped", html.escape(text, quote=False)),
    )
    for form, variant in candidates:
        for encoding in ("utf-8", "utf-16-le", "utf-16-be") if form == "bytes" else ("utf-8",):
            data = variant.encode(encoding, "replace")
            if data not in seen:
                seen.add(data)
                yield (form if encoding == "utf-8" else "utf-16"), data


class Residue(Serializable, Struct, frozen=True):
    """Forgotten text that a file still holds."""

    path: str
    form: str
    """How the file holds it: `bytes`, `json-escaped`, `sqlite page`, `sqlite row`, `gzip`, `tantivy word`, …"""
    count: int


class ResidueReport(Serializable, Struct, frozen=True, kw_only=True):
    """Result of a search for residues."""

    files: int
    residues: tuple[Residue, ...] = ()
    unreadable: tuple[str, ...] = ()
    """Files that could not be read whole, each with the reason."""

    @property
    def ok(self) -> bool:
        """True if everything was read and nothing was found."""
        return not self.residues and not self.unreadable


def find_residues(
    canaries: Canaries, places: Sequence[Path], *, keep: Callable[[Path], bool] = lambda path: True
) -> ResidueReport:
    """Search every file below the places. `keep(path)` is True for the files to search. Links are not followed."""
    search = _ResidueSearch(canaries)
    seen: set[tuple[int, int]] = set()
    for path in (path for place in places for path in _walk(place, search.unreadable) if keep(path)):
        try:
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                search.search_file(path, status.st_size)
        except FileNotFoundError:
            continue  # removed meanwhile: nothing is left of it
        except OSError as error:
            search.unreadable.append(f"{path}: {error.strerror or error}")
    found = [Residue(path, form, count) for (path, form), count in sorted(search.found.items())]
    return ResidueReport(files=search.files, residues=tuple(found), unreadable=tuple(search.unreadable))


def _walk(place: Path, unreadable: list[str]) -> Iterator[Path]:
    if not place.is_dir() or place.is_symlink():
        yield place
        return
    for folder, folders, names in os.walk(
        place, onerror=lambda error: unreadable.append(f"{error.filename}: {error.strerror}")
    ):
        folders.sort()
        yield from (Path(folder, name) for name in sorted(names))


class _ResidueSearch:
    """One search: what was read, and what was found by path and form."""

    def __init__(self, canaries: Canaries) -> None:
        self._canaries = canaries
        self.files = 0
        self.found: Counter[tuple[str, str]] = Counter()
        self.unreadable: list[str] = []

    def search_file(self, path: Path, size: int) -> None:
        self.files += 1
        self._add(path, "file name", self._canaries.scan(str(path.name).encode("utf-8", "replace")))
        if not size:
            return
        with path.open("rb") as file, closing(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) as data:
            head = data[:512]
            is_database = head.startswith(b"SQLite format 3\0") or path.name.endswith(("-wal", "-journal"))
            for start in range(0, size, _BLOCK_BYTES):
                end = min(size, start + _BLOCK_BYTES)
                block = data[start : min(size, end + self._canaries.max_length)]
                self._add(path, "sqlite page" if is_database else "", self._canaries.scan(block, end - start))
        if head.startswith(b"SQLite format 3\0"):
            self._search_rows(path)
        elif head.startswith(b"{") and path.name == "meta.json" and any(path.parent.glob("*.term")):
            self._search_words(path.parent)
        else:
            try:
                with path.open("rb") as file:
                    self._search_packed(str(path), file, 0)
            except _UNPACK_ERRORS as error:
                self.unreadable.append(f"{path}: it cannot be unpacked: {error}")

    def _add(self, path: Path | str, form: str, forms: Counter[str]) -> None:
        for own, count in forms.items():
            self.found[str(path), own if own.startswith("vector") else form or own] += count

    def _search_rows(self, path: Path) -> None:
        """Search the rows of a database: a value that spans pages is not in one piece in the file."""
        try:
            with closing(connect_unchanging(path)) as db:
                db.text_factory = bytes
                tables = db.execute(
                    "SELECT replace(name, '\"', '\"\"') FROM sqlite_master WHERE type = 'table'"
                ).fetchall()
                for (table,) in tables:
                    rows = db.execute(f'SELECT * FROM "{table.decode()}"')  # noqa: S608
                    values = ([value for value in row if isinstance(value, bytes)] for row in rows)
                    self._search_stream(path, "sqlite row", (b"\0".join([*row, b""]) for row in values))
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self.unreadable.append(f"{path}: its rows cannot be read: {error}")

    def _search_stream(self, path: Path | str, form: str, pieces: Iterable[bytes]) -> None:
        """Search pieces of one stream; fragments may span two of them."""
        rest, total = bytearray(), 0
        for piece in pieces:
            total += len(piece)
            if total > _MAX_DECODED_BYTES:
                self.unreadable.append(f"{path}: it unpacks to more than {_MAX_DECODED_BYTES >> 30} GiB")
                return
            rest += piece
            if len(rest) > _BLOCK_BYTES:
                cut = len(rest) - self._canaries.max_length
                self._add(path, form, self._canaries.scan(rest, cut))
                rest = rest[cut:]
        self._add(path, form, self._canaries.scan(rest))

    def _search_packed(self, name: str, file: IO[bytes], depth: int) -> None:
        """Search what a compressed file or an archive holds, and archives in it."""
        head = file.read(512)
        file.seek(0)
        opener = next((_OPENERS[magic] for magic in _OPENERS if head.startswith(magic)), None)
        if depth >= _MAX_DEPTH:
            if opener is not None:
                self.unreadable.append(f"{name}: archives in archives in archives")
        elif head.startswith(b"\x28\xb5\x2f\xfd"):
            self.unreadable.append(f"{name}: compressed with zstd")
        elif opener is not None:
            form, open_file = opener
            with open_file(file) as unpacked:
                self._search_member(name, form, unpacked, depth)
        elif head[:2] in {b"x\x01", b"x\x9c", b"x\xda"}:
            self._search_stream(name, "zlib", _iter_inflated(file))
        elif head.startswith(b"PK\x03\x04"):
            with zipfile.ZipFile(file) as archive:
                for info in archive.infolist():
                    with archive.open(info) as member:
                        self._search_member(f"{name}!{info.filename}", "zip", member, depth)
        elif head[257:262] == b"ustar":
            with tarfile.open(fileobj=file, mode="r:") as archive:
                for entry in archive:
                    if (file_in_archive := archive.extractfile(entry)) is not None:
                        self._search_member(f"{name}!{entry.name}", "tar", file_in_archive, depth)

    def _search_member(self, name: str, form: str, stream: IO[bytes], depth: int) -> None:
        self._search_stream(name, form, iter(partial(stream.read, _BLOCK_BYTES), b""))
        stream.seek(0)
        self._search_packed(name, stream, depth + 1)

    def _search_words(self, folder: Path) -> None:
        """Look up the words of the texts in an index, in deleted documents too."""
        if not self._canaries.words:
            return
        import tantivy

        # tantivy locks the folder even to read, and may still do so when it is deleted
        with tempfile.TemporaryDirectory(prefix="lorelog-", ignore_cleanup_errors=True) as links:
            for file in folder.iterdir():
                if not file.name.endswith(".lock"):
                    Path(links, file.name).symlink_to(file.absolute())
            try:
                index = tantivy.Index.open(links)
                index.reload()
                searcher = index.searcher()
                for word in self._canaries.words:
                    if searcher.doc_freq("body", word):
                        query = tantivy.Query.term_query(index.schema, "body", word)
                        found: Any = searcher.search(query, limit=1, count=True)
                        if not found.count:
                            self.found[str(folder), "tantivy word"] += 1
            except ValueError as error:
                self.unreadable.append(f"{folder}: the index cannot be opened: {error}")


def _iter_inflated(file: IO[bytes]) -> Iterator[bytes]:
    """Yield what a zlib stream holds; nothing more after its end, or if it only looks like one."""
    inflater = zlib.decompressobj()
    while block := file.read(1 << 16):
        try:
            yield inflater.decompress(block)
        except zlib.error:
            return


_UNPACK_ERRORS = (
    *(OSError, EOFError, ValueError, RuntimeError, zlib.error),
    *(lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile),
)
_OPENERS: Mapping[bytes, tuple[str, Callable[[IO[bytes]], Any]]] = {
    b"\x1f\x8b": ("gzip", lambda file: gzip.GzipFile(fileobj=file, mode="rb")),
    b"BZh": ("bzip2", bz2.BZ2File),
    b"\xfd7zXZ\0": ("xz", lzma.LZMAFile),
}
