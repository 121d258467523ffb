"""Index the code of a working tree: list its files, parse the changed ones, write code.db.

Git lists the files because it knows best: tracked files that match an ignore pattern, patterns outside of the tree,
submodules. Its list is then filtered by our own rules (`.lorelogignore`, `index.exclude`). Without Git the tree is
walked, and some folders of generated files are skipped that Git would ignore.

A file is read only if its stamp changed, and parsed only if its bytes changed. Several processes parse, and this one
writes. Results become visible every few seconds, so a stopped or killed run is continued by the next one. A bad file
never stops a run. A damaged code.db is rebuilt, since everything in it comes from the files.

Indexing a working tree registers it, and it is kept up to date until it is forgotten; one that no user has named is
never parsed. The registry is a file beside code.db, because code.db can be deleted at any time.
"""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct, field

from lorelog.code.git import Git
from lorelog.code.languages.registry import may_be_code
from lorelog.code.parsing import RECIPE, ParsedFile, ParseRequest, ParserPool
from lorelog.code.tables import CodeRoot, CodeTables
from lorelog.code.writer import CodeWriter, IndexedFile, open_writer
from lorelog.core.document import FileStamp
from lorelog.core.errors import Cancelled, LorelogError, NotFound, StoreBusy, StoreDamaged, StoreUnwritable, UsageError
from lorelog.core.extras import require_extra
from lorelog.core.memory import FileProblem
from lorelog.core.options import ScanOptions
from lorelog.core.paths import is_below
from lorelog.core.ports import Progress, batches_of
from lorelog.core.serializable import Serializable, utc_now
from lorelog.ingest.files import (
    IgnoreRules,
    is_unicode,
    os_error_text,
    printable_path,
    read_ignore_file,
    real_paths,
    root_ignore_rules,
)
from lorelog.services.places.root_selection import real_path
from lorelog.services.places.roots import Root, Roots
from lorelog.services.places.workspace import Workspace, find_project

_VENDORED_FOLDERS = frozenset({"node_modules", "bower_components", "__pycache__", "site-packages"})
_FOLDER_MARKERS = ("pyvenv.cfg", "CACHEDIR.TAG", ".git")
"""Files that mark a folder as generated, or as a separate repository."""
_PROJECT_FOLDER = ".lorelog"
_LOCK_TIMEOUT_S = 3600.0
_LOCK_POLL_S = 0.5
_MAX_BATCH_FILES = 64
_MAX_BATCH_ROWS = 20_000
_READ_FAILURE = "cannot be read"
_PARSE_FAILURE = "could not be parsed"
_NO_STAMP = (0, 0, 0)


class CodeListing(Struct):
    """Candidate files of a working tree, sorted. Paths are relative to it."""

    files: list[str] = field(default_factory=list)
    problems: list[FileProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    """Folders that could not be listed: files indexed from there may still exist."""


def list_code_files(root: str, parts: Sequence[str], options: ScanOptions, *, only: Sequence[str] = ()) -> CodeListing:
    """Return the files below a root that may be code.

    `parts` limits the listing to some folders; `only` to some files and folders, all of which Git then lists.
    """
    listing = CodeListing()
    tracked = Git(root).files(only)
    names = frozenset(options.ignore_files)
    rules = _CodeIgnoreRules(root, options, names if tracked is None else names - {".gitignore"}, listing.problems)
    for path in sorted(_walk_tree(root, rules, listing) if tracked is None else tracked):
        if may_be_code(path) and _is_selected(path, parts) and _is_selected(path, only) and rules.keeps(path):
            if is_unicode(path):
                listing.files.append(path)
            else:
                shown = printable_path(f"{root}/{path}")
                listing.problems.append(FileProblem(shown, "has a name that is not valid UTF-8", "rename it"))
    return listing


class _CodeIgnoreRules:
    """The rules of ignore files with some names, and of the settings."""

    def __init__(self, root: str, options: ScanOptions, names: Collection[str], problems: list[FileProblem]) -> None:
        self._root = root
        self._ours = [name for name in options.ignore_files if name in names]
        self._excluded = real_paths(options.exclude_paths)
        self._top = root_ignore_rules(root, (*options.exclude, *options.exclude_in.get(root, ())))
        self._rules: dict[str, IgnoreRules | None] = {}
        self._problems = problems

    def keeps(self, path: str) -> bool:
        """Return True if a file is not ignored."""
        rules = self.rules_in(path.rpartition("/")[0])
        if rules is None or not (rules.layers or rules.overrides or self._excluded):
            return rules is not None
        whole = f"{self._root}/{path}"
        return whole not in self._excluded and not rules.excludes(whole, is_directory=False)

    def rules_in(self, folder: str) -> IgnoreRules | None:
        """Return the rules of a folder; None if it is ignored, or its rules cannot be read."""
        if folder not in self._rules:
            self._rules[folder] = self._read(folder, self.rules_in(folder.rpartition("/")[0]) if folder else self._top)
        return self._rules[folder]

    def _read(self, folder: str, rules: IgnoreRules | None) -> IgnoreRules | None:
        whole = f"{self._root}/{folder}" if folder else self._root
        if rules is None or folder == _PROJECT_FOLDER or any(is_below(whole, path) for path in self._excluded):
            return None
        if folder and rules.excludes(whole, is_directory=True):
            return None
        try:
            for name in self._ours:
                # Git may ignore this file, so it is not in the list; a link could point out of the tree.
                file = Path(whole, name)
                if file.is_file() and not file.is_symlink():
                    rules = rules.with_ignore_file(whole, read_ignore_file(file, self._problems))
        except OSError as error:  # rules that cannot be read may protect secrets
            shown = printable_path(whole)
            message = f"{shown} is left out: its ignore file cannot be read: {os_error_text(error)}"
            self._problems.append(FileProblem(shown, message, "check the permissions of its ignore file"))
            return None
        return rules


def _walk_tree(root: str, rules: _CodeIgnoreRules, listing: CodeListing) -> list[str]:
    """Return the files of a tree that is not a Git repository."""

    def report(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            shown = printable_path(error.filename)
            listing.unreadable.append(error.filename[len(root.rstrip("/")) + 1 :])
            listing.problems.append(
                FileProblem(shown, f"{shown} cannot be read: {os_error_text(error)}", "check its permissions")
            )

    files: list[str] = []
    nested = 0
    for whole, folders, names in os.walk(root, onerror=report):
        folder = whole[len(root.rstrip("/")) + 1 :]
        is_foreign = bool(folder) and not {*folders, *names}.isdisjoint(_FOLDER_MARKERS)
        nested += is_foreign and ".git" in {*folders, *names}
        if is_foreign or rules.rules_in(folder) is None:
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _VENDORED_FOLDERS]
        files += [f"{folder}/{name}" if folder else name for name in names]
    if nested:
        skipped = "1 nested repository was" if nested == 1 else f"{nested} nested repositories were"
        listing.notes.append(f"{skipped} skipped; index {'it' if nested == 1 else 'them'} from inside")
    return files


def _is_selected(path: str, parts: Sequence[str]) -> bool:
    return not parts or any(path == part or path.startswith(f"{part}/") for part in parts)


class CodeIndexJob(Struct, frozen=True):
    """The working tree to index, and how."""

    root: str
    project: str
    parts: tuple[str, ...] = ()
    """Folders to index; all if empty."""
    scan: ScanOptions = field(default_factory=ScanOptions)
    force: bool = False
    """Parse every file again."""
    only: tuple[str, ...] = ()
    """Check only these files and folders: those that changed."""
    waits: bool = True
    """Wait for another run; otherwise raise StoreBusy."""
    processes: int = 0
    """Number of parser processes; 0 for one per processor."""
    nice: int = 5


class CodeIndexReport(Serializable, Struct, frozen=True, kw_only=True):
    """The result of an index run."""

    root: str
    files: int
    """Code files, including those that could not be indexed."""
    changed: int
    unchanged: int
    touched: int
    """Files with a new stamp and the same bytes: not parsed again."""
    removed: int
    symbols: int
    """In the changed files."""
    bytes: int
    """In the changed files."""
    broken: int
    """Changed files that could be parsed only in part."""
    languages: dict[str, int]
    """Changed files by language."""
    left_out: dict[str, int]
    """Changed files that were not indexed, by reason: minified, binary, too large."""
    problems: tuple[FileProblem, ...]
    notes: tuple[str, ...]
    seconds: float


def index_code(database: Path, job: CodeIndexJob, progress: Progress | None = None) -> CodeIndexReport:
    """Bring code.db up to date with a working tree. `progress` may raise to stop the run; finished work is kept."""
    require_extra("code", "the code index")
    try:
        return _CodeIndexRun(job, progress).run(database)
    except StoreDamaged as damage:
        # The writer has deleted the damaged file.
        return _CodeIndexRun(job, progress, f"{damage.message}; it was rebuilt").run(database)


class _CodeIndexRun:
    def __init__(self, job: CodeIndexJob, progress: Progress | None, *notes: str) -> None:
        self._job = job
        self._progress = progress or (lambda *_: None)
        self._started = time.monotonic()
        self._counts: Counter[str] = Counter()
        self._languages: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self._problems: list[FileProblem] = []
        self._inside = {"": True}
        self._notes = list(notes)

    def run(self, database: Path) -> CodeIndexReport:
        job = self._job
        with self._exclusive_writer(database) as writer:
            self._notes += [writer.note] if writer.note else []
            root = writer.root(job.root, job.project, job.parts)
            # Committed at once: files written by a run that is stopped must belong to a root.
            writer.commit()
            listing = list_code_files(job.root, job.parts, job.scan, only=job.only)
            self._problems += listing.problems
            self._notes += listing.notes
            changed, removed = self._compare(listing, writer, root)
            writer.remove(removed)
            self._counts["removed"] = len(removed)
            if changed:
                self._parse(writer, root, changed)
            if not job.only:
                writer.finish(root, utc_now(), Git(job.root).head())
        counts = self._counts
        counted = ("changed", "unchanged", "touched", "removed", "symbols", "bytes", "broken")
        return CodeIndexReport(
            root=job.root,
            files=counts["changed"] + counts["unchanged"] + counts["touched"],
            **{name: counts[name] for name in counted},
            languages=dict(self._languages.most_common()),
            left_out=dict(self._left_out.most_common()),
            problems=tuple(self._problems),
            notes=tuple(self._notes),
            seconds=round(time.monotonic() - self._started, 3),
        )

    def _compare(self, listing: CodeListing, writer: CodeWriter, root: int) -> tuple[list[ParseRequest], list[int]]:
        """Compare the listed with the indexed files; return what to parse, and the ids of removed files."""
        only = self._job.only
        known = [file for path in only for file in writer.files_at(root, path)] if only else writer.files(root)
        indexed = {file.path: file for file in known}
        changed: list[ParseRequest] = []
        for path in listing.files:
            status = self._status(path)
            if status is None:
                continue
            old = indexed.pop(path, None)
            stamp = FileStamp.from_stat(status)
            is_known = old is not None and not self._job.force and old.recipe == RECIPE
            if old is None or not is_known or old.problem.startswith(_READ_FAILURE):
                changed.append(ParseRequest(path, "", stamp.size))
            elif (stamp.size, stamp.mtime_ns, stamp.inode) != (old.size, old.mtime_ns, old.inode):
                changed.append(ParseRequest(path, old.digest, stamp.size))
            elif old.language or old.problem:
                self._counts["unchanged"] += 1
        return changed, [old.id for old in indexed.values() if self._is_removed(old, listing)]

    def _status(self, path: str) -> os.stat_result | None:
        """Return the status of a regular file; None if it is missing, a link, behind a link, or not a file."""
        if not self._is_inside(path.rpartition("/")[0]):
            return None
        try:
            status = os.lstat(f"{self._job.root.rstrip('/')}/{path}")
        except FileNotFoundError:
            return None  # tracked by Git, and deleted
        except OSError as error:
            self._fail(path, f"{_READ_FAILURE}: {error.strerror or error}", "check the permissions of its folder")
            return None
        return status if stat.S_ISREG(status.st_mode) else None

    def _is_inside(self, folder: str) -> bool:
        """Return True if no link leads to a folder: Git may still list files from before the link."""
        if folder not in self._inside:
            above = self._is_inside(folder.rpartition("/")[0])
            self._inside[folder] = above and not Path(self._job.root, folder).is_symlink()
        return self._inside[folder]

    def _is_removed(self, old: IndexedFile, listing: CodeListing) -> bool:
        """Return True for a file that is deleted or no longer selected; False if that cannot be determined."""
        if any(is_below(old.path, folder) for folder in listing.unreadable):
            return False
        try:
            os.lstat(f"{self._job.root.rstrip('/')}/{old.path}")
        except OSError as error:
            return not isinstance(error, PermissionError)
        return True

    def _parse(self, writer: CodeWriter, root: int, changed: Sequence[ParseRequest]) -> None:
        self._progress("code", 0, len(changed))

        def parsed() -> Iterator[ParsedFile]:
            for done, file in enumerate(pool.parse(changed), 1):
                yield file
                self._progress("code", done, len(changed))

        def rows(file: ParsedFile) -> int:
            return len(file.symbols) + len(file.uses) + len(file.imports)

        with ParserPool(self._job.root, processes=self._job.processes, nice=self._job.nice) as pool:
            try:
                for batch in batches_of(parsed(), rows, _MAX_BATCH_FILES, _MAX_BATCH_ROWS):
                    self._put(writer, root, batch)
            except OSError as error:
                raise StoreUnwritable(
                    f"parser process could not be started: {error.strerror or error}",
                    hint="free some memory and try again",
                ) from error

    def _put(self, writer: CodeWriter, root: int, batch: Sequence[ParsedFile]) -> None:
        same = [file for file in batch if file.unchanged]
        writer.touch(root, same)
        self._counts["touched"] += len(same)
        writer.remove([old.id for file in batch if file.missing for old in writer.files_at(root, file.path)])
        new = [self._stamped(file) for file in batch if not file.unchanged and not file.missing]
        writer.put(root, new, RECIPE)
        for file in new:
            self._count(file)

    def _stamped(self, file: ParsedFile) -> ParsedFile:
        """Add the stamp to a file whose parser crashed, so that it is retried only after it changes."""
        if file.stamp != _NO_STAMP or not file.problem.startswith(_PARSE_FAILURE):
            return file
        status = self._status(file.path)
        if status is None:
            return file
        stamp = FileStamp.from_stat(status)
        return file._replace(stamp=(stamp.size, stamp.mtime_ns, stamp.inode))

    def _count(self, file: ParsedFile) -> None:
        is_failure = file.problem.startswith((_READ_FAILURE, _PARSE_FAILURE))
        if is_failure:
            hint = "check its permissions" if file.problem.startswith(_READ_FAILURE) else "the run went on without it"
            self._fail(file.path, file.problem, hint)
        if not file.language and not file.problem:
            return  # a name without a suffix, and not code
        self._counts.update(changed=1, symbols=len(file.symbols), bytes=file.stamp[0], broken=bool(file.broken))
        if file.problem and not is_failure:
            self._left_out[file.problem] += 1
        elif file.language:
            self._languages[file.language] += 1

    def _fail(self, path: str, message: str, hint: str) -> None:
        shown = printable_path(f"{self._job.root.rstrip('/')}/{path}")
        self._problems.append(FileProblem(shown, f"{shown} {message}", hint))

    @contextmanager
    def _exclusive_writer(self, database: Path) -> Iterator[CodeWriter]:
        """Hold the writer lock; while another run holds it, wait if the job allows it."""
        started, waits_s = time.monotonic(), 0.0
        with ExitStack() as stack:
            while True:
                try:
                    writer = stack.enter_context(open_writer(database, wait_s=waits_s))
                    break
                except StoreBusy as busy:
                    if not self._job.waits or time.monotonic() > started + _LOCK_TIMEOUT_S:
                        raise
                    self._notes += [] if waits_s else [f"waited: {busy.message}"]
                    waits_s = _LOCK_POLL_S
                    holder = busy.holder or "another process"
                    self._progress(f"waiting for the code index run of {holder}", int(time.monotonic() - started), 0)
            yield writer


REGISTRY_FILE = "code_roots.json"
_FORGET_TIMEOUT_S = 60.0
_MAX_LISTED = 20


def registered_trees(tenant_folder: Path, tables: CodeTables | None = None) -> Roots:
    """Return the registered working trees of a tenant. The indexed folders are in the field `patterns` of a root."""

    def indexed() -> list[Root]:
        return [Root(tree.path, tree.project, patterns=tree.parts) for tree in tables.roots()] if tables else []

    return Roots(tenant_folder / REGISTRY_FILE, indexed)


class SkippedFile(Serializable, Struct, frozen=True):
    """A file that was not indexed, and why."""

    path: str
    reason: str


class CodeTree(Serializable, Struct, frozen=True, kw_only=True):
    """An indexed working tree."""

    path: str
    project: str
    parts: tuple[str, ...]
    exists: bool
    files: int = 0
    symbols: int = 0
    languages: dict[str, int] = field(default_factory=dict)
    """Number of files by language."""
    indexed_at: str | None = None
    """When the last complete run ended."""
    commit: str | None = None
    left_out: tuple[SkippedFile, ...] = ()
    """Some of the files that could not be indexed."""
    left_out_total: int = 0


class IndexedTrees:
    """The working trees of one tenant."""

    def __init__(self, workspace: Workspace, tables: CodeTables) -> None:
        self._workspace = workspace
        self._tables = tables
        self._registry = registered_trees(workspace.tenant_folder, tables)

    def index(
        self, path: str = "", *, scan: ScanOptions, force: bool = False, progress: Progress | None = None
    ) -> CodeIndexReport:
        """Index the working tree of a path, or the current one; if the path is a folder of it, only that folder.

        If the tree is already indexed as a whole, the folder is updated and the rest stays.
        """
        root, project, part = self._resolve_tree(path)
        registered = self._registered().get(root)
        parts, only = _merge_part(registered, part)
        self._workspace.create()
        self._registry.remember([Root(root, project, patterns=parts)])
        job = CodeIndexJob(root, project, parts=parts, scan=scan, force=force, only=only)
        try:
            return index_code(self._tables.path, job, progress)
        except (LorelogError, OSError) as error:
            if registered is None and not isinstance(error, Cancelled) and self._tables.root(root) is None:
                self._registry.forget([root])  # nothing was indexed
            raise

    def is_registered(self) -> bool:
        """Return True if the current working tree was indexed."""
        return self._resolve_tree("")[0] in self._registered()

    def forget(self, path: str = "") -> tuple[str, int]:
        """Delete the index of a working tree and stop updating it; return its path and its number of files."""
        registered = self._registered()
        real = real_path(path) if path else ""
        root = real if real in registered else self._resolve_tree(path, missing=True)[0]
        self._registry.forget([root])
        if self._tables.root(root) is None:
            if root not in registered:
                raise NotFound(
                    f"no code of {root} is indexed", hint="list the indexed trees with 'lorelog code status'"
                )
            return root, 0
        with open_writer(self._tables.path, wait_s=_FORGET_TIMEOUT_S) as writer:
            return root, writer.forget(root)

    def all(self) -> list[CodeTree]:
        """Return all registered or indexed working trees, sorted by path."""
        indexed = {root.path: root for root in self._tables.roots()}
        trees = [
            CodeTree(path=path, project=root.project, parts=root.patterns, exists=os.path.isdir(path))
            for path, root in self._registered().items()
            if path not in indexed
        ]
        trees += [self._indexed_tree(root) for root in indexed.values()]
        return sorted(trees, key=lambda tree: tree.path)

    def _registered(self) -> dict[str, Root]:
        return {root.path: root for root in self._registry.all()}

    def _indexed_tree(self, root: CodeRoot) -> CodeTree:
        languages = Counter(file.language for file in self._tables.files(root.path) if not file.problem)
        problems = self._tables.problems(root.path)
        return CodeTree(
            path=root.path,
            project=root.project,
            parts=root.parts,
            exists=os.path.isdir(root.path),
            files=languages.total(),
            symbols=root.symbols,
            languages=dict(languages.most_common()),
            indexed_at=root.indexed_at or None,
            commit=root.head or None,
            left_out=tuple(SkippedFile(file.absolute, file.problem) for file in problems[:_MAX_LISTED]),
            left_out_total=len(problems),
        )

    def size(self) -> int:
        try:
            return self._tables.path.stat().st_size
        except OSError:
            return 0

    def _resolve_tree(self, path: str, *, missing: bool = False) -> tuple[str, str, str]:
        """Return the working tree of a path, its project, and the path relative to it."""
        real = real_path(path) if path else ""
        if path and not missing and not os.path.exists(real):
            raise NotFound(f"{path} does not exist", hint="check the spelling")
        project = find_project(real) if path else self._workspace.project
        root = project.root
        if not project.git and root in {"/", os.path.realpath(os.path.expanduser("~")), str(self._workspace.home)}:
            raise UsageError(
                f"{root} is not a project; indexing it would include everything below it",
                hint="name a folder: lorelog code index PATH",
            )
        return root, project.id, os.path.relpath(real, root) if path and real != root else ""


def _merge_part(registered: Root | None, part: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the parts of a tree to index from now on, and the parts to update now; none stands for all."""
    if not part:
        return (), ()
    if registered is None:
        return (part,), ()
    parts = registered.patterns
    if _is_selected(part, parts):
        return parts, (part,)
    return tuple(sorted({other for other in parts if not other.startswith(f"{part}/")} | {part})), (part,)
