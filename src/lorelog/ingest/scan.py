"""Scan: which Markdown files lie under the roots, without reading any of them.

Reading is confined to the roots. A root may be a symbolic link and is resolved; below it directory links are not
followed, so there are no loops, and a file link adds nothing: the file it names is found where it really lies, under
the rules that hold there, or it lies outside all roots and is only reported (`ScanResult.outside`).

Rules that a reader would question:

- A root inside another root is walked on its own, so its files belong to it, and `exclude` patterns are relative to it.
- A file given as a root is taken in spite of hidden names, patterns and ignore files, but not in spite of
  `exclude_paths`: those name a path as explicitly as the root does, and are the later word.
- An ignore file that cannot be read closes its directory: rules that cannot be honoured may guard secrets.

A bad file never stops a scan. What exists but could not be taken is in `kept`, so that nobody mistakes it for gone.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lorelog.core.document import SourceFile, Stamp
from lorelog.core.memory import Problem
from lorelog.core.options import ScanOptions
from lorelog.core.paths import is_below
from lorelog.ingest.scan_read import printable, read_text, reason
from lorelog.ingest.scan_rules import Rules, read_ignore_file, real_paths, root_rules

__all__ = ["ScanResult", "read_text", "scan"]

SUFFIXES = (".md", ".markdown")


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What lies under the roots. Paths are real paths; each tuple is sorted."""

    files: tuple[SourceFile, ...] = ()
    problems: tuple[Problem, ...] = ()
    roots: tuple[str, ...] = ()
    """The roots that were there, those among them that are left out included: nothing of them is to be kept."""
    kept: frozenset[str] = frozenset()
    """Files that exist but could not be taken."""
    kept_prefixes: tuple[str, ...] = ()
    """Directories that could not be looked into."""
    outside: tuple[str, ...] = ()
    """File links that lead out of the roots and were left alone."""

    def keeps(self, path: str) -> bool:
        """Tell whether a file that is not among `files` may exist all the same."""
        return path in self.kept or any(is_below(path, prefix) for prefix in self.kept_prefixes)


def scan(roots: Sequence[str], options: ScanOptions) -> ScanResult:
    """Find the Markdown files under files and directories. Raise UsageError for a malformed exclude pattern only."""
    return _Scan(options).run(roots)


class _Scan:
    def __init__(self, options: ScanOptions) -> None:
        self._options = options
        self._excluded = real_paths(options.exclude_paths)
        self._ignore_names = frozenset(options.ignore_files)
        self._directories: set[str] = set()
        self._explicit: set[str] = set()
        self._files: dict[str, SourceFile] = {}
        self._problems: dict[tuple[str, str], Problem] = {}
        self._kept: set[str] = set()
        self._prefixes: set[str] = set()
        self._links: dict[str, str] = {}
        self._left_out: set[str] = set()

    def run(self, roots: Sequence[str]) -> ScanResult:
        for root in roots:
            self._resolve(root)
        for directory in sorted(self._directories):
            self._walk(directory)
        for path in sorted(self._explicit):
            self._take_explicit(path)
        reached = self._directories | self._explicit
        outside = (link for link, real in self._links.items() if not any(is_below(real, root) for root in reached))
        return ScanResult(
            files=tuple(self._files[path] for path in sorted(self._files)),
            problems=tuple(sorted(self._problems.values(), key=lambda problem: (problem.path, problem.message))),
            roots=tuple(sorted(reached | self._left_out)),
            kept=frozenset(self._kept),
            kept_prefixes=tuple(sorted(self._prefixes)),
            outside=tuple(sorted(outside)),
        )

    def _resolve(self, root: str) -> None:
        """Sort a root into directories and files, or say why it is neither."""
        try:
            real = os.path.realpath(root or "\0", strict=True)
            mode = Path(real).stat().st_mode
        except FileNotFoundError:
            self._report(root, "does not exist", "check the spelling, or remove it from the paths to index")
            return
        except (OSError, ValueError) as error:
            self._report(root, f"cannot be reached: {reason(error)}", "check the path and its permissions")
            return
        if not _is_unicode(real):
            self._report_name(real)
        elif any(is_below(real, excluded) for excluded in self._excluded):
            self._left_out.add(real)
        elif stat.S_ISDIR(mode):
            self._directories.add(real)
        elif real.lower().endswith(SUFFIXES):
            self._explicit.add(real)
        else:
            self._report(root, "is not a Markdown file", "only .md and .markdown files are indexed")

    def _take_explicit(self, path: str) -> None:
        try:
            self._take(path, os.lstat(path), self._owner(path))
        except OSError as error:
            self._keep(path, f"cannot be read: {reason(error)}", "check its permissions")

    def _owner(self, path: str) -> str:
        """Return the innermost directory root that holds a file given by itself, or else the file."""
        holding = [root for root in self._directories if is_below(path, root)]
        return max(holding, key=len, default=path)

    def _walk(self, root: str) -> None:
        patterns = (*self._options.exclude, *self._options.exclude_in.get(root, ()))
        pending = [(root, root_rules(root, patterns))]
        ignore_names = frozenset() if root in self._options.unruled else self._ignore_names
        while pending:
            directory, rules = pending.pop()
            try:
                with os.scandir(directory) as listing:
                    entries = list(listing)
                for name in sorted(entry.name for entry in entries if _is_ignore_file(entry, ignore_names)):
                    rules = rules.below(directory, read_ignore_file(Path(directory, name)))
            except (FileNotFoundError, NotADirectoryError):
                continue  # it went while we walked
            except OSError as error:
                self._prefixes.add(directory)
                at_fault = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else directory
                self._report(at_fault, f"cannot be read: {reason(error)}", "check its permissions, or exclude it")
                continue
            pending.extend((path, rules) for path in self._visit(entries, rules, root))

    def _visit(self, entries: Sequence[os.DirEntry[str]], rules: Rules, root: str) -> Iterator[str]:
        """Take a directory's files; yield the directories below it that are to be walked."""
        for entry in entries:
            name, path = entry.name, entry.path
            if name.startswith("."):
                continue
            is_directory = _is_directory(entry)
            if not is_directory and not name.lower().endswith(SUFFIXES):
                continue
            if path in self._excluded or path in self._directories or rules.exclude(path, is_directory=is_directory):
                continue
            if not _is_unicode(name):
                self._report_name(path)
            elif is_directory:
                yield path
            elif entry.is_symlink():
                self._follow(path)
            else:
                self._visit_file(entry, root)

    def _visit_file(self, entry: os.DirEntry[str], root: str) -> None:
        try:
            self._take(entry.path, entry.stat(follow_symlinks=False), root)
        except FileNotFoundError:
            pass  # it went while we walked
        except OSError as error:
            self._keep(entry.path, f"cannot be read: {reason(error)}", "check the permissions of its directory")

    def _follow(self, path: str) -> None:
        """Remember where a file link leads."""
        try:
            real = os.path.realpath(path, strict=True)
            if stat.S_ISREG(Path(real).stat().st_mode):
                self._links[path] = real
        except OSError as error:
            gone = error.errno in (errno.ENOENT, errno.ENOTDIR)
            why = "leads nowhere" if gone else f"cannot be followed: {reason(error)}"
            self._report(path, f"is a symbolic link that {why}", "remove it, or mend its target")

    def _take(self, path: str, status: os.stat_result, root: str) -> None:
        if not stat.S_ISREG(status.st_mode):
            self._keep(path, "is not a regular file", "remove it, or exclude it")
        elif status.st_size > self._options.max_file_bytes:
            size, limit = status.st_size, self._options.max_file_bytes
            self._keep(
                path,
                f"is too large: {size:,} bytes, more than the limit of {limit:,}",
                "split it, exclude it, or raise max_file_bytes",
            )
        else:
            self._files[path] = SourceFile(path, root, Stamp.of(status))

    def _keep(self, path: str, message: str, hint: str) -> None:
        self._kept.add(path)
        self._report(path, message, hint)

    def _report_name(self, path: str) -> None:
        self._report(path, "has a name that is not valid UTF-8", "rename it")

    def _report(self, path: str, message: str, hint: str) -> None:
        shown = printable(path)
        self._problems.setdefault((shown, message), Problem(shown, f"{shown} {message}", hint))


def _is_ignore_file(entry: os.DirEntry[str], names: frozenset[str]) -> bool:
    # Not through a link: that could lead out of the root.
    return entry.name in names and entry.is_file(follow_symlinks=False)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False  # neither the listing nor the file system can tell


def _is_unicode(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
