"""What became of the things that a memory names: as they were, changed and how, or gone.

A file that is named together with something defined in it is judged by that alone, as long as it is there: a memory of one function
is not out of date because another one changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lorelog.core.code import Finding, Freshness, Symbol
from lorelog.services.freshness.named import Named
from lorelog.services.freshness.surveying import PROSE, command_files, defines, digest_of, has_word
from lorelog.services.freshness.tree import Place, WorkingTree, joint_digest, likeness, lines_of, sketch, source_of

ALIKE = 0.5
"""How much a definition must have in common with one that is no longer there, to be it under another name."""
_LEAST_LINES = 3
"""A definition of fewer lines looks like many others."""
_MOST_COMPARED = 200
_MOST_LINES = 400
"""Of lines that are looked for further up and down."""

Renames = Callable[[str], Mapping[str, str]]
"""What the files of a commit are called now, as far as they were renamed."""
Strays = Callable[[str], Sequence[str]]
"""Files of the working tree with a word in them."""


class UntoldError(Exception):
    """Git did not say in time. What depends on it is not judged: that something was not found does not mean that it is gone."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of Git for a verdict; each raises `UntoldError` where it does not answer."""

    renames: Renames
    renames_by_steps: Renames
    with_word: Strays
    files: Callable[[], Sequence[str]]
    left_out: Callable[[], Collection[str]]
    """Files that are tracked and kept out of the working tree: nobody sees from here whether they changed."""
    staged: Callable[[str], str]
    """What identifies a file's content, where it lies in the working tree in another form; else empty."""


class Judge:
    """Judges things against a working tree."""

    def __init__(self, tree: WorkingTree, asked: Asked) -> None:
        self._tree = tree
        self._asked = asked

    def judge(self, named: Sequence[Named]) -> tuple[Finding, ...]:
        """Return what became of each thing. Of several that one name may mean, the one that changed least counts."""
        inside = {one.path for one in named if one.kind == "symbol"}
        best: dict[tuple[str, str], Finding] = {}
        untold: set[tuple[str, str]] = set()
        for one in named:
            try:
                freshness, how = self._outcome(one, inside)
            except UntoldError:
                untold.add((one.kind, one.name))
                continue
            finding = Finding(one.kind, one.name, freshness, how)
            known = best.get((one.kind, one.name))
            if known is None or _rank(finding) < _rank(known):
                best[one.kind, one.name] = finding
        return tuple(one for key, one in best.items() if key not in untold or one.freshness is Freshness.FRESH)

    def _outcome(self, one: Named, inside: set[str]) -> tuple[Freshness, str]:
        if one.kind == "symbol":
            return self._symbol(one)
        if one.kind == "setting":
            return self._setting(one)
        if one.kind == "command":
            return self._command(one)
        return self._path(one, by_symbols=one.path in inside)

    # -- files ---------------------------------------------------------------------------------------------------------

    def _path(self, one: Named, *, by_symbols: bool) -> tuple[Freshness, str]:
        if not one.content:
            return self._folder(one)
        if self._tree.has(one.path, one.content):
            return Freshness.FRESH, ""
        if self._tree.exists(one.path):
            if one.lines:
                return self._lines(one)
            same = by_symbols or self._asked.staged(one.path) == one.content
            return (Freshness.FRESH, "") if same else (Freshness.DRIFTED, "has changed since")
        now = self._moved(one)
        return (Freshness.DRIFTED, f"{_how_moved(one.path, now)} {now}") if now else (Freshness.GONE, "is gone")

    def _folder(self, one: Named) -> tuple[Freshness, str]:
        if self._tree.exists(one.path):
            return Freshness.FRESH, ""
        prefix = f"{one.path}/"
        if any(path.startswith(prefix) for path in self._asked.left_out()):
            raise UntoldError
        targets = {
            _new_folder(old, new, one.path)
            for old, new in self._asked.renames(one.commit).items()
            if old.startswith(prefix)
        }
        if len(targets) == 1 and (now := targets.pop()):
            return Freshness.DRIFTED, f"moved to {now}"
        return Freshness.GONE, "is gone"

    def _lines(self, one: Named) -> tuple[Freshness, str]:
        """Judge some lines of a file that has changed: they may be as they were, or further up or down."""
        text = self._tree.text(one.path)
        if digest_of(lines_of(text, one.first_line, one.last_line)) == one.lines:
            return Freshness.FRESH, ""
        size = one.last_line - one.first_line
        lines = [line.strip() for line in text.splitlines()]
        for start in range(max(0, len(lines) - size) if size < _MOST_LINES else 0):
            if digest_of("\n".join(lines[start : start + size + 1])) == one.lines:
                shown = f"{start + 1}-{start + 1 + size}" if size else str(start + 1)
                return Freshness.DRIFTED, f"has these lines at {shown} now"
        return Freshness.DRIFTED, "has changed there since"

    def _moved(self, one: Named) -> str:
        """Return where a file is now: as Git has followed it, or else where the same content lies."""
        if one.path in self._asked.left_out():
            raise UntoldError
        if renamed := self._renamed_to(self._asked.renames, one):
            return renamed
        name, suffix = one.path.rpartition("/")[2], one.path.rpartition(".")[2]
        near = [path for path in self._asked.files() if path.endswith(f".{suffix}") or path.rpartition("/")[2] == name]
        near.sort(key=lambda path: path.rpartition("/")[2] != name)
        same = next((path for path in near[:_MOST_COMPARED] if self._tree.has(path, one.content)), "")
        return same or self._renamed_to(self._asked.renames_by_steps, one)

    def _renamed_to(self, renames: Renames, one: Named) -> str:
        renamed = renames(one.commit).get(one.path, "") if one.commit else ""
        return renamed if renamed and self._tree.exists(renamed) else ""

    # -- symbols -------------------------------------------------------------------------------------------------------

    def _symbol(self, one: Named) -> tuple[Freshness, str]:
        if self._tree.has(one.path, one.content):
            return Freshness.FRESH, ""
        path = one.path
        if not self._tree.exists(path):
            path = self._moved(one) or path
        here = [symbol for symbol in self._tree.symbols(path) if symbol.qualified == one.qualified]
        if here:
            return _changed(one, here, path)
        return self._elsewhere(one) or self._renamed(one, path) or (Freshness.GONE, "is gone")

    def _elsewhere(self, one: Named) -> tuple[Freshness, str] | None:
        """Look for a definition of the same name and kind in another place."""
        name = one.qualified.rpartition(".")[2]
        found = [
            place
            for place in self._tree.definitions(name)
            if place.symbol.kind.value == one.symbol_kind
            and (place.path, place.symbol.qualified) != (one.path, one.qualified)
            and not (place.path == one.path and place.symbol.qualified in one.siblings)
        ]
        same = [place for place in found if place.symbol.digest == one.digest]
        if same:
            return Freshness.DRIFTED, f"moved to {_where(same[0], one)}"
        scored = [(self._likeness(one, place), place) for place in found[:_MOST_COMPARED]]
        best = max(scored, key=lambda pair: pair[0], default=None)
        if best is not None and best[0] >= ALIKE:
            return Freshness.DRIFTED, f"moved to {_where(best[1], one)}, and changed"
        return None

    def _renamed(self, one: Named, path: str) -> tuple[Freshness, str] | None:
        """Look for what does the same under another name: in the file, by likeness; elsewhere, only the very same."""
        same = [place for place in self._tree.alike(one.digest) if place.symbol.kind.value == one.symbol_kind]
        same = [place for place in same if not (place.path == one.path and place.symbol.qualified in one.siblings)]
        here = [place for place in same if place.path == path]
        if len(here or same) == 1 and (here or _size(same[0].symbol) >= _LEAST_LINES):
            return Freshness.DRIFTED, f"renamed to {_shown((here or same)[0], path)}"
        news = [
            Place(path, symbol)
            for symbol in self._tree.symbols(path)
            if symbol.kind.value == one.symbol_kind and symbol.qualified not in one.siblings
        ]
        scored = [(self._likeness(one, place), place) for place in news[:_MOST_COMPARED]]
        best = max(scored, key=lambda pair: pair[0], default=None)
        if best is not None and best[0] >= ALIKE:
            return Freshness.DRIFTED, f"renamed to {_shown(best[1], path)}"
        return None

    def _likeness(self, one: Named, place: Place) -> float:
        if place.symbol.digest == one.digest:
            return 1.0
        return likeness(frozenset(one.sketch), sketch(source_of(self._tree.text(place.path), place.symbol)))

    # -- settings and commands -----------------------------------------------------------------------------------------

    def _setting(self, one: Named) -> tuple[Freshness, str]:
        if any(has_word(self._tree.text(path), one.name) for path in one.path.split("\n")):
            return Freshness.FRESH, ""
        if self._asked.left_out():
            raise UntoldError
        now = next((path for path in self._asked.with_word(one.name) if not path.endswith(PROSE)), "")
        return (Freshness.DRIFTED, f"is in {now} now") if now else (Freshness.GONE, "is gone")

    def _command(self, one: Named) -> tuple[Freshness, str]:
        for path in (one.path, *command_files(one.name)):
            if defines(self._tree.text(path), path, one.name):
                return Freshness.FRESH, ""
        return Freshness.GONE, "is gone"


def overall(findings: Iterable[Finding]) -> Freshness:
    """Return one word for all: gone when all is, drifted when anything is not as it was, unchecked when nothing was looked at."""
    found = {one.freshness for one in findings}
    if not found:
        return Freshness.UNCHECKED
    if found == {Freshness.GONE}:
        return Freshness.GONE
    return Freshness.FRESH if found == {Freshness.FRESH} else Freshness.DRIFTED


def _changed(one: Named, here: Sequence[Symbol], path: str) -> tuple[Freshness, str]:
    """Judge a definition that is there under its name."""
    moved = path != one.path
    if joint_digest(here) == one.digest:
        return (Freshness.DRIFTED, f"moved to {path}") if moved else (Freshness.FRESH, "")
    where = f"moved to {path}, and " if moved else ""
    if all(symbol.signature != one.signature for symbol in here):
        return Freshness.DRIFTED, f"{where}has another signature: {here[0].signature}"
    return Freshness.DRIFTED, f"{where}has changed since"


def _where(place: Place, one: Named) -> str:
    if place.path == one.path:
        return place.symbol.qualified
    return f"{place.path}:{place.symbol.name_line}"


def _shown(place: Place, path: str) -> str:
    return place.symbol.qualified if place.path == path else f"{place.symbol.qualified} in {place.path}"


def _how_moved(old: str, new: str) -> str:
    return "renamed to" if old.rpartition("/")[0] == new.rpartition("/")[0] else "moved to"


def _new_folder(old: str, new: str, folder: str) -> str:
    """Return what a folder is called now, by one file that was in it; empty where the file's own name changed, too."""
    rest = old[len(folder) :]
    return new[: -len(rest)] if new.endswith(rest) else ""


def _size(symbol: Symbol) -> int:
    return symbol.span.end_line - symbol.span.start_line + 1


def _rank(finding: Finding) -> int:
    return (Freshness.FRESH, Freshness.DRIFTED, Freshness.GONE).index(finding.freshness)
