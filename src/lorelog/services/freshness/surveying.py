"""Finding out what a memory names, as it was when the memory was made.

The commit that was checked out then says how things were. What it does not have, but the working tree has, was new and not yet
committed, or came later: it counts from the moment it is first looked at. What neither has is no mention.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

from lorelog.core.code import Symbol
from lorelog.services.freshness.mentions import Mention, MentionKind
from lorelog.services.freshness.named import Named
from lorelog.services.freshness.tree import Place, WorkingTree, joint_digest, lines_of, parse, sketch, source_of

if TYPE_CHECKING:
    from lorelog.code.history import History

_MOST_READ = 200
_MOST_FILES = 40
_FEW_FILES = 8
"""Read out of history, and parsed, for one memory."""
_DEFINES = rb"class|def|fn|func|function|interface|trait|struct|enum|type|const|let|var|val|module|namespace|object|record|macro_rules!|define"
"""What stands before a name that is defined, in most languages."""
_MOST_MEANT = 3
"""A name that more definitions have than this could mean any of them."""
_MOST_SIBLINGS = 400
_MOST_PLACES = 5
PROSE = (".md", ".markdown", ".rst", ".txt", ".adoc", ".lock", ".svg", ".ipynb", ".csv", ".jsonl")
"""Files that tell of settings and do not have them: a changelog names what is long gone."""


class OutOfTimeError(Exception):
    """What a memory names was not found out in the time there was."""


class Then:
    """A project at one commit; without history, there is none of it."""

    def __init__(self, history: History | None, commit: str) -> None:
        self._history = history
        self.commit = commit if history is not None else ""
        self._texts: dict[str, bytes] = {}
        self._symbols: dict[str, Sequence[Symbol]] = {}

    @cached_property
    def files(self) -> Mapping[str, str]:
        """Its files, with the ids of their contents."""
        return self._history.files(self.commit) if self._history is not None and self.commit else {}

    @cached_property
    def _by_name(self) -> Mapping[str, list[str]]:
        by_name: dict[str, list[str]] = {}
        for path in self.files:
            by_name.setdefault(path.rpartition("/")[2], []).append(path)
        return by_name

    @cached_property
    def folders(self) -> frozenset[str]:
        """Its folders."""
        return frozenset(path[:end] for path in self.files for end in _strokes(path))

    def find(self, path: str) -> str:
        """Return the file that a path means: its whole path, or the only one that ends so; empty for none."""
        if path in self.files:
            return path
        ending = f"/{path}"
        found = [one for one in self._by_name.get(path.rpartition("/")[2], ()) if one.endswith(ending)]
        return found[0] if len(found) == 1 else ""

    def with_words(self, words: Sequence[str]) -> list[str]:
        """Return the files that have one of some words."""
        if self._history is None or not self.commit:
            return []
        return self._history.files_with(self.commit, words)

    def read(self, paths: Iterable[str]) -> None:
        """Read some files in advance, all with one question."""
        missing = [one for one in paths if one in self.files and one not in self._texts]
        if self._history is not None and missing:
            held = self._history.contents(self.files[one] for one in missing)
            self._texts.update((one, held.get(self.files[one], b"")) for one in missing)

    def source(self, path: str) -> bytes:
        """Return what a file had."""
        self.read([path])
        return self._texts.get(path, b"")

    def symbols(self, path: str) -> Sequence[Symbol]:
        """Return what a file defined."""
        if path not in self._symbols:
            self._symbols[path] = parse(path, self.source(path))
        return self._symbols[path]


class Surveyor:
    """Finds out what memories of one project named at one time."""

    def __init__(self, then: Then, tree: WorkingTree, go_on: Callable[[], bool] = lambda: True) -> None:
        # `go_on`: asked before each file that has to be parsed.
        self._then = then
        self._tree = tree
        self._go_on = go_on

    def survey(self, mentions: Sequence[Mention]) -> tuple[Named, ...]:
        """Return those of the mentions that the project had then, or has now."""
        paths = {one: self._path(one) for one in mentions if one.kind is MentionKind.PATH}
        files = {one.path for one in paths.values() if one is not None}
        symbols = self._symbols([one for one in mentions if one.kind is MentionKind.SYMBOL], files)
        named: list[Named] = []
        for one in mentions:
            if one.kind is MentionKind.PATH:
                found = paths[one]
                named += [found] if found is not None else []
            elif one.kind is MentionKind.SYMBOL:
                named += symbols.get(one.text, [])
        taken = {one.name for one in named}
        settings = [one.text for one in mentions if one.kind is MentionKind.SETTING and one.text not in taken]
        named += self._settings(list(dict.fromkeys(settings)))
        named += [found for one in mentions if one.kind is MentionKind.COMMAND and (found := self._command(one.text))]
        return tuple(dict.fromkeys(named))

    # -- files ---------------------------------------------------------------------------------------------------------

    def _path(self, mention: Mention) -> Named | None:
        path = os.path.normpath(mention.text)
        if os.path.isabs(path):  # noqa: PTH117
            path = os.path.relpath(path, self._tree.root)
        if path.startswith("..") or path == ".":
            return None
        name = mention.text
        then = self._then.find(path)
        if then:
            return self._file(name, then, self._then.files[then], mention, self._then.commit)
        if "/" in path and path in self._then.folders:
            return Named("path", name, path, commit=self._then.commit)
        content = self._tree.content(path)
        if content:
            return self._file(name, path, content, mention, "")
        return Named("path", name, path) if "/" in path and self._tree.exists(path) else None

    def _file(self, name: str, path: str, content: str, mention: Mention, commit: str) -> Named:
        lines = ""
        if mention.first_line:
            text = self._text(path, commit)
            lines = digest_of(lines_of(text, mention.first_line, mention.last_line))
        return Named("path", name, path, content, mention.first_line, mention.last_line, lines, commit=commit)

    def _text(self, path: str, commit: str) -> str:
        return self._then.source(path).decode("utf-8", "replace") if commit else self._tree.text(path)

    # -- symbols -------------------------------------------------------------------------------------------------------

    def _symbols(self, mentions: Sequence[Mention], files: set[str]) -> dict[str, list[Named]]:
        """Return what each symbol meant then; where several are meant, those in a file that is named, too, come first."""
        if not self._tree.knows_symbols:
            return {}
        now = {one.text: _meant(one.text, self._tree.definitions(_last(one.text))) for one in mentions}
        open_ = [name for name, places in now.items() if not self._is_unchanged(places)]
        before = self._before(open_)
        found: dict[str, list[Named]] = {}
        for name, places in now.items():
            then = before.get(name) if name in before else [(place, self._then.commit) for place in places]
            meant = then or [(place, "") for place in places]
            within = [one for one in meant if one[0].path in files]
            once = {(place.path, place.symbol.qualified): (place, commit) for place, commit in within or meant}
            if 0 < len(once) <= _MOST_MEANT:
                found[name] = [self._symbol(name, place, commit) for place, commit in once.values()]
        return found

    def _is_unchanged(self, places: Sequence[Place]) -> bool:
        """Say whether a name is defined, and every file that does so is as it was: then history has nothing to add."""
        return bool(places) and all(self._tree.has(one.path, self._then.files.get(one.path, "")) for one in places)

    def _before(self, names: Sequence[str]) -> dict[str, list[tuple[Place, str]]]:
        """Return what names meant at the commit, with which they are found there; nothing for those without history."""
        if not names or not self._then.files:
            return {}
        words = list(dict.fromkeys(_last(one) for one in names))
        paths = [one for one in self._then.with_words(words) if not one.endswith(PROSE)][:_MOST_READ]
        self._then.read(paths)
        places = [
            Place(path, symbol)
            for path in self._defining(paths, words)
            for symbol in self._defined_then(path)
            if symbol.name in words
        ]
        by_name = {name: [one for one in places if one.symbol.name == _last(name)] for name in names}
        return {name: [(one, self._then.commit) for one in _meant(name, found)] for name, found in by_name.items()}

    def _defining(self, paths: Sequence[str], words: Sequence[str]) -> list[str]:
        """Return the files that are worth parsing: those that seem to define a word, and of the others a few for words nobody does."""
        either = b"|".join(re.escape(one.encode("utf-8", "replace")) for one in words)
        defined = re.compile(
            rb"\b(?:" + _DEFINES + rb")\b[^\n]{0,80}?\b(" + either + rb")\b|^[ \t]*(" + either + rb")[ \t]*[:=]",
            re.MULTILINE,
        )
        seen: dict[str, set[bytes]] = {
            path: {one[1] or one[2] for one in defined.finditer(self._then.source(path))} for path in paths
        }
        sure = [path for path, found in seen.items() if found]
        lacking = {one.encode("utf-8", "replace") for one in words}.difference(*seen.values())
        others = [path for path in paths if path not in sure] if lacking else []
        return [*sure[:_MOST_FILES], *others[:_FEW_FILES]]

    def _symbol(self, name: str, place: Place, commit: str) -> Named:
        text = self._text(place.path, commit)
        symbol = place.symbol
        siblings = self._siblings(place.path, commit)
        same = [one for one in siblings if one.qualified == symbol.qualified]
        return Named(
            "symbol",
            name,
            place.path,
            content=self._then.files.get(place.path, "") if commit else self._tree.content(place.path),
            qualified=symbol.qualified,
            symbol_kind=symbol.kind.value,
            signature=symbol.signature,
            digest=joint_digest(same) or symbol.digest,
            sketch=tuple(sorted(sketch(source_of(text, symbol)))),
            siblings=tuple(one.qualified for one in siblings if one.qualified != symbol.qualified)[:_MOST_SIBLINGS],
            commit=commit,
        )

    def _siblings(self, path: str, commit: str) -> Sequence[Symbol]:
        return self._defined_then(path) if commit else self._tree.symbols(path)

    def _defined_then(self, path: str) -> Sequence[Symbol]:
        """Return what a file defined at the commit; where it still has that content, the code index knows without parsing."""
        if self._tree.has(path, self._then.files.get(path, "")):
            return self._tree.symbols(path)
        if not self._go_on():
            raise OutOfTimeError
        return self._then.symbols(path)

    # -- settings and commands -----------------------------------------------------------------------------------------

    def _settings(self, keys: Sequence[str]) -> list[Named]:
        paths = [one for one in self._then.with_words(keys) if not one.endswith(PROSE)][:_MOST_READ] if keys else []
        self._then.read(paths)
        named = []
        for key in keys:
            places = [one for one in paths if has_word(self._text(one, self._then.commit), key)][:_MOST_PLACES]
            if places:
                named.append(Named("setting", key, "\n".join(places), commit=self._then.commit))
        return named

    def _command(self, command: str) -> Named | None:
        for path in command_files(command):
            if path in self._then.files and defines(self._text(path, self._then.commit), path, command):
                return Named("command", command, path, commit=self._then.commit)
            if defines(self._tree.text(path), path, command):
                return Named("command", command, path)
        return None


def digest_of(text: str) -> str:
    """Return what identifies a text."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:24]


def has_word(text: str, word: str) -> bool:
    """Say whether a word stands in a text."""
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def command_files(command: str) -> tuple[str, ...]:
    """Return the files that say what a command does."""
    runner = command.split(" ", maxsplit=1)[0]
    known = {
        "make": ("Makefile", "GNUmakefile", "makefile"),
        "just": ("justfile", "Justfile"),
        "task": ("Taskfile.yml", "Taskfile.yaml"),
        "uv": ("pyproject.toml",),
        "poetry": ("pyproject.toml",),
        "composer": ("composer.json",),
    }
    return known.get(runner, ("package.json",))


def defines(text: str, path: str, command: str) -> bool:
    """Say whether a file says what a command does."""
    target = command.rpartition(" ")[2]
    if path.endswith(".json"):
        return re.search(rf'"{re.escape(target)}"\s*:\s*"', text) is not None
    if path.endswith(".toml"):
        return re.search(rf'^[ \t]*"?{re.escape(target)}"?[ \t]*=[ \t]*["{{]', text, re.MULTILINE) is not None
    heads = re.finditer(r"^[ \t]*([^\n:=#]{1,500}?)[ \t]*:(?!=)", text, re.MULTILINE)
    return any(target in (words := head[1].split()) or f'"{target}"' in words for head in heads)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _meant(name: str, places: Sequence[Place]) -> list[Place]:
    """Return the definitions that a name with dots may mean: those whose containers, or whose file, it begins with."""
    before = name.rpartition(".")[0]
    if not before:
        return list(places)
    parts = before.split(".")

    def fits(place: Place) -> bool:
        around = [*re.split(r"[/.]", place.path.rpartition(".")[0]), *filter(None, place.symbol.container.split("."))]
        around = [one for one in around if one != "__init__"]
        return around[-len(parts) :] == parts or (parts[0] in {"self", "this", "cls"} and bool(place.symbol.container))

    return [one for one in places if fits(one)]


def _strokes(path: str) -> list[int]:
    return [place for place, letter in enumerate(path) if letter == "/"]
