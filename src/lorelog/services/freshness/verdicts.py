"""Judge the things that a memory mentions: unchanged, changed and how, or gone.

A file that is mentioned together with a symbol in it is judged by the symbol alone, as long as the file exists: a
memory about one function is not out of date because another function changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from lorelog.core.code import Symbol
from lorelog.core.query import Freshness, FreshnessFinding
from lorelog.services.freshness import mention_targets
from lorelog.services.freshness.mentions import GitUnavailable, MentionTarget, TargetEvidence
from lorelog.services.freshness.project_code import (
    PROSE_SUFFIXES,
    LocatedSymbol,
    ProjectGit,
    WorkingTree,
    joint_digest,
    lines_of,
    sketch_similarity,
    source_of,
    text_sketch,
)

MIN_SIMILARITY = 0.5
"""Similarity from which a definition counts as a missing one under another name."""
_MIN_LINES = 3
"""Shorter definitions look like many others."""
_MAX_COMPARED = 200
_MAX_CONFIRMED = 5
"""Similar definitions whose file at the memory's commit is looked at."""
_MAX_LINES = 400
"""Longer ranges of lines are not searched for at another position."""


class FreshnessJudge:
    """Judges mentions against a working tree."""

    def __init__(self, tree: WorkingTree, git: ProjectGit) -> None:
        self._tree = tree
        self._git = git

    def judge(self, targets: Sequence[MentionTarget], *, made_here: bool) -> tuple[tuple[FreshnessFinding, ...], bool]:
        """Return a finding for each name, and whether these are all: False if something could not be judged.

        Of several targets of a name, the one that changed least counts.
        `made_here` is False for a memory of another branch. What was not committed when it was made may be on that
        branch only: unless this branch ever had the file, nothing is said about it.
        """
        files_with_symbols = {target.path for target in targets if target.kind == "symbol"}
        ranks = (Freshness.FRESH, Freshness.DRIFTED, Freshness.GONE)
        findings: dict[tuple[str, str], FreshnessFinding] = {}
        unknown: set[tuple[str, str]] = set()
        for target in targets:
            key = (target.kind, target.name)
            try:
                freshness, change = self._outcome(target, files_with_symbols, made_here=made_here)
            except GitUnavailable:
                unknown.add(key)
                continue
            finding = FreshnessFinding(target.kind, target.name, freshness, change)
            findings[key] = min(finding, findings.get(key, finding), key=lambda finding: ranks.index(finding.freshness))
        for key in unknown & findings.keys():
            if findings[key].freshness is not Freshness.FRESH:
                del findings[key]
        return tuple(findings.values()), unknown <= findings.keys()

    def _outcome(
        self, target: MentionTarget, files_with_symbols: set[str], *, made_here: bool
    ) -> tuple[Freshness, str]:
        if target.evidence is TargetEvidence.UNKNOWN:
            raise GitUnavailable
        judges = {"symbol": self._symbol, "setting": self._setting, "command": self._command}
        if target.kind in judges:
            outcome = judges[target.kind](target)
        else:
            outcome = self._path(target, by_symbols=target.path in files_with_symbols)
        if outcome[0] is Freshness.FRESH:
            return outcome
        is_uncommitted = target.evidence is TargetEvidence.TREE
        if is_uncommitted and not made_here and not self._git.has_known(target.path):
            raise GitUnavailable
        if outcome[0] is Freshness.GONE and target.kind != "setting" and self._git.is_settling(target.path):
            raise GitUnavailable
        return outcome

    def _path(self, target: MentionTarget, *, by_symbols: bool) -> tuple[Freshness, str]:
        if not target.content:
            return self._folder(target)
        if self._tree.has_content(target.path, target.content):
            return Freshness.FRESH, ""
        if self._tree.exists(target.path):
            if target.lines:
                return self._lines(target)
            same = by_symbols or self._git.staged(target.path, self._tree.text(".gitattributes")) == target.content
            return (Freshness.FRESH, "") if same else (Freshness.DRIFTED, "has changed since")
        now = self._moved(target)
        verb = "renamed" if target.path.rpartition("/")[0] == now.rpartition("/")[0] else "moved"
        return (Freshness.DRIFTED, f"{verb} to {now}") if now else (Freshness.GONE, "is gone")

    def _folder(self, target: MentionTarget) -> tuple[Freshness, str]:
        if self._tree.exists(target.path):
            return Freshness.FRESH, ""
        prefix = f"{target.path}/"
        if any(path.startswith(prefix) for path in self._git.sparse_files()):
            raise GitUnavailable
        ends = {
            new: old[len(target.path) :]
            for old, new in self._git.renames(target.commit).items()
            if old.startswith(prefix)
        }
        # Empty if a file was renamed as well.
        targets = {new.removesuffix(end) if new.endswith(end) else "" for new, end in ends.items()}
        if len(targets) == 1 and (now := targets.pop()):
            return Freshness.DRIFTED, f"moved to {now}"
        return Freshness.GONE, "is gone"

    def _lines(self, target: MentionTarget) -> tuple[Freshness, str]:
        """Judge lines of a changed file: they may be unchanged, or at another position."""
        text = self._tree.text(target.path)
        if mention_targets.text_digest(lines_of(text, target.first_line, target.last_line)) == target.lines:
            return Freshness.FRESH, ""
        size = target.last_line - target.first_line
        lines = [line.strip() for line in text.splitlines()]
        for start in range(max(0, len(lines) - size) if size < _MAX_LINES else 0):
            if mention_targets.text_digest("\n".join(lines[start : start + size + 1])) == target.lines:
                shown = f"{start + 1}-{start + 1 + size}" if size else str(start + 1)
                return Freshness.DRIFTED, f"has these lines at {shown} now"
        return Freshness.DRIFTED, "has changed there since"

    def _moved(self, target: MentionTarget) -> str:
        """Return the current path of a file: where Git has followed it, or where the same content is."""
        if target.path in self._git.sparse_files():
            raise GitUnavailable
        if renamed := self._renamed_to(self._git.renames, target):
            return renamed
        name, suffix = target.path.rpartition("/")[2], target.path.rpartition(".")[2]
        candidates = [
            path for path in self._git.files() if path.endswith(f".{suffix}") or path.rpartition("/")[2] == name
        ]
        candidates.sort(key=lambda path: path.rpartition("/")[2] != name)
        same = next((path for path in candidates[:_MAX_COMPARED] if self._tree.has_content(path, target.content)), "")
        return same or self._renamed_to(self._git.renames_by_steps, target)

    def _renamed_to(self, renames: Callable[[str], Mapping[str, str]], target: MentionTarget) -> str:
        renamed = renames(target.commit).get(target.path, "") if target.commit else ""
        return renamed if renamed and self._tree.exists(renamed) else ""

    def _symbol(self, target: MentionTarget) -> tuple[Freshness, str]:
        if self._tree.has_content(target.path, target.content):
            return Freshness.FRESH, ""
        path = target.path
        if not self._tree.exists(path):
            path = self._moved(target) or path
        current = [symbol for symbol in self._tree.symbols(path) if symbol.qualified_name == target.qualified]
        if current:
            return self._compare(target, current, path)
        return self._elsewhere(target) or self._renamed(target, path) or (Freshness.GONE, "is gone")

    def _compare(self, target: MentionTarget, current: Sequence[Symbol], path: str) -> tuple[Freshness, str]:
        """Judge a definition that still has its name."""
        moved = path != target.path
        text = self._tree.text(path)
        sources = tuple(source_of(text, symbol) for symbol in current)
        # Only a formatter changed a definition that has the same shape.
        is_same = target.shape and mention_targets.definition_shape(path, sources, current[0].name) == target.shape
        if joint_digest(current) == target.digest or is_same:
            return (Freshness.DRIFTED, f"moved to {path}") if moved else (Freshness.FRESH, "")
        where = f"moved to {path}, and " if moved else ""
        if all(symbol.signature != target.signature for symbol in current):
            return Freshness.DRIFTED, f"{where}has another signature: {current[0].signature}"
        return Freshness.DRIFTED, f"{where}has changed since"

    def _elsewhere(self, target: MentionTarget) -> tuple[Freshness, str] | None:
        """Look for a definition of the same name and kind in another place."""
        name = target.qualified.rpartition(".")[2]
        candidates = [
            located
            for located in self._tree.definitions(name)
            if located.symbol.kind.value == target.symbol_kind
            and (located.path, located.symbol.qualified_name) != (target.path, target.qualified)
            and not (located.path == target.path and located.symbol.qualified_name in target.siblings)
        ]
        same = [located for located in candidates if located.symbol.digest == target.digest]
        same = [located for located in same[:_MAX_CONFIRMED] if self._is_new(located, target)]
        if same:
            return Freshness.DRIFTED, f"moved to {_format_location(same[0], target)}"
        scored = [(self._similarity(target, located), located) for located in candidates[:_MAX_COMPARED]]
        alike = sorted((pair for pair in scored if pair[0] >= MIN_SIMILARITY), key=lambda pair: -pair[0])
        best = next((located for _, located in alike[:_MAX_CONFIRMED] if self._is_new(located, target)), None)
        if best is not None:
            return Freshness.DRIFTED, f"moved to {_format_location(best, target)}, and changed"
        return None

    def _is_new(self, located: LocatedSymbol, target: MentionTarget) -> bool:
        """Return True unless a definition was already in its place then: nothing moved to where it already was."""
        if not target.commit:
            return True
        return located.symbol.qualified_name not in self._git.defined_then(target.commit, located.path)

    def _renamed(self, target: MentionTarget, path: str) -> tuple[Freshness, str] | None:
        """Look for the same definition under another name: in the same file by similarity, elsewhere by equality."""
        same = [
            located
            for located in self._tree.symbols_with_digest(target.digest)
            if located.symbol.kind.value == target.symbol_kind
            and not (located.path == target.path and located.symbol.qualified_name in target.siblings)
        ]
        in_file = [located for located in same if located.path == path]
        if not in_file:
            same = [located for located in same if len(same) <= _MAX_CONFIRMED and self._is_new(located, target)]
            same = [
                located
                for located in same
                if len(same) > 1 or located.symbol.span.end_line - located.symbol.span.start_line + 1 >= _MIN_LINES
            ]
        if len(in_file or same) == 1:
            return Freshness.DRIFTED, f"renamed to {_format_symbol((in_file or same)[0], path)}"
        candidates = [
            LocatedSymbol(path, symbol)
            for symbol in self._tree.symbols(path)
            if symbol.kind.value == target.symbol_kind and symbol.qualified_name not in target.siblings
        ]
        scored = [(self._similarity(target, located), located) for located in candidates[:_MAX_COMPARED]]
        best = max(scored, key=lambda pair: pair[0], default=None)
        if best is not None and best[0] >= MIN_SIMILARITY:
            return Freshness.DRIFTED, f"renamed to {_format_symbol(best[1], path)}"
        return None

    def _similarity(self, target: MentionTarget, located: LocatedSymbol) -> float:
        if located.symbol.digest == target.digest:
            return 1.0
        return sketch_similarity(
            frozenset(target.sketch), text_sketch(source_of(self._tree.text(located.path), located.symbol))
        )

    def _setting(self, target: MentionTarget) -> tuple[Freshness, str]:
        if any(mention_targets.has_word(self._tree.text(path), target.name) for path in target.path.split("\n")):
            return Freshness.FRESH, ""
        if self._git.sparse_files():
            raise GitUnavailable
        now = next((path for path in self._git.files_with_word(target.name) if not path.endswith(PROSE_SUFFIXES)), "")
        return (Freshness.DRIFTED, f"is in {now} now") if now else (Freshness.GONE, "is gone")

    def _command(self, target: MentionTarget) -> tuple[Freshness, str]:
        paths = (target.path, *mention_targets.command_files(target.name))
        is_defined = any(mention_targets.defines_command(self._tree.text(path), path, target.name) for path in paths)
        return (Freshness.FRESH, "") if is_defined else (Freshness.GONE, "is gone")


def overall_freshness(findings: Iterable[FreshnessFinding], *, is_complete: bool = True) -> Freshness:
    """Return gone if everything is, fresh if everything is, unchecked without findings, else drifted.

    If something could not be judged, nothing is fresh and nothing is gone: it is drifted if a part is known to have
    changed, else unchecked.
    """
    values = {finding.freshness for finding in findings}
    if not values or (not is_complete and values == {Freshness.FRESH}):
        return Freshness.UNCHECKED
    if not is_complete:
        return Freshness.DRIFTED
    return values.pop() if values in ({Freshness.GONE}, {Freshness.FRESH}) else Freshness.DRIFTED


def _format_location(located: LocatedSymbol, target: MentionTarget) -> str:
    if located.path == target.path:
        return located.symbol.qualified_name
    return f"{located.path}:{located.symbol.name_line}"


def _format_symbol(located: LocatedSymbol, path: str) -> str:
    name = located.symbol.qualified_name
    return name if located.path == path else f"{name} in {located.path}"
