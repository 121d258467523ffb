"""Which files of a working tree may be code: what Git has or would take, and without Git what its ignore files leave.

Git is asked because it knows best: files that are tracked in spite of a pattern, patterns outside the tree, submodules. What
it lists is still sifted by our own rules (`.lorelogignore`, `index.exclude`), which hold for code as for notes.

Without Git some folders are passed over that nobody wrote: those are ignored wherever there is a Git to ignore them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lorelog.code.git import Git
from lorelog.code.languages import may_be_code
from lorelog.core.memory import Problem
from lorelog.core.options import ScanOptions
from lorelog.core.paths import is_below
from lorelog.ingest.scan_read import printable, reason
from lorelog.ingest.scan_rules import Rules, read_ignore_file, real_paths, root_rules

_NOT_OURS = frozenset({"node_modules", "bower_components", "__pycache__", "site-packages"})
_MARKED = ("pyvenv.cfg", "CACHEDIR.TAG", ".git")
"""Files in a folder that say: made by a program, or a repository of its own."""
_OUR_FOLDER = ".lorelog"


@dataclass(slots=True)
class Listing:
    """What lies in a working tree. Paths are relative to it."""

    files: list[str] = field(default_factory=list)
    """Sorted."""
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    """Folders that could not be looked into: what was known of them may still be there."""


def list_code(root: str, parts: Sequence[str], options: ScanOptions, *, only: Sequence[str] = ()) -> Listing:
    """Return the files below a root, or in some folders of it, that may be code.

    `only`: look at these paths alone, which Git must list; who names a folder wants all of it.
    """
    found = Listing()
    listed = Git(root).files(only)
    if listed is None:
        _Walk(root, options, found).run()
    else:
        sieve = _Sieve(root, options)
        found.files = [path for path in listed if may_be_code(path) and sieve.keeps(path)]
        found.problems += sieve.problems
    found.files = [path for path in found.files if _is_wanted(path, parts) and _is_wanted(path, only)]
    bad = [path for path in found.files if not _is_unicode(path)]
    if bad:
        found.problems += [
            Problem(printable(f"{root}/{path}"), "has a name that is not valid UTF-8", "rename it") for path in bad
        ]
        found.files = [path for path in found.files if _is_unicode(path)]
    found.files.sort()
    return found


class _Sieve:
    """Our own rules, for what Git has listed."""

    def __init__(self, root: str, options: ScanOptions) -> None:
        self._root = root
        self._ours = sorted(frozenset(options.ignore_files) - {".gitignore"})
        self._excluded = real_paths(options.exclude_paths)
        self._top = root_rules(root, (*options.exclude, *options.exclude_in.get(root, ())))
        self._rules: dict[str, Rules | None] = {}
        self.problems: list[Problem] = []

    def keeps(self, path: str) -> bool:
        """Say whether a file is not left out."""
        rules = self._rules_in(path.rpartition("/")[0])
        if rules is None or not (rules.layers or rules.override or self._excluded):
            return rules is not None
        whole = f"{self._root}/{path}"
        return whole not in self._excluded and not rules.exclude(whole, is_directory=False)

    def _rules_in(self, folder: str) -> Rules | None:
        """Return the rules in a folder; None when it is left out, or its rules cannot be read."""
        if folder not in self._rules:
            self._rules[folder] = self._read(folder, self._rules_in(folder.rpartition("/")[0]) if folder else self._top)
        return self._rules[folder]

    def _read(self, folder: str, rules: Rules | None) -> Rules | None:
        whole = f"{self._root}/{folder}" if folder else self._root
        if rules is None or folder == _OUR_FOLDER or any(is_below(whole, one) for one in self._excluded):
            return None
        if folder and rules.exclude(whole, is_directory=True):
            return None
        try:
            for name in self._ours:
                # Git may be told to ignore it, so it is looked for and not listed; a link could lead out of the tree.
                file = Path(whole, name)
                if file.is_file() and not file.is_symlink():
                    rules = rules.below(whole, read_ignore_file(file))
        except OSError as error:  # rules that cannot be honoured may guard secrets
            told = f"{printable(whole)} is left out: its ignore file cannot be read: {reason(error)}"
            self.problems.append(Problem(printable(whole), told, "check the permissions of its ignore file"))
            return None
        return rules


class _Walk:
    """A walk through a tree that Git does not know."""

    def __init__(self, root: str, options: ScanOptions, found: Listing) -> None:
        self._root = root
        self._ignore_names = frozenset(options.ignore_files)
        self._excluded = real_paths(options.exclude_paths)
        self._patterns = (*options.exclude, *options.exclude_in.get(root, ()))
        self._found = found
        self._apart = 0

    def run(self) -> None:
        pending = [(self._root, root_rules(self._root, self._patterns))]
        while pending:
            folder, rules = pending.pop()
            try:
                with os.scandir(folder) as listing:
                    entries = list(listing)
                names = {entry.name for entry in entries}
                if folder != self._root and not names.isdisjoint(_MARKED):
                    self._apart += ".git" in names
                    continue
                for name in sorted(names & self._ignore_names):
                    rules = rules.below(folder, read_ignore_file(Path(folder, name)))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                self._close(folder, error)
                continue
            pending += [(entry.path, rules) for entry in entries if self._visit(entry, rules)]
        if self._apart:
            many = "a folder is a repository" if self._apart == 1 else f"{self._apart} folders are repositories"
            self._found.notes.append(f"{many} of its own, and left alone: index it from inside")

    def _visit(self, entry: os.DirEntry[str], rules: Rules) -> bool:
        """Take a file; return whether it is a folder to be walked."""
        try:
            is_folder, is_file = entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False)
        except OSError:
            return False
        if is_folder and (entry.name.startswith(".") or entry.name in _NOT_OURS):
            return False
        if not is_folder and not (is_file and may_be_code(entry.name)):
            return False
        if entry.path in self._excluded or rules.exclude(entry.path, is_directory=is_folder):
            return False
        if is_file:
            self._found.files.append(entry.path[len(self._root.rstrip("/")) + 1 :])
        return is_folder

    def _close(self, folder: str, error: OSError) -> None:
        self._found.closed.append(folder[len(self._root.rstrip("/")) + 1 :])
        self._found.problems.append(
            Problem(printable(folder), f"{printable(folder)} cannot be read: {reason(error)}", "check its permissions")
        )


def _is_wanted(path: str, parts: Sequence[str]) -> bool:
    return not parts or any(path == part or path.startswith(f"{part}/") for part in parts)


def _is_unicode(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
