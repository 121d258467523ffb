"""Find the files, symbols, settings and commands that a text may mention.

They are candidates: `mention_targets` looks them up in the project, and what neither exists nor existed there does not
count.
Many words of prose are also names of functions, so a bare word counts only if it is formatted as code.

The things they meant, as they were when the memory was made, are kept in a file beside the index, since history does
not change. A row says how its state is known (`TargetEvidence`); a row without that, or of an older recipe, is not read.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from enum import StrEnum
from functools import cache
from itertools import filterfalse
from pathlib import Path
from threading import Lock

from msgspec import DecodeError, Struct
from msgspec.json import decode, encode

from lorelog.core.errors import StoreError
from lorelog.core.ids import sha256
from lorelog.core.sqlite_file import DatabaseSchema, SqliteFile, transaction
from lorelog.retrieval.cache import ProcessCache


class MentionKind(StrEnum):
    """Kinds of things that a text mentions."""

    PATH = "path"
    SYMBOL = "symbol"
    SETTING = "setting"
    COMMAND = "command"


class Mention(Struct, frozen=True):
    """A thing that a text may mention."""

    kind: MentionKind
    text: str
    """A path with slashes, names joined by dots, the key of a setting, or the words of a command."""
    first_line: int = 0
    last_line: int = 0
    """The mentioned lines of a file; 0 if there are none."""


MAX_MENTIONS = 40
"""Limit for one text. A chunk with more mentions is a listing, and the first ones are enough."""

MAX_TEXT_CHARS = 100_000
"""Limit for one text. The rest is ignored; chunks are far shorter."""

_MENTIONS: ProcessCache[tuple[Mention, ...]] = ProcessCache(8_192)
# All patterns take linear time for any input: a memory may come from anyone.
_LINES = r"(?::(\d{1,6})(?:[-–:](\d{1,6}))?|#L(\d{1,6})(?:-L?(\d{1,6}))?)?"
_NAME = r"[A-Za-z_$][\w$]*"
_PATTERNS = {
    "fence": r"[ \t]{0,3}(`{3,}|~{3,})(.*)",
    "span": r"(?<!`)(`{1,2})(?!`)([^`\n]{1,200})\1(?!`)",
    "comment": r"(?s)<!--.*?(?:-->|\Z)",
    "link": r"\b[a-z][a-z0-9+.-]{1,15}://\S+|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}\.[\w.]+",
    "path": (
        r"(?<![\w/.@+~$%\\-])"
        r"((?:\.{1,2}/){0,8}(?:[\w.@+-]+/)*[\w.@+-]*[\w+]\.[A-Za-z][A-Za-z0-9_]{0,9}"  # with a suffix
        r"|(?:\.{1,2}/)?(?:[\w.@+-]+/)+[\w.@+-]*\w/?"  # with a slash
        r"|(?:Make|Docker|Just|Rake|Proc|Vagrant|Gem|Pip)file)" + _LINES + r"(?![\w/])"
    ),
    "chain": rf"(?a)(?<![\w$./-]){_NAME}(?:(?:\.|::|#|->){_NAME})*(\(\)?)?",
    "variable": r"(?a)(?<![\w$./-])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![\w/])",
    "key": r"(?a)[a-z][\w-]*(?:\.[a-z][\w-]*)+",
    "runner": (
        r"^(?:\$ |> )?(?:sudo )?(make|just|task|npm run|pnpm run|yarn run|npm|pnpm|yarn|uv run|poetry run|cargo|composer run)"
        r" ([A-Za-z_][\w:.-]*)"
    ),
    "code": r"^[A-Z]\w*\.[a-z_]\w+|[a-z\d]_[a-z\d]|[a-z]\d?[A-Z]|(?:^|\.)_\w|[A-Z]{2}[a-z]{2}",
}
_SHELLS = frozenset({"", "sh", "bash", "zsh", "shell", "console", "fish"})
_RUNS_ANYTHING = frozenset({"cargo", "npm", "pnpm", "yarn"})
_NON_TARGETS = frozenset(
    {"install", "add", "remove", "build", "init", "publish", "exec", "run", "update", "sure", "it", "the"}
)
_KEYWORDS = frozenset(
    "true false null none self this return import from class def function const let var async await new for while if"
    " else try except catch throw raise with yield int str string bool float list dict tuple set object void public"
    " private static final interface struct enum type trait impl match case switch break continue pass print main test"
    " todo".split()
)
_MIN_NAME_CHARS = 3
_MIN_MEMBER_CHARS = 2
"""Shorter names are variables of an example."""


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """Compile a pattern at first use: most searches need none."""
    return re.compile(_PATTERNS[name])


def find_mentions(text: str) -> tuple[Mention, ...]:
    """Return the mentions of a text without duplicates, in text order."""
    return _MENTIONS.of_text(text, _find_mentions)


def _find_mentions(text: str) -> tuple[Mention, ...]:
    candidates = sorted(_candidates(text), key=lambda candidate: candidate[0])
    return tuple(dict.fromkeys(mention for _, mention in candidates))[:MAX_MENTIONS]


def _candidates(text: str) -> Iterator[tuple[int, Mention]]:
    text = text[:MAX_TEXT_CHARS]
    if "<!--" in text:
        text = _blank_matches("comment", text)
    if "```" in text or "~~~" in text:
        prose: list[str] = []
        for line, offset, language in _iter_lines(text):
            prose.append(line if language is None else " " * len(line))
            if language in _SHELLS:
                yield from _find_commands(line, offset)
        text = "".join(prose)
    if "://" in text or "@" in text:
        text = _blank_matches("link", text)
    has_spans = "`" in text
    if has_spans:
        for span in _pattern("span").finditer(text):
            yield from _find_in_code(span[2], span.start(2))
    paths = list(_match_paths(text))
    yield from _find_paths(paths)
    text = _blank_paths(text, paths)
    yield from _find_in_prose(_blank_matches("span", text) if has_spans else text)


def _iter_lines(text: str) -> Iterator[tuple[str, int, str | None]]:
    """Yield lines with their offset and the language of their fence; None outside of fences, "`" for fence lines."""
    offset, fence, language = 0, "", ""
    for line in text.splitlines(keepends=True):
        match = _pattern("fence").match(line) if "```" in line or "~~~" in line else None
        if fence:
            closes = match is not None and match[1].startswith(fence) and not match[2].strip()
            yield line, offset, "`" if closes else language
            fence = "" if closes else fence
        elif match and not (match[1][0] == "`" and "`" in match[2]):  # otherwise it is a span in a sentence
            fence, language = match[1], match[2].strip().split(" ")[0].lower()
            yield line, offset, "`"
        else:
            yield line, offset, None
        offset += len(line)


def _blank_matches(pattern: str, text: str) -> str:
    """Replace matches by spaces, so that offsets stay the same."""
    return _pattern(pattern).sub(lambda match: " " * len(match[0]), text)


def _locate(text: str, words: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield start and end of some words of a text, in its order; no word that is left out may contain one of them."""
    end = 0
    for word in words:
        start = text.index(word, end)
        end = start + len(word)
        yield start, end


def _match_paths(text: str) -> Iterator[re.Match[str]]:
    """Yield the paths of a text: words with a slash or a dot, and a few names of files. The pattern is too slow for all words."""
    words = [word for word in text.split() if "/" in word or "." in word[:-1] or "file" in word]
    for place in _locate(text, words):
        yield from _pattern("path").finditer(text, *place)


def _blank_paths(text: str, paths: Iterable[re.Match[str]]) -> str:
    """Replace paths with a slash by spaces: their parts are no names, though they may look like it."""
    for match in paths:
        if "/" in match[1]:
            text = f"{text[: match.start()]}{' ' * len(match[0])}{text[match.end() :]}"
    return text


def _find_paths(paths: Iterable[re.Match[str]]) -> Iterator[tuple[int, Mention]]:
    for match in paths:
        path = match[1].rstrip("/")
        while path.startswith("./"):
            path = path[2:]
        first = int(match[2] or match[4] or 0)
        last = max(first, int(match[3] or match[5] or first))
        if len(path) >= _MIN_NAME_CHARS and not re.fullmatch(r"[\d.]+\w?|[\d/]+", path):
            yield match.start(), Mention(MentionKind.PATH, path, first, last)


def _find_in_code(span: str, start: int) -> Iterator[tuple[int, Mention]]:
    """Find mentions in a code span: a single word is a name; among several, only words that look like code."""
    yield from _find_commands(span, start)
    is_single = not re.search(r"[\s=,;]", span.strip())
    for match in _pattern("chain").finditer(_blank_paths(span, _match_paths(span))):
        name = _dotted(match[0])
        if _is_name(name) and (is_single or match[1] or _looks_like_code(name)):
            yield start + match.start(), Mention(MentionKind.SYMBOL, name)
    if _pattern("key").fullmatch(span.strip()) and not _pattern("path").fullmatch(span.strip() + "/"):
        yield start, Mention(MentionKind.SETTING, span.strip())
    for match in _pattern("variable").finditer(span):
        yield start + match.start(), Mention(MentionKind.SETTING, match[0])


def _find_in_prose(text: str) -> Iterator[tuple[int, Mention]]:
    words = [word for word in text.split() if not (word.islower() and word.isalpha() and word.isascii())]
    for place in _locate(text, filterfalse(_is_ordinary, words)):
        for match in _pattern("chain").finditer(text, *place):
            name = _dotted(match[0])
            if _is_name(name) and (match[0].endswith("()") or _looks_like_code(name)):
                yield match.start(), Mention(MentionKind.SYMBOL, name)
        for match in _pattern("variable").finditer(text, *place):
            yield match.start(), Mention(MentionKind.SETTING, match[0])


def _is_ordinary(word: str) -> bool:
    """Return whether a word is one of prose, as most are: letters without a capital inside, and punctuation after them."""
    plain = word.rstrip(".,;:!?)")
    return len(plain) < 2 or (plain.isalpha() and plain[1:].islower())


def _find_commands(text: str, start: int) -> Iterator[tuple[int, Mention]]:
    offset = start
    for line in text.splitlines(keepends=True):
        match = _pattern("runner").match(line.strip())
        if match and match[1] not in _RUNS_ANYTHING and match[2] not in _NON_TARGETS:
            yield offset, Mention(MentionKind.COMMAND, f"{match[1]} {match[2].rstrip('.:')}")
        offset += len(line)


def _dotted(name: str) -> str:
    return name.removesuffix("()").removesuffix("(").replace("::", ".").replace("#", ".").replace("->", ".")


def _is_name(name: str) -> bool:
    """Return True unless a name is too short, or a word of many languages; a member (`Node.type`) may be both."""
    before, _, last = name.rpartition(".")
    if name.startswith("$.") or len(last) < _MIN_MEMBER_CHARS:
        return False
    if len(before) >= _MIN_NAME_CHARS and before.lower() not in _KEYWORDS:
        return len(last) >= _MIN_NAME_CHARS or before[:1].isupper()
    return len(last) >= _MIN_NAME_CHARS and last.lower() not in _KEYWORDS


def _looks_like_code(name: str) -> bool:
    """Return True for snake_case, camelCase and Class.member; dots alone may be a host name."""
    return _pattern("code").search(name) is not None


CACHE_FILE = "freshness.db"
_RECIPE = 2
"""Raise it when the same memory would resolve to other targets."""
_DATABASE = DatabaseSchema(
    "CREATE TABLE targets (key TEXT PRIMARY KEY, targets TEXT NOT NULL) WITHOUT ROWID",
    _RECIPE,
    is_derived=True,
    has_log=False,
    hint="delete it: it is derived",
    pragmas=("synchronous = OFF",),
    busy_s=0.05,  # an entry that is not stored is resolved again
)


class GitUnavailable(Exception):
    """Git gave no answer in time, or the time ran out. Nothing is judged then: not finding something does not mean that it is gone."""


class TargetEvidence(StrEnum):
    """How the state of a thing at the time of a memory is known."""

    COMMIT = "commit"
    """It was read from the commit that was checked out at that time."""
    TREE = "tree"
    """It was read from the working tree, in a file that had not changed after that time."""
    UNKNOWN = "unknown"
    """It is not known: the search of the commit was cut, or the file changed after that time."""


class MentionTarget(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The thing that a memory mentions, as it was at that time."""

    evidence: TargetEvidence
    """How it is known that this is its state at that time."""
    kind: str
    name: str
    """As the memory writes it."""
    path: str = ""
    """The file; for a setting, the files that had it, one per line."""
    content: str = ""
    """Git's id of the file's content; empty for a folder."""
    first_line: int = 0
    last_line: int = 0
    lines: str = ""
    """Digest of these lines."""
    qualified: str = ""
    symbol_kind: str = ""
    signature: str = ""
    digest: str = ""
    shape: str = ""
    """Digest of its syntax, where formatters change tokens too; empty where they do not."""
    sketch: tuple[int, ...] = ()
    siblings: tuple[str, ...] = ()
    """Other definitions in the file, which cannot be the new name of this one."""
    commit: str = ""
    """The commit it was found in; empty for the working tree."""


def unknown_target(kind: str, name: str) -> MentionTarget:
    """Return the target of a mention whose state at that time cannot be told."""
    return MentionTarget(evidence=TargetEvidence.UNKNOWN, kind=kind, name=name)


def cache_key(content_hash: str, project: str, since: str) -> str:
    """Return the cache key of a memory: its content, project and time."""
    return sha256("\0".join((str(_RECIPE), content_hash, project, since)).encode("utf-8", "replace")).hexdigest()[:32]


_TARGETS: ProcessCache[tuple[MentionTarget, ...]] = ProcessCache(2_048)
"""Targets read lately, by file and key: what a key stands for never changes."""


class MentionCache:
    """Stores the targets of memories. Thread-safe. Errors of the disk are ignored."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / CACHE_FILE
        self._file = SqliteFile(self.path, _DATABASE)
        self._lock = Lock()

    def get(self, keys: Iterable[str]) -> dict[str, tuple[MentionTarget, ...]]:
        unique_keys = list(dict.fromkeys(keys))
        try:
            status = self.path.stat()
        except OSError:
            return {}
        file = (str(self.path), status.st_dev, status.st_ino)
        remembered = {key: targets for key in unique_keys if (targets := _TARGETS.get((file, key))) is not None}
        unique_keys = [key for key in unique_keys if key not in remembered]
        if not unique_keys:
            return remembered
        marks = ",".join("?" * len(unique_keys))
        rows: list[tuple[str, str]] = []
        with self._lock, suppress(StoreError), self._open() as db:
            rows = db.execute(f"SELECT key, targets FROM targets WHERE key IN ({marks})", unique_keys).fetchall()  # noqa: S608
        for key, text in rows:
            with suppress(DecodeError):  # without its evidence it is not trusted
                remembered[key] = decode(text, type=tuple[MentionTarget, ...])
                _TARGETS.put((file, key), remembered[key])
        return remembered

    def put(self, targets_by_key: Mapping[str, tuple[MentionTarget, ...]]) -> None:
        rows = [(key, encode(targets).decode()) for key, targets in targets_by_key.items()]
        if not rows or not self.path.parent.exists():
            return
        with self._lock, suppress(StoreError), self._open() as db, transaction(db):
            db.executemany("INSERT OR REPLACE INTO targets VALUES (?, ?)", rows)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with self._file.translated(), closing(self._file.open()) as db:
            yield db
