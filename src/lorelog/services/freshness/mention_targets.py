"""Resolve the mentions of a memory to the things that they meant when the memory was made, and cache the result.

The commit that was checked out at that time decides. A thing that is missing there but in the working tree was not yet
committed, or came later: its state at the first check counts. A thing that is in neither is not a mention.

Each memory is resolved once, since history does not change. The cache is a file beside the index that can be deleted.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from lorelog.core.code import Symbol
from lorelog.services.freshness.mentions import Mention, MentionKind
from lorelog.services.freshness.working_tree import (
    LocatedSymbol,
    WorkingTree,
    joint_digest,
    lines_of,
    parse_symbols,
    source_of,
    text_sketch,
)

if TYPE_CHECKING:
    from lorelog.code.git import GitHistory


CACHE_FILE = "freshness.db"
_RECIPE = 1
"""Raise it when the same memory would resolve to other targets."""
_SCHEMA = "CREATE TABLE IF NOT EXISTS named (key TEXT PRIMARY KEY, things TEXT NOT NULL) WITHOUT ROWID"
_BUSY_TIMEOUT_S = 0.05
"""The cache waits no longer for another process; an entry that is not stored is resolved again."""
_MAX_FILES_READ = 200
_MAX_FILES_PARSED = 40
_MAX_UNSURE_FILES = 8
"""Limits of files read from history, and parsed, for one memory."""
_DEFINITION_KEYWORDS = rb"class|def|fn|func|function|interface|trait|struct|enum|type|const|let|var|val|module|namespace|object|record|macro_rules!|define"
"""Keywords before the name of a definition, in most languages."""
_MAX_AMBIGUOUS = 3
"""A name with more definitions is ambiguous and ignored."""
_MAX_SIBLINGS = 400
_MAX_SETTING_FILES = 5
PROSE_SUFFIXES = (".md", ".markdown", ".rst", ".txt", ".adoc", ".lock", ".svg", ".ipynb", ".csv", ".jsonl")
"""Files that describe settings but do not contain them: a changelog mentions settings that were removed long ago."""
_COMMAND_FILES = {
    "make": ("Makefile", "GNUmakefile", "makefile"),
    "just": ("justfile", "Justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "uv": ("pyproject.toml",),
    "poetry": ("pyproject.toml",),
    "composer": ("composer.json",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionTarget:
    """The thing that a memory mentions, as it was at that time."""

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
    sketch: tuple[int, ...] = ()
    siblings: tuple[str, ...] = ()
    """Other definitions in the file, which cannot be the new name of this one."""
    commit: str = ""
    """The commit it was found in; empty for the working tree."""


_FIELDS = {field.name for field in fields(MentionTarget)}


def cache_key(content_hash: str, project: str, since: str) -> str:
    """Return the cache key of a memory: its content, project and time."""
    return sha256("\0".join((str(_RECIPE), content_hash, project, since)).encode("utf-8", "replace")).hexdigest()[:32]


class MentionCache:
    """Stores the targets of memories. Thread-safe. Errors of the disk are ignored."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / CACHE_FILE
        self._lock = Lock()

    def get(self, keys: Iterable[str]) -> dict[str, tuple[MentionTarget, ...]]:
        """Return the stored targets by key."""
        unique_keys = list(dict.fromkeys(keys))
        if not unique_keys or not self._path.exists():
            return {}
        marks = ",".join("?" * len(unique_keys))
        rows: list[tuple[str, str]] = []
        with self._lock, suppress(sqlite3.Error, OSError), _CacheConnection(self._path) as db:
            rows = db.execute(f"SELECT key, things FROM named WHERE key IN ({marks})", unique_keys).fetchall()  # noqa: S608
        return {key: targets for key, text in rows if (targets := _from_json(text)) is not None}

    def put(self, targets_by_key: Mapping[str, tuple[MentionTarget, ...]]) -> None:
        """Store targets by key."""
        rows = [(key, json.dumps([_to_json(target) for target in targets])) for key, targets in targets_by_key.items()]
        if not rows or not self._path.parent.exists():
            return
        with self._lock, suppress(sqlite3.Error, OSError), _CacheConnection(self._path) as db:
            db.executemany("INSERT OR REPLACE INTO named VALUES (?, ?)", rows)
            db.commit()


class _CacheConnection:
    """A connection for one use. A damaged file is deleted."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> sqlite3.Connection:
        if not self._path.exists():
            self._path.touch(mode=0o600)
        try:
            self._connection = self._connect()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            self._path.unlink(missing_ok=True)
            self._connection = self._connect()
        return self._connection

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._connection.close()
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            self._path.unlink(missing_ok=True)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT_S)
        try:
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute(_SCHEMA)
        except sqlite3.Error:
            connection.close()
            raise
        return connection


def _to_json(target: MentionTarget) -> dict[str, Any]:
    return {name: value for name, value in asdict(target).items() if value}


def _from_json(text: str) -> tuple[MentionTarget, ...] | None:
    try:
        return tuple(MentionTarget(**_field_values(values)) for values in json.loads(text))
    except (ValueError, TypeError, AttributeError):
        return None


def _field_values(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items() if name in _FIELDS
    }


class TimeBudgetExceeded(Exception):
    """The time for resolving a memory ran out."""


class Snapshot:
    """A project at one commit; without history it is empty."""

    def __init__(self, history: GitHistory | None, commit: str) -> None:
        self._history = history
        self.commit = commit if history is not None else ""
        self._texts: dict[str, bytes] = {}
        self._symbols: dict[str, Sequence[Symbol]] = {}

    @cached_property
    def files(self) -> Mapping[str, str]:
        """The files, with the ids of their contents."""
        return self._history.files(self.commit) if self._history is not None and self.commit else {}

    @cached_property
    def _by_name(self) -> Mapping[str, list[str]]:
        by_name: dict[str, list[str]] = {}
        for path in self.files:
            by_name.setdefault(path.rpartition("/")[2], []).append(path)
        return by_name

    @cached_property
    def folders(self) -> frozenset[str]:
        """All folders."""
        return frozenset(path[:end] for path in self.files for end in _slash_positions(path))

    def find(self, path: str) -> str:
        """Return the file that a path means: the exact path, or the only one that ends with it; else empty."""
        if path in self.files:
            return path
        candidates = self._by_name.get(path.rpartition("/")[2], ())
        matches = [candidate for candidate in candidates if candidate.endswith(f"/{path}")]
        return matches[0] if len(matches) == 1 else ""

    def with_words(self, words: Sequence[str]) -> list[str]:
        """Return the files that contain one of some words, without prose; at most as many as are read."""
        if self._history is None or not self.commit or not words:
            return []
        paths = self._history.files_with(self.commit, words)
        return [path for path in paths if not path.endswith(PROSE_SUFFIXES)][:_MAX_FILES_READ]

    def read(self, paths: Iterable[str]) -> None:
        """Read some files in advance with one query."""
        missing = [path for path in paths if path in self.files and path not in self._texts]
        if self._history is not None and missing:
            contents = self._history.contents(self.files[path] for path in missing)
            self._texts.update((path, contents.get(self.files[path], b"")) for path in missing)

    def source(self, path: str) -> bytes:
        """Return the content of a file."""
        self.read([path])
        return self._texts.get(path, b"")

    def symbols(self, path: str) -> Sequence[Symbol]:
        """Return the definitions of a file."""
        if path not in self._symbols:
            self._symbols[path] = parse_symbols(path, self.source(path))
        return self._symbols[path]


class MentionResolver:
    """Resolves mentions of one project at one commit. `has_time` is called before each file is parsed."""

    def __init__(self, snapshot: Snapshot, tree: WorkingTree, has_time: Callable[[], bool] = lambda: True) -> None:
        self._snapshot = snapshot
        self._tree = tree
        self._has_time = has_time

    def resolve(self, mentions: Sequence[Mention]) -> tuple[MentionTarget, ...]:
        """Return the targets of those mentions that the project had at the commit, or has now."""
        by_kind: dict[MentionKind, list[Mention]] = {kind: [] for kind in MentionKind}
        for mention in mentions:
            by_kind[mention.kind].append(mention)
        paths = {mention: self._path(mention) for mention in by_kind[MentionKind.PATH]}
        files = {target.path for target in paths.values() if target is not None}
        symbols = self._symbols(by_kind[MentionKind.SYMBOL], files)
        targets: list[MentionTarget] = []
        for mention in mentions:
            if mention.kind is MentionKind.PATH:
                target = paths[mention]
                targets += [target] if target is not None else []
            elif mention.kind is MentionKind.SYMBOL:
                targets += symbols.get(mention.text, [])
        names = {target.name for target in targets}
        settings = [mention.text for mention in by_kind[MentionKind.SETTING] if mention.text not in names]
        targets += self._settings(list(dict.fromkeys(settings)))
        targets += [
            target for mention in by_kind[MentionKind.COMMAND] if (target := self._command(mention.text)) is not None
        ]
        return tuple(dict.fromkeys(targets))

    # -- files ---------------------------------------------------------------------------------------------------------

    def _path(self, mention: Mention) -> MentionTarget | None:
        path = os.path.normpath(mention.text)
        if os.path.isabs(path):  # noqa: PTH117
            path = os.path.relpath(path, self._tree.root)
        if path.startswith("..") or path == ".":
            return None
        name, snapshot = mention.text, self._snapshot
        file = snapshot.find(path)
        if file:
            return self._file(file, snapshot.files[file], mention, snapshot.commit)
        if "/" in path and path in snapshot.folders:
            return MentionTarget(kind="path", name=name, path=path, commit=snapshot.commit)
        content = self._tree.content(path)
        if content:
            return self._file(path, content, mention, "")
        return MentionTarget(kind="path", name=name, path=path) if "/" in path and self._tree.exists(path) else None

    def _file(self, path: str, content: str, mention: Mention, commit: str) -> MentionTarget:
        lines = ""
        if mention.first_line:
            text = self._text(path, commit)
            lines = text_digest(lines_of(text, mention.first_line, mention.last_line))
        return MentionTarget(
            kind="path",
            name=mention.text,
            path=path,
            content=content,
            first_line=mention.first_line,
            last_line=mention.last_line,
            lines=lines,
            commit=commit,
        )

    def _text(self, path: str, commit: str) -> str:
        return self._snapshot.source(path).decode("utf-8", "replace") if commit else self._tree.text(path)

    # -- symbols -------------------------------------------------------------------------------------------------------

    def _symbols(self, mentions: Sequence[Mention], files: set[str]) -> dict[str, list[MentionTarget]]:
        """Return the targets of each symbol; of several definitions, those in a mentioned file if there are any."""
        if not self._tree.knows_symbols:
            return {}
        current = {
            mention.text: _matching_definitions(mention.text, self._tree.definitions(_last_part(mention.text)))
            for mention in mentions
        }
        changed = [name for name, definitions in current.items() if not self._is_unchanged(definitions)]
        previous = self._definitions_then(changed)
        targets: dict[str, list[MentionTarget]] = {}
        for name, definitions in current.items():
            commit = self._snapshot.commit
            candidates = [(definition, commit) for definition in previous.get(name, definitions)]
            candidates = candidates or [(definition, "") for definition in definitions]
            in_files = [candidate for candidate in candidates if candidate[0].path in files]
            unique = {
                (located.path, located.symbol.qualified_name): (located, commit)
                for located, commit in in_files or candidates
            }
            if 0 < len(unique) <= _MAX_AMBIGUOUS:
                targets[name] = [self._symbol(name, located, commit) for located, commit in unique.values()]
        return targets

    def _is_unchanged(self, definitions: Sequence[LocatedSymbol]) -> bool:
        """Return True if there are definitions, and all their files are unchanged: then history is not needed."""
        return bool(definitions) and all(
            self._tree.has_content(located.path, self._snapshot.files.get(located.path, "")) for located in definitions
        )

    def _definitions_then(self, names: Sequence[str]) -> dict[str, list[LocatedSymbol]]:
        """Return the definitions of names at the commit; nothing without history."""
        if not names or not self._snapshot.files:
            return {}
        words = list(dict.fromkeys(_last_part(name) for name in names))
        paths = self._snapshot.with_words(words)
        self._snapshot.read(paths)
        definitions = [
            LocatedSymbol(path, symbol)
            for path in self._defining(paths, words)
            for symbol in self._defined_then(path)
            if symbol.name in words
        ]
        return {
            name: _matching_definitions(
                name, [located for located in definitions if located.symbol.name == _last_part(name)]
            )
            for name in names
        }

    def _defining(self, paths: Sequence[str], words: Sequence[str]) -> list[str]:
        """Return the files to parse: those that seem to define a word, and some others for the remaining words."""
        either = b"|".join(re.escape(word.encode("utf-8", "replace")) for word in words)
        pattern = re.compile(
            rb"\b(?:"
            + _DEFINITION_KEYWORDS
            + rb")\b[^\n]{0,80}?\b("
            + either
            + rb")\b|^[ \t]*("
            + either
            + rb")[ \t]*[:=]",
            re.MULTILINE,
        )
        defined_words: dict[str, set[bytes]] = {
            path: {match[1] or match[2] for match in pattern.finditer(self._snapshot.source(path))} for path in paths
        }
        likely = [path for path, defined in defined_words.items() if defined]
        missing = {word.encode("utf-8", "replace") for word in words}.difference(*defined_words.values())
        others = [path for path in paths if path not in likely] if missing else []
        return [*likely[:_MAX_FILES_PARSED], *others[:_MAX_UNSURE_FILES]]

    def _symbol(self, name: str, located: LocatedSymbol, commit: str) -> MentionTarget:
        path, symbol = located.path, located.symbol
        siblings = self._defined_then(path) if commit else self._tree.symbols(path)
        same = [sibling for sibling in siblings if sibling.qualified_name == symbol.qualified_name]
        return MentionTarget(
            kind="symbol",
            name=name,
            path=path,
            content=self._snapshot.files.get(path, "") if commit else self._tree.content(path),
            qualified=symbol.qualified_name,
            symbol_kind=symbol.kind.value,
            signature=symbol.signature,
            digest=joint_digest(same) or symbol.digest,
            sketch=tuple(sorted(text_sketch(source_of(self._text(path, commit), symbol)))),
            siblings=tuple(
                sibling.qualified_name for sibling in siblings if sibling.qualified_name != symbol.qualified_name
            )[:_MAX_SIBLINGS],
            commit=commit,
        )

    def _defined_then(self, path: str) -> Sequence[Symbol]:
        """Return the definitions of a file at the commit; if its content is unchanged, the code index has them."""
        if self._tree.has_content(path, self._snapshot.files.get(path, "")):
            return self._tree.symbols(path)
        if not self._has_time():
            raise TimeBudgetExceeded
        return self._snapshot.symbols(path)

    # -- settings and commands -----------------------------------------------------------------------------------------

    def _settings(self, keys: Sequence[str]) -> list[MentionTarget]:
        paths = self._snapshot.with_words(keys)
        self._snapshot.read(paths)
        commit = self._snapshot.commit
        targets = []
        for key in keys:
            files = [path for path in paths if has_word(self._text(path, commit), key)][:_MAX_SETTING_FILES]
            if files:
                targets.append(MentionTarget(kind="setting", name=key, path="\n".join(files), commit=commit))
        return targets

    def _command(self, command: str) -> MentionTarget | None:
        commit = self._snapshot.commit
        for path in command_files(command):
            if path in self._snapshot.files and defines_command(self._text(path, commit), path, command):
                return MentionTarget(kind="command", name=command, path=path, commit=commit)
            if defines_command(self._tree.text(path), path, command):
                return MentionTarget(kind="command", name=command, path=path)
        return None


def text_digest(text: str) -> str:
    """Return a digest of a text."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:24]


def has_word(text: str, word: str) -> bool:
    """Return True if a text contains a word."""
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def command_files(command: str) -> tuple[str, ...]:
    """Return the files that may define a command."""
    return _COMMAND_FILES.get(command.split(" ", maxsplit=1)[0], ("package.json",))


def defines_command(text: str, path: str, command: str) -> bool:
    """Return True if a file defines a command."""
    target = command.rpartition(" ")[2]
    if path.endswith(".json"):
        return re.search(rf'"{re.escape(target)}"\s*:\s*"', text) is not None
    if path.endswith(".toml"):
        return re.search(rf'^[ \t]*"?{re.escape(target)}"?[ \t]*=[ \t]*["{{]', text, re.MULTILINE) is not None
    heads = re.finditer(r"^[ \t]*([^\n:=#]{1,500}?)[ \t]*:(?!=)", text, re.MULTILINE)
    return any(target in (words := head[1].split()) or f'"{target}"' in words for head in heads)


def _last_part(name: str) -> str:
    return name.rpartition(".")[2]


def _matching_definitions(name: str, definitions: Sequence[LocatedSymbol]) -> list[LocatedSymbol]:
    """Return the definitions that a dotted name may mean, by their containers and files."""
    before = name.rpartition(".")[0]
    if not before:
        return list(definitions)
    parts = before.split(".")

    def fits(located: LocatedSymbol) -> bool:
        container = located.symbol.container
        around = [*re.split(r"[/.]", located.path.rpartition(".")[0]), *filter(None, container.split("."))]
        around = [part for part in around if part != "__init__"]
        return around[-len(parts) :] == parts or (parts[0] in {"self", "this", "cls"} and bool(container))

    return [located for located in definitions if fits(located)]


def _slash_positions(path: str) -> list[int]:
    return [position for position, letter in enumerate(path) if letter == "/"]
