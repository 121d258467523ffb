"""Find the files to index under the roots, and read a found file as text.

Scanning is confined to the roots. A root may be a symbolic link and is resolved; below it directory links are not
followed, so there are no loops. A file link adds nothing: its target is either found at its real path, under the rules
of that directory, or is outside all roots and only reported (`ScanResult.outside_links`).

Files are excluded by `exclude` patterns and ignore files with gitignore's semantics. A directory inherits its parent's
rules and adds its own ignore files; the last matching pattern decides, and `exclude` overrides all ignore files. As in
git, nothing below an excluded directory can be included again.

Decisions:

- Hidden names are skipped unless an `exclude` pattern asks for them (`!.notes/`, or `!.*` for all); an ignore file, which a repository brings, cannot.
- A root inside another root is walked separately: its files belong to it, and `exclude` patterns are relative to it.
- A file given as a root is included despite hidden names, patterns and ignore files, but not despite `exclude_paths`:
  those name a path as explicitly as the root does, and take precedence.
- An ignore file that cannot be read excludes its directory: rules that cannot be applied may protect secrets.
- A bad file never stops a scan. Existing files that could not be included are in `unreadable`, so that they are not
  mistaken for deleted ones.
- Patterns may come from a repository and are matched in bounded time (`ingest/gitignore.py`). One that is too long is
  reported and not used; an ignore file that is too large excludes its directory, like one that cannot be read.

A scanned file is read as text, or SourceError says why it cannot be read.

A few bad bytes must not hide a day of memories: a kill or a power cut leaves half a character or a run of NUL bytes at the end of a
journal. Each is replaced by U+FFFD, and a note says where. A file with many of them is not text, and is rejected. Between scan
and read a path may be replaced by a link, a pipe or a device; so links are not followed, opening never blocks, and the opened file
must still be the scanned path.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from lorelog.core.document import FileStamp, SourceFile
from lorelog.core.errors import SourceError, UsageError
from lorelog.core.ids import sha256
from lorelog.core.memory import FileProblem
from lorelog.core.options import TEXT_SUFFIXES, ScanOptions
from lorelog.core.paths import is_below, leads_out
from lorelog.ingest.gitignore import MAX_IGNORE_FILE_BYTES, MAX_PATTERN_CHARS, BadPattern, IgnorePatterns, parse_pattern


class IgnoreRules(Struct, frozen=True):
    """The rules that apply in one directory."""

    layers: tuple[tuple[str, IgnorePatterns], ...] = ()
    """Base directory and patterns of each ignore file; the last one decides."""
    overrides: tuple[tuple[str, IgnorePatterns], ...] = ()

    def with_ignore_file(self, directory: str, patterns: IgnorePatterns) -> IgnoreRules:
        """Return these rules extended by those of an ignore file."""
        return IgnoreRules((*self.layers, (directory, patterns)), self.overrides) if patterns else self

    def excludes(self, path: str, *, is_directory: bool) -> bool:
        """Return True if an absolute path is excluded, given that the directories above it are not."""
        return bool(_decide((*self.layers, *self.overrides), path, is_directory=is_directory))

    def asks_for(self, path: str, *, is_directory: bool) -> bool:
        """Return True if an `exclude` pattern that begins with `!` names a hidden path; Git's folder and ours are never asked for."""
        return (
            path.rpartition("/")[2] not in _NEVER_READ
            and _decide(self.overrides, path, is_directory=is_directory) is False
        )


_NEVER_READ = frozenset({".git", ".lorelog"})


def _decide(layers: Sequence[tuple[str, IgnorePatterns]], path: str, *, is_directory: bool) -> bool | None:
    """Return True if the last layer that has a matching pattern excludes a path, False if it includes it, None without one."""
    for base, patterns in reversed(layers):
        decision = patterns.decide(path[len(base.rstrip("/")) + 1 :], is_directory=is_directory)
        if decision is not None:
            return decision
    return None


def root_ignore_rules(root: str, exclude: Sequence[str]) -> IgnoreRules:
    """Return the rules at a root. Raise UsageError if a pattern is malformed."""
    for pattern in exclude:
        try:
            parse_pattern(pattern)
        except BadPattern as error:
            shown = repr(pattern if len(pattern) <= MAX_PATTERN_CHARS else f"{pattern[:80]}…")
            raise UsageError(f"The exclude pattern {shown} {error}", hint="write it as in a .gitignore file") from error
    patterns = IgnorePatterns(exclude)
    return IgnoreRules(overrides=((root, patterns),)) if patterns else IgnoreRules()


def read_ignore_file(path: Path, problems: list[FileProblem]) -> IgnorePatterns:
    """Return the patterns of an ignore file; add those that are too long to `problems`. May raise OSError.

    A link is not followed: it could lead out of the root.
    """
    try:
        with os.fdopen(os.open(path, _FLAGS), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return IgnorePatterns(())
            data = file.read(MAX_IGNORE_FILE_BYTES + 1)
    except FileNotFoundError:
        return IgnorePatterns(())  # deleted after its directory was listed
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, or a socket
            return IgnorePatterns(())
        raise
    if len(data) > MAX_IGNORE_FILE_BYTES:
        raise OSError(errno.EFBIG, f"it is larger than {MAX_IGNORE_FILE_BYTES:,} bytes", str(path))
    lines = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape").split("\n")
    patterns = IgnorePatterns(lines)
    shown = printable_path(str(path))
    for line in patterns.too_long:
        message = f"line {line} of {shown} is not used: the pattern is longer than {MAX_PATTERN_CHARS:,} characters"
        problems.append(FileProblem(shown, message, "shorten it, or split it"))
    return patterns


def real_paths(paths: Sequence[str]) -> frozenset[str]:
    return frozenset(os.path.realpath(path) for path in paths)


class ScanResult(Struct, frozen=True, kw_only=True):
    """The result of a scan. Paths are real paths; each tuple is sorted."""

    files: tuple[SourceFile, ...] = ()
    problems: tuple[FileProblem, ...] = ()
    roots: tuple[str, ...] = ()
    """The roots that exist, including excluded ones: index entries of those must be removed."""
    unreadable: frozenset[str] = frozenset()
    """Files that exist but could not be included."""
    unreadable_directories: tuple[str, ...] = ()
    """Directories that could not be listed."""
    outside_links: tuple[str, ...] = ()
    """File links to targets outside the roots, which were not followed."""
    passed_over: Mapping[str, int] = {}
    """How many files of plain text were not read, by suffix."""

    def may_exist(self, path: str) -> bool:
        """Return True if a file that is not among `files` may still exist."""
        return path in self.unreadable or any(is_below(path, prefix) for prefix in self.unreadable_directories)


def scan(roots: Sequence[str], options: ScanOptions) -> ScanResult:
    """Find the files to read at and under the roots. Raise UsageError only for a malformed exclude pattern."""
    return _Scanner(options).run(roots)


class _Scanner:
    def __init__(self, options: ScanOptions) -> None:
        self._options = options
        excluded = real_paths(options.exclude_paths)
        self._excluded = {path for path in excluded if not any(is_below(path, root) for root in options.journals)}
        self._passed_over: Counter[str] = Counter()
        self._directories: set[str] = set()
        self._explicit: set[str] = set()
        self._files: dict[str, SourceFile] = {}
        self._problems: dict[tuple[str, str], FileProblem] = {}
        self._unreadable: set[str] = set()
        self._unreadable_directories: set[str] = set()
        self._links: set[str] = set()
        self._excluded_roots: set[str] = set()
        self._pattern_problems: list[FileProblem] = []

    def run(self, roots: Sequence[str]) -> ScanResult:
        for root in roots:
            self._resolve(root)
        for directory in sorted(self._directories):
            self._walk(directory)
        for path in sorted(self._explicit):
            try:
                self._add_file(path, os.lstat(path), self._owner(path))
            except OSError as error:
                self._report_unreadable(path, f"cannot be read: {os_error_text(error)}", "check its permissions")
        reached = self._directories | self._explicit
        outside = (link for link in self._links if all(leads_out(link, root) for root in reached))
        return ScanResult(
            files=tuple(self._files[path] for path in sorted(self._files)),
            problems=tuple(
                sorted(
                    {*self._problems.values(), *self._pattern_problems},
                    key=lambda problem: (problem.path, problem.message),
                )
            ),
            roots=tuple(sorted(reached | self._excluded_roots)),
            unreadable=frozenset(self._unreadable),
            unreadable_directories=tuple(sorted(self._unreadable_directories)),
            outside_links=tuple(sorted(outside)),
            passed_over=dict(self._passed_over.most_common()),
        )

    def _resolve(self, root: str) -> None:
        """Add a root to the directories or files, or report why it is neither."""
        try:
            real = os.path.realpath(root or "\0", strict=True)
            mode = Path(real).stat().st_mode
        except FileNotFoundError:
            self._report(root, "does not exist", "check the spelling, or remove it from the paths to index")
            return
        except (OSError, ValueError) as error:
            self._report(root, f"cannot be reached: {os_error_text(error)}", "check the path and its permissions")
            return
        if not is_unicode(real):
            self._report_name(real)
        elif real not in self._options.journals and any(is_below(real, excluded) for excluded in self._excluded):
            self._excluded_roots.add(real)
        elif stat.S_ISDIR(mode):
            self._directories.add(real)
        elif self._options.reads(real):
            self._explicit.add(real)
        else:
            self._report(
                root,
                "is not a Markdown file",
                "index.extensions adds .txt, .rst, .adoc or .org; others are not indexed",
            )

    def _owner(self, path: str) -> str:
        """Return the innermost directory root above a file root, else the file itself."""
        return max((root for root in self._directories if is_below(path, root)), key=len, default=path)

    def _walk(self, root: str) -> None:
        is_journals = root in self._options.journals
        patterns = () if is_journals else (*self._options.exclude, *self._options.exclude_in.get(root, ()))
        pending = [(root, root_ignore_rules(root, patterns))]
        ignore_names = () if is_journals else self._options.ignore_files
        while pending:
            directory, rules = pending.pop()
            try:
                with os.scandir(directory) as listing:
                    entries = list(listing)
                own = [entry for entry in entries if entry.name in ignore_names]
                there = {entry.name for entry in own if entry.is_file(follow_symlinks=False)}
                for name in filter(there.__contains__, ignore_names):  # in this order: the last one decides
                    patterns_here = read_ignore_file(Path(directory, name), self._pattern_problems)
                    rules = rules.with_ignore_file(directory, patterns_here)
            except (FileNotFoundError, NotADirectoryError):
                continue  # deleted during the walk
            except OSError as error:
                self._unreadable_directories.add(directory)
                at_fault = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else directory
                self._report(
                    at_fault, f"cannot be read: {os_error_text(error)}", "check its permissions, or exclude it"
                )
                continue
            pending.extend((path, rules) for path in self._visit(entries, rules, root))

    def _visit(self, entries: Sequence[os.DirEntry[str]], rules: IgnoreRules, root: str) -> Iterator[str]:
        """Add a directory's files; yield its subdirectories to walk."""
        for entry in entries:
            name, path = entry.name, entry.path
            is_directory = _is_directory(entry)
            if name.startswith(".") and not rules.asks_for(path, is_directory=is_directory):
                continue
            is_read = is_directory or self._options.reads(name)
            if not is_read and not name.lower().endswith(TEXT_SUFFIXES):
                continue
            if path in self._excluded or path in self._directories or rules.excludes(path, is_directory=is_directory):
                continue
            if not is_read:
                self._passed_over[Path(name).suffix.lower()] += 1
            elif not is_unicode(name):
                self._report_name(path)
            elif is_directory:
                yield path
            elif entry.is_symlink():
                self._follow(path)
            else:
                try:
                    self._add_file(path, entry.stat(follow_symlinks=False), root)
                except FileNotFoundError:
                    continue  # deleted during the walk
                except OSError as error:
                    hint = "check the permissions of its directory"
                    self._report_unreadable(path, f"cannot be read: {os_error_text(error)}", hint)

    def _follow(self, path: str) -> None:
        try:
            real = os.path.realpath(path, strict=True)
            if stat.S_ISREG(Path(real).stat().st_mode):
                self._links.add(path)
        except OSError as error:
            gone = error.errno in (errno.ENOENT, errno.ENOTDIR)
            why = "has no target" if gone else f"cannot be followed: {os_error_text(error)}"
            self._report(path, f"is a symbolic link that {why}", "remove it, or fix its target")

    def _add_file(self, path: str, status: os.stat_result, root: str) -> None:
        if not stat.S_ISREG(status.st_mode):
            self._report_unreadable(path, "is not a regular file", "remove it, or exclude it")
        elif status.st_size > (limit := self._options.size_limit(root)):
            size = status.st_size
            self._report_unreadable(
                path,
                f"is too large: {size:,} bytes, more than the limit of {limit:,}",
                "split it, exclude it, or raise max_file_bytes",
            )
        else:
            self._files[path] = SourceFile(path, root, FileStamp.from_stat(status))

    def _report_unreadable(self, path: str, message: str, hint: str) -> None:
        self._unreadable.add(path)
        self._report(path, message, hint)

    def _report_name(self, path: str) -> None:
        self._report(path, "has a name that is not valid UTF-8", "rename it")

    def _report(self, path: str, message: str, hint: str) -> None:
        shown = printable_path(path)
        self._problems.setdefault((shown, message), FileProblem(shown, f"{shown} {message}", hint))


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False  # unknown both from the listing and from the file system


def is_unicode(path: str) -> bool:
    """Return False for a path that is not valid UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


# text

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


_REPLACEMENT = "\ufffd"
_NULS = "\0+"
"""A power cut leaves a run of them; one sign stands for it."""
_ALLOWED_BAD_CHARS = 16
_ALLOWED_BAD_SHARE = 0.1
"""Of the characters of a file: Latin-1 text in any European language has less."""


PARSE_SECONDS, PARSE_SECONDS_PER_MB = 5.0, 5.0
"""Processor time to parse any file, and in addition for each million characters: ten times what the worst ones take."""


class FileText(Struct, frozen=True):
    """A file's text, the SHA-256 of its bytes in hex, and a note if some of them are not text."""

    text: str
    digest: str
    note: str = ""
    size: int = 0
    """Number of bytes."""
    has_grown: bool = False
    """True if it begins with the content that was asked for, and has more."""


def read_text(file: SourceFile, before: tuple[int, str] | None = None) -> FileText:
    r"""Return a file's text. Raise SourceError if it cannot be read, or is not text.

    `before` are the size and digest of an earlier content, to learn whether the file only grew.
    A byte order mark is dropped and `\r\n` becomes `\n`; no other character ends a line. UTF-16 with a byte order mark is decoded.
    """
    data = _read_bytes(file.path)
    text, note = _decode(data, printable_path(file.path))
    has_grown = False
    if before is not None and before[0] < len(data):
        digest = sha256(memoryview(data)[: before[0]])
        has_grown = digest.hexdigest() == before[1]
        digest.update(memoryview(data)[before[0] :])
    else:
        digest = sha256(data)
    if "\r" in text:  # looking for two characters takes 4 ms in a large journal
        text = text.replace("\r\n", "\n")
    return FileText(text, digest.hexdigest(), note, len(data), has_grown)


class ParseTimer:
    """The processor time that the parsing of one file may take.

    Every pass over a text is linear, so an honest file needs a small part of it, even on a slow machine. It limits what a mistake
    in a parser costs: the file is refused by name, and the run goes on. It counts the time of the thread, not that of a busy machine.
    """

    def __init__(self, file: SourceFile, characters: int) -> None:
        self._path = file.path
        self._seconds = PARSE_SECONDS + PARSE_SECONDS_PER_MB * characters / 1e6
        self._end = time.thread_time() + self._seconds

    def check(self) -> None:
        """Raise SourceError if the time is over."""
        if time.thread_time() > self._end:
            raise SourceError(
                f"{printable_path(self._path)} was not indexed: parsing it took more than {self._seconds:.0f} s",
                hint="exclude it, or split it into smaller files",
            )


def _decode(data: bytes, shown: str) -> tuple[str, str]:
    if data.startswith(_UTF16_BOMS):
        try:
            return data.decode("utf-16"), ""
        except UnicodeDecodeError as error:
            raise SourceError(
                f"{shown} begins as UTF-16 and is not valid at byte {error.start}",
                hint="convert it to UTF-8, for example with iconv",
            ) from error
    data = data.removeprefix(_BOM)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
    else:
        if "\0" not in text:
            return text, ""
    text = re.sub(_NULS, _REPLACEMENT, text)
    bad = text.count(_REPLACEMENT)
    if bad > max(min(_ALLOWED_BAD_CHARS, len(text) / 2), len(text) * _ALLOWED_BAD_SHARE):
        raise SourceError(
            f"{shown} is not text: {bad:,} of its {len(text):,} characters are not valid UTF-8",
            hint="convert it to UTF-8, for example with iconv, or exclude it",
        )
    line = text.count("\n", 0, text.find(_REPLACEMENT)) + 1
    return text, f"{shown} has bytes that are not valid UTF-8, the first on line {line}; they are indexed as U+FFFD"


def _read_bytes(path: str) -> bytes:
    try:
        with os.fdopen(os.open(path, _FLAGS), "rb") as opened:
            opened_status = os.fstat(opened.fileno())
            status = os.lstat(path)
            is_same = (status.st_dev, status.st_ino) == (opened_status.st_dev, opened_status.st_ino)
            if not stat.S_ISREG(opened_status.st_mode) or not is_same or os.path.realpath(path) != path:
                raise SourceError(
                    f"{printable_path(path)} was replaced while it was being read",
                    hint="index again when it no longer changes",
                )
            return opened.read()
    except FileNotFoundError as error:
        raise SourceError(f"{printable_path(path)} vanished before it could be read", hint="index again") from error
    except (OSError, ValueError) as error:
        raise SourceError(
            f"{printable_path(path)} cannot be read: {os_error_text(error)}",
            hint="check its permissions, or exclude it",
        ) from error


def os_error_text(error: OSError | ValueError) -> str:
    """Return the system's message without error number and path."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def printable_path(path: str) -> str:
    """Return a path that is safe to print; bytes that are not UTF-8 are shown as escapes."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
