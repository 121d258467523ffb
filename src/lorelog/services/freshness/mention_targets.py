"""Resolve the mentions of a memory to the things that they meant when the memory was made.

The commit that was checked out at that time decides. The files that the memory names are read first, then the files
that define the name now, and only for what neither had is the whole commit searched. A definition that is found there
may be one of several; the others are gone or moved by now, which changes no verdict for the better. A bare name that
was only found as a member of something is searched as well: it rather means a definition outside of containers.

Definitions are compared by a digest that formatters do not change. The digest of the code index is made of tokens
without comments and layout; Python's and JavaScript's usual formatters also change quotes, trailing commas, semicolons
and parentheses that mean nothing. A single line tells, in most languages, whether it may define a name, so that few
files must be parsed.

A thing that is missing in the commit but in the working tree was not yet committed, or came later. Its state counts if
its file has not changed since the memory was made, or was read soon after it. Otherwise its state at that time is
unknown, and so it is if the search of the commit was cut. A thing that is in neither is not a mention.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from hashlib import sha256

from lorelog.core.code import Symbol
from lorelog.services.freshness.mentions import (
    GitUnavailable,
    Mention,
    MentionKind,
    MentionTarget,
    TargetEvidence,
    unknown_target,
)
from lorelog.services.freshness.project_code import (
    LocatedSymbol,
    Snapshot,
    WorkingTree,
    joint_digest,
    lines_of,
    source_of,
    text_sketch,
)

_MAX_FILES_PARSED = 40
_MAX_UNSURE_FILES = 8
"""Limits of files of the commit that are parsed for one name: that seem to define it, and that only contain it."""
_MAX_AMBIGUOUS = 3
"""A name with more definitions is ambiguous and ignored."""
_MAX_SIBLINGS = 400
_MAX_SETTING_FILES = 50
_SOON_S = 3600.0
"""A file that changed at most this long after a memory was made counts as the file of that time."""
_RECEIVERS = frozenset({"self", "this", "cls"})
_COMMAND_FILES = {
    "make": ("Makefile", "GNUmakefile", "makefile"),
    "just": ("justfile", "Justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "uv": ("pyproject.toml",),
    "poetry": ("pyproject.toml",),
    "composer": ("composer.json",),
}


class _CommitUnreadable(Exception):
    """The definitions of a name at the commit cannot be told: a file cannot be read, or there are too many."""


class MentionResolver:
    """Resolves mentions of one project at one commit.

    `made_s` is the time of the memory in seconds since 1970, None if it is unknown. `has_time` is called before each
    file is parsed.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        tree: WorkingTree,
        made_s: float | None = None,
        has_time: Callable[[], bool] = lambda: True,
    ) -> None:
        self._snapshot = snapshot
        self._tree = tree
        self._made_s = made_s
        self._has_time = has_time

    def resolve(self, mentions: Sequence[Mention]) -> tuple[MentionTarget, ...]:
        """Return the targets of those mentions that the project had at the commit, or has now."""
        texts: dict[MentionKind, list[str]] = {kind: [] for kind in MentionKind}
        for mention in dict.fromkeys(mentions):
            texts[mention.kind].append(mention.text)
        paths = {mention: self._path(mention) for mention in mentions if mention.kind is MentionKind.PATH}
        files = {target.path: target.evidence for target in paths.values() if target is not None}
        found = {mention.text for mention, target in paths.items() if target is not None}
        symbols = self._symbols([name for name in texts[MentionKind.SYMBOL] if name not in found], files)
        targets: list[MentionTarget] = []
        for mention in mentions:
            path = paths.get(mention)
            targets += [path] if path is not None else []
            targets += symbols.get(mention.text, []) if mention.kind is MentionKind.SYMBOL else []
        known = {target.name for target in targets}
        targets += self._settings([key for key in texts[MentionKind.SETTING] if key not in known])
        targets += filter(None, map(self._command, texts[MentionKind.COMMAND]))
        return tuple(dict.fromkeys(targets))

    def _path(self, mention: Mention) -> MentionTarget | None:
        path = os.path.normpath(mention.text)
        if path.startswith("/"):
            path = os.path.relpath(path, self._tree.root)
        if path.startswith("..") or path == ".":
            return None
        snapshot, tree = self._snapshot, self._tree
        file = snapshot.find(path)
        content = snapshot.files[file] if file else ""
        if file or ("/" in path and path in snapshot.folders):
            evidence, path, commit = TargetEvidence.COMMIT, file or path, snapshot.commit
        else:
            evidence, content, commit = TargetEvidence.TREE, tree.content(path), ""
            if content and not self._is_from_then(path):
                return unknown_target("path", mention.text)
            if not content and not ("/" in path and tree.exists(path)):
                return None
        first, last = (mention.first_line, mention.last_line) if content else (0, 0)
        return MentionTarget(
            evidence=evidence,
            kind="path",
            name=mention.text,
            path=path,
            content=content,  # of a folder, only its existence is compared
            first_line=first,
            last_line=last,
            lines=text_digest(lines_of(self._text(path, commit), first, last)) if first else "",
            commit=commit,
        )

    def _is_from_then(self, path: str) -> bool:
        """Return True if a file of the working tree is as it was when the memory was made."""
        modified_s = self._tree.modified_s(path)
        return modified_s is not None and self._made_s is not None and modified_s <= self._made_s + _SOON_S

    def _text(self, path: str, commit: str) -> str:
        return self._snapshot.text(path) if commit else self._tree.text(path)

    def _symbols(self, names: Sequence[str], files: Mapping[str, TargetEvidence]) -> dict[str, list[MentionTarget]]:
        """Return the targets of each symbol; of several definitions, those in a mentioned file if there are any."""
        if not self._tree.knows_symbols:
            return {}
        current = {name: _matching_definitions(name, self._tree.definitions(_last_part(name))) for name in names}
        in_commit = [path for path, evidence in files.items() if evidence is TargetEvidence.COMMIT]
        targets: dict[str, list[MentionTarget]] = {}
        unresolved: dict[str, list[LocatedSymbol]] = {}
        for name, definitions in current.items():
            try:
                then = self._defined_in(name, [path for path in in_commit if path in self._snapshot.files])
                is_enough = bool(then)
                if not then:  # in the files that define it now
                    paths = dict.fromkeys(located.path for located in definitions)
                    now = [path for path in paths if path in self._snapshot.files]
                    is_too_many = "." not in name and len(now) > _MAX_FILES_PARSED
                    then = definitions if is_too_many else self._defined_in(name, now[:_MAX_FILES_PARSED])
                    is_enough = bool(then) and ("." in name or any(not located.symbol.container for located in then))
            except _CommitUnreadable:
                targets[name] = [unknown_target("symbol", name)]
                continue
            if is_enough:
                targets[name] = self._unambiguous(name, then)
            else:
                unresolved[name] = then
        for name, found in self._search_commit(list(unresolved)).items():
            if found is None:
                targets[name] = [unknown_target("symbol", name)]
            elif then := _matching_definitions(name, [*unresolved[name], *found]):
                targets[name] = self._unambiguous(name, then)
            else:
                targets[name] = self._from_tree(name, current[name], files)
        return targets

    def _unambiguous(self, name: str, then: Sequence[LocatedSymbol]) -> list[MentionTarget]:
        unique = {(located.path, located.symbol.qualified_name): located for located in then}
        if len(unique) > _MAX_AMBIGUOUS:
            return []
        return [self._symbol(name, located, TargetEvidence.COMMIT) for located in unique.values()]

    def _defined_in(self, name: str, paths: Sequence[str]) -> list[LocatedSymbol]:
        """Return the definitions of a name at the commit in some files."""
        word = _last_part(name).encode("utf-8", "replace")
        self._snapshot.read(path for path in paths if not self._is_unchanged(path))
        definitions: list[LocatedSymbol] = []
        for path in paths:
            if not self._is_unchanged(path) and word not in (self._snapshot.source(path) or word):
                continue
            symbols = self._defined_then(path)
            if symbols is None:
                raise _CommitUnreadable
            definitions += [LocatedSymbol(path, symbol) for symbol in symbols if symbol.name == _last_part(name)]
        return _matching_definitions(name, definitions)

    def _search_commit(self, names: Sequence[str]) -> dict[str, list[LocatedSymbol] | None]:
        """Return the definitions of names in the whole commit; None for a name whose search was cut.

        Lines that look like a definition come first. Of a name with a container, only files count that contain that
        too, or have it in their path.
        """
        if not self._snapshot.files:
            return {name: [] for name in names}
        containers = [part for name in names if (part := _container_part(name)) and part not in _RECEIVERS]
        lines = self._snapshot.lines_with(list(dict.fromkeys([*map(_last_part, names), *containers])))
        found: dict[str, list[LocatedSymbol] | None] = {}
        for name in names:
            word, container = _last_part(name).encode("utf-8", "replace"), _container_part(name)
            around = container.encode("utf-8", "replace") if container not in _RECEIVERS else b""
            by_rank: dict[DefinitionRank, list[str]] = {rank: [] for rank in DefinitionRank}
            for path, texts in lines.items():
                is_inside = container in re.split(r"[/.]", path) or any(around in text for text in texts)
                if with_word := [text for text in texts if word in text and is_inside]:
                    by_rank[max(rank_line(text, word) for text in with_word)].append(path)
            try:
                found[name] = (
                    self._search_files(name, by_rank[DefinitionRank.LIKELY])
                    or self._search_files(name, by_rank[DefinitionRank.POSSIBLE])
                    or self._search_files(name, by_rank[DefinitionRank.USE][:_MAX_UNSURE_FILES])
                )
            except _CommitUnreadable:
                found[name] = None
        return found

    def _search_files(self, name: str, paths: Sequence[str]) -> list[LocatedSymbol]:
        """Return the definitions of a name in files, until they are too many to tell which one is meant."""
        found: list[LocatedSymbol] = []
        self._snapshot.read(paths[:_MAX_FILES_PARSED])
        for path in paths[:_MAX_FILES_PARSED]:
            found += self._defined_in(name, [path])
            if len(found) > _MAX_AMBIGUOUS:
                return found
        if len(paths) > _MAX_FILES_PARSED:
            raise _CommitUnreadable
        return found

    def _from_tree(
        self, name: str, current: Sequence[LocatedSymbol], files: Mapping[str, TargetEvidence]
    ) -> list[MentionTarget]:
        """Return the targets of a name that the commit did not have: its present state, if it was the same then."""
        in_files = [located for located in current if located.path in files]
        unique = {(located.path, located.symbol.qualified_name): located for located in in_files or current}
        if not 0 < len(unique) <= _MAX_AMBIGUOUS:
            return []
        if not all(self._is_from_then(located.path) for located in unique.values()):
            return [unknown_target("symbol", name)]
        return [self._symbol(name, located, TargetEvidence.TREE) for located in unique.values()]

    def _symbol(self, name: str, located: LocatedSymbol, evidence: TargetEvidence) -> MentionTarget:
        path, symbol = located.path, located.symbol
        commit = self._snapshot.commit if evidence is TargetEvidence.COMMIT else ""
        siblings = (self._defined_then(path) if commit else self._tree.symbols(path)) or ()
        same = [sibling for sibling in siblings if sibling.qualified_name == symbol.qualified_name]
        text = self._text(path, commit)
        return MentionTarget(
            evidence=evidence,
            kind="symbol",
            name=name,
            path=path,
            content=self._snapshot.files.get(path, "") if commit else self._tree.content(path),
            qualified=symbol.qualified_name,
            symbol_kind=symbol.kind.value,
            signature=symbol.signature,
            digest=joint_digest(same) or symbol.digest,
            shape=definition_shape(
                path, tuple(source_of(text, definition) for definition in same or [symbol]), symbol.name
            ),
            sketch=tuple(sorted(text_sketch(source_of(text, symbol)))),
            siblings=tuple(
                sibling.qualified_name for sibling in siblings if sibling.qualified_name != symbol.qualified_name
            )[:_MAX_SIBLINGS],
            commit=commit,
        )

    def _is_unchanged(self, path: str) -> bool:
        return self._tree.has_content(path, self._snapshot.files.get(path, ""))

    def _defined_then(self, path: str) -> Sequence[Symbol] | None:
        """Return the definitions of a file at the commit; if its content is unchanged, the code index has them."""
        if self._is_unchanged(path):
            return self._tree.symbols(path)
        if not self._has_time():
            raise GitUnavailable
        return self._snapshot.symbols(path)

    def _settings(self, keys: Sequence[str]) -> list[MentionTarget]:
        commit, lines = self._snapshot.commit, self._snapshot.lines_with(keys)
        texts = {path: b"\n".join(found).decode("utf-8", "replace") for path, found in lines.items()}
        targets = []
        for key in keys:
            files = "\n".join([path for path, text in texts.items() if has_word(text, key)][:_MAX_SETTING_FILES])
            target = MentionTarget(evidence=TargetEvidence.COMMIT, kind="setting", name=key, path=files, commit=commit)
            targets += [target] if files else []
        return targets

    def _command(self, command: str) -> MentionTarget | None:
        commit = self._snapshot.commit
        for path in command_files(command):
            if path in self._snapshot.files and defines_command(self._text(path, commit), path, command):
                evidence = TargetEvidence.COMMIT
                return MentionTarget(evidence=evidence, kind="command", name=command, path=path, commit=commit)
            if defines_command(self._tree.text(path), path, command):
                return MentionTarget(evidence=TargetEvidence.TREE, kind="command", name=command, path=path)
        return None


def text_digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:24]


def has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def command_files(command: str) -> tuple[str, ...]:
    return _COMMAND_FILES.get(command.split(" ", maxsplit=1)[0], ("package.json",))


def defines_command(text: str, path: str, command: str) -> bool:
    target = command.rpartition(" ")[2]
    if path.endswith(".json"):
        return re.search(rf'"{re.escape(target)}"\s*:\s*"', text) is not None
    if path.endswith(".toml"):
        return re.search(rf'^[ \t]*"?{re.escape(target)}"?[ \t]*=[ \t]*["{{]', text, re.MULTILINE) is not None
    heads = re.finditer(r"^[ \t]*([^\n:=#]{1,500}?)[ \t]*:(?!=)", text, re.MULTILINE)
    return any(target in (words := head[1].split()) or f'"{target}"' in words for head in heads)


def _last_part(name: str) -> str:
    return name.rpartition(".")[2]


def _container_part(name: str) -> str:
    return name.rpartition(".")[0].rpartition(".")[2]


def _matching_definitions(name: str, definitions: Sequence[LocatedSymbol]) -> list[LocatedSymbol]:
    """Return the definitions that a name may mean.

    A name without dots means a definition outside of containers, if there is one: a type, not a field of that name.
    A dotted name is compared with containers and files, else with containers and folders: in some languages a folder
    is the module (Go), and in others a folder's definitions are offered by its own module.
    """
    before = name.rpartition(".")[0]
    if not before:
        return [located for located in definitions if not located.symbol.container] or list(definitions)
    parts = before.split(".")

    def fits(located: LocatedSymbol, *, by_folder: bool) -> bool:
        container = [part for part in located.symbol.container.split(".") if part]
        folder, _, file = located.path.rpartition("/")
        stem = [] if by_folder else file.split(".")[:-1]
        around = [part for part in [*folder.split("/"), *stem, *container] if part != "__init__"]
        return around[-len(parts) :] == parts or (parts[0] in _RECEIVERS and bool(container))

    exact = [located for located in definitions if fits(located, by_folder=False)]
    return exact or [located for located in definitions if fits(located, by_folder=True)]


# -- definitions -------------------------------------------------------------------------------------------------------

_PYTHON = (".py", ".pyi", ".pyw")
_SCRIPTS = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts")
_MAX_CHARS = 200_000
_SCRIPT_WORDS = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|(\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)|([\w$]+)|(=>|[^\s\w$])",
    re.DOTALL,
)
_CLOSERS = frozenset(")]}>")


@lru_cache(maxsize=1024)
def definition_shape(path: str, sources: tuple[str, ...], name: str) -> str:
    """Return the joint digest of a name's definitions in a file; empty if the language has none, or they are broken."""
    shape_of = _python_shape if path.endswith(_PYTHON) else _script_shape if path.endswith(_SCRIPTS) else None
    if shape_of is None or sum(map(len, sources)) > _MAX_CHARS:
        return ""
    parts = [shape_of(source, name) for source in sources]
    return text_digest("\0".join(parts)) if parts and all(parts) else ""


def _python_shape(source: str, name: str) -> str:
    import ast
    import warnings

    indented = source[:1] in {" ", "\t"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(f"if 1:\n{source}" if indented else source)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                node.name = "" if node.name == name else node.name
                if ast.get_docstring(node, clean=False) is not None:
                    del node.body[0]
        return ast.dump(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""


def _script_shape(source: str, name: str) -> str:
    words: list[str] = []
    for match in _SCRIPT_WORDS.finditer(source):
        word = match[1] or match[2] or match[3] or ""
        if word[:1] in {'"', "'"}:  # formatters change quotes
            word = '"' + word[1:-1].replace('\\"', '"').replace("\\'", "'") + '"'
        if word in {"", ";"}:
            continue
        if word in _CLOSERS and words and words[-1] == ",":
            words.pop()
        if word == "=>" and len(words) > 2 and words[-1] == ")" and words[-3] == "(":
            words[-3:] = [words[-2]]  # `(a) =>` is `a =>`
        words.append("" if word == name else word)
    return " ".join(words)


_KEYWORDS = rb"class|def|fn|func|function|interface|trait|struct|enum|type|const|let|var|val|module|namespace|object|record|union|impl|protocol|macro_rules!|\#define"
_NO_DEFINITION = re.compile(
    rb"^\s*(?://|\#(?!define)|\*|--)|\b(?:return|await|new|throw|yield|assert|raise|import|from|delete|typeof|in|not|and|or|if|elif|while|print|defer|go)\s[^\n]*$"
)
_MODIFIERS = re.compile(rb"^[\s\w*&<>,:\[\]~@?!$]*$")


class DefinitionRank(IntEnum):
    """How likely a line defines a name."""

    USE = 0
    POSSIBLE = 1
    LIKELY = 2


@lru_cache(maxsize=256)
def _patterns(name: bytes) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    word = re.escape(name)
    keyword = (
        rb"(?<![\w$])(?:" + _KEYWORDS + rb")\b\*?\s*(?:\([^()\n]{0,200}\)\s*)?(?:[*&]|self\.)?(?:[\w$]+(?:\.|::))*"
    )
    assigned = rb"^\s*(?:export\s+|pub\s+|static\s+|readonly\s+|public\s+|private\s+)*(?:[\w$]+\.)*[\"']?"
    likely = re.compile(keyword + word + rb"(?![\w$])|" + assigned + word + rb"[\"']?\s*(?::|=(?![=>])|\?:)")
    called = re.compile(rb"(?<![\w$.\"'])" + word + rb"\s*(?:<[^>\n]{0,200}>|\[[^\]\n]{0,200}\])?\s*\(")
    return likely, called


def rank_line(line: bytes, name: bytes) -> DefinitionRank:
    """Return how likely a line, which contains a name, defines it."""
    likely, called = _patterns(name)
    if likely.search(line):
        return DefinitionRank.LIKELY
    match = called.search(line)
    if match is None or match.start() > 300:
        return DefinitionRank.USE
    before = line[: match.start()]
    if not _MODIFIERS.match(before) or _NO_DEFINITION.search(before + b" "):
        return DefinitionRank.USE
    rest = line[match.end() - 1 : match.end() + 400].rstrip().removesuffix(b";").removesuffix(b",").rstrip()
    is_call = not before.strip() and rest.endswith(b")")
    return DefinitionRank.USE if is_call else DefinitionRank.POSSIBLE
