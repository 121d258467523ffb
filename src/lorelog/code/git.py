"""Runs Git. Every Git process is started by `run_git`; `Git` and `GitHistory` ask a working tree, and change nothing.

A repository may be untrusted. Git itself refuses repositories of other owners (`safe.directory`), and that stays.
Everything else that can start a program or a connection is switched off: hooks, file system monitors, pagers, external
diffs and text conversions, signature checks, lazy fetching in partial clones. No command reads files of the working
tree through filters, or merges with drivers, since a repository chooses those programs. Environment variables that
redirect Git (`GIT_DIR` inside a hook) are not passed on.

Every failure gives None, which is not the same as an empty result: every caller can do without Git. Each query runs one
or a few Git processes, and the caller caches the results.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread, Timer
from typing import IO, NamedTuple

from lorelog.light.git_location import find_worktree

_SAFE_OPTIONS = (
    "--no-pager",
    "--no-optional-locks",
    "--no-replace-objects",
    "--literal-pathspecs",
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.untrackedCache=false"),
    *("-c", "core.quotePath=false"),
    *("-c", "core.sshCommand=false"),
    *("-c", "protocol.allow=never"),
    *("-c", "log.showSignature=false"),
    *("-c", "color.ui=false"),
)
_DIFF_COMMANDS = frozenset({"blame", "diff", "diff-files", "diff-index", "diff-tree", "log", "show", "whatchanged"})
"""Commands that would convert files with a program named in the repository's attributes."""
_KEPT_VARIABLES = frozenset(
    {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_CEILING_DIRECTORIES"}
)
"""Variables for the location of the user's own settings, which include `safe.directory`."""
_SAFE_VARIABLES = {
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_PAGER": "cat",
    "GIT_ASKPASS": "",
    "GIT_ATTR_NOSYSTEM": "1",
}
_TIMEOUT_S = 10.0
_LIST_TIMEOUT_S = 120.0
_CHANGE_S = 1.0
_MAX_OUTPUT_BYTES = 64 << 20
_MAX_LIST_BYTES = 512 << 20
_GITLINK = "160000"
_NO_IGNORED = "--ignore-revs-file="
"""Also without the file that the repository's settings may name: Git fails if it is missing."""
_IGNORED_REVISIONS = ".git-blame-ignore-revs"


class Git:
    """Runs Git in a directory of a working tree."""

    def __init__(self, root: str) -> None:
        self.root = root

    def run(
        self,
        *args: str,
        timeout_s: float = _TIMEOUT_S,
        stdin: bytes = b"",
        max_bytes: int = _MAX_OUTPUT_BYTES,
        objects: str = "",
        ok_statuses: Sequence[int] = (0,),
    ) -> bytes | None:
        """Return the output of a command.

        Return None if Git is missing, the directory is not a repository or has another owner, or the command failed,
        took longer than `timeout_s`, or printed more than `max_bytes`. `objects` is a directory for new objects
        (`merge-tree` writes some), so that the repository does not change; its own objects are still found.
        `ok_statuses` are exit statuses that are not failures (`grep` exits with 1 if nothing matches).
        """
        environment = clean_environment(os.environ, _KEPT_VARIABLES) | _SAFE_VARIABLES
        if objects:
            own = self.run("rev-parse", "--path-format=absolute", "--git-path", "objects")
            if own is None:
                return None
            environment["GIT_OBJECT_DIRECTORY"] = objects
            environment["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = os.fsdecode(own).rstrip("\n")
        safe = ("--no-ext-diff", "--no-textconv") if args[0] in _DIFF_COMMANDS else ()
        words = [*_SAFE_OPTIONS, args[0], *safe, *args[1:]]
        try:
            done = run_git(words, environment, cwd=self.root, stdin=stdin, timeout_s=timeout_s, max_bytes=max_bytes)
        except (OSError, ValueError):  # no Git, no such directory, a NUL in a name
            return None
        return done.output if done.status in ok_statuses else None

    def run_text(self, *args: str, timeout_s: float = _TIMEOUT_S) -> str | None:
        """Return the output of a command as text without the last line break; None as in `run`."""
        output = self.run(*args, timeout_s=timeout_s)
        return None if output is None else os.fsdecode(output).removesuffix("\n")

    def files(self, only: Sequence[str] = ()) -> list[str] | None:
        """Return all files below the root that are tracked, or new and not ignored, sorted; None without Git.

        `only` limits the list to some files and folders, and excludes submodules. Otherwise files of checked-out
        submodules are included. Other nested repositories, such as linked worktrees, never are: each is a separate
        working tree. A tracked file that was deleted is included.
        """
        paths: set[str] = set()
        pending = [(self, "")]
        while pending:
            git, prefix = pending.pop()
            tracked = git.list_files("--stage", "--cached", only=only)  # an unmerged file is listed several times
            if tracked is None:
                if git is self:
                    return None
                continue  # a submodule that was never fetched, or has another owner
            new = git.list_files("--others", "--exclude-standard", only=only) or []
            entries = [entry.partition("\t") for entry in tracked]
            submodules = [name for head, _, name in entries if head.startswith(_GITLINK)]
            files = [name for head, _, name in entries if not head.startswith(_GITLINK)]
            files += [name for name in new if not name.endswith("/")]  # with a slash it is a nested repository
            paths.update(prefix + name for name in files)
            for name in () if only else submodules:
                submodule = Path(git.root, name)
                if (submodule / ".git").exists() and not submodule.is_symlink():
                    pending.append((Git(str(submodule)), f"{prefix}{name}/"))
        return sorted(paths)

    def list_files(self, *options: str, only: Sequence[str]) -> list[str] | None:
        """Return the names, or entries, that `ls-files` prints for this repository alone."""
        words = ("ls-files", "-z", *options, "--", *only)
        return _split_names(self.run(*words, timeout_s=_LIST_TIMEOUT_S, max_bytes=_MAX_LIST_BYTES))

    def blame(self, name: str, line: int, *, timeout_s: float = _TIMEOUT_S) -> BlamedLine | None:
        """Return the commit that wrote a line of a file of the working tree; None if Git cannot say.

        Renames, lines moved or copied from files of the same commit, and changes of white space are followed, and commits that the
        repository's `.git-blame-ignore-revs` lists are passed over. A slow search is repeated without the moves.
        """
        words, place = ("--porcelain", "-w", f"-L{line},{line}"), ("--", name)
        root = find_worktree(self.root)[1]
        listed = Path(root, _IGNORED_REVISIONS)
        skip = (f"--ignore-revs-file={listed}",) if listed.is_file() else ()
        for options in dict.fromkeys((("-M", "-C", *skip), ("-M", "-C", _NO_IGNORED), (_NO_IGNORED,))):
            output = self.run("blame", *words, *options, *place, timeout_s=timeout_s)
            if output is not None:
                return _parse_blame(output, root)
        return None

    def words_of(self, commit: str, notes: Sequence[str]) -> tuple[str, str] | None:
        """Return the trailers of a commit, one a line, and its notes below `refs/notes/`. They are the repository's words."""
        refs = (f"--notes={name}" for name in notes)
        found = self.run("log", "-1", "--format=%(trailers:only,unfold)%x00%N", *refs, commit, max_bytes=1 << 20)
        trailers, _, note = (found or b"").decode("utf-8", "replace").partition("\0")
        return None if found is None else (trailers, note)

    def last_change(self, revision: str, path: str) -> int:
        """Return when the last commit up to a revision was made that changed a file of its root; 0 if there is none."""
        found = self.run_text("log", "-1", "--format=%at", revision, "--", path, timeout_s=_CHANGE_S)
        return int(found) if found and found.isdigit() else 0

    def head(self) -> str:
        """Return the full id of the checked-out commit; empty if there is none."""
        return self.run_text("rev-parse", "--verify", "--quiet", "HEAD^{commit}") or ""

    def is_shallow(self) -> bool:
        """Return True for a shallow clone: a commit that is missing may still exist."""
        return self.run_text("rev-parse", "--is-shallow-repository") == "true"


class BlamedLine(NamedTuple):
    """A line of the working tree, and the commit that wrote it. Names, subject and path are the repository's words."""

    commit: str
    """Full id; empty if the line is not committed."""
    path: str
    """Path in that commit, from the repository's root."""
    number: int
    """Number of the line in that commit."""
    author: str
    email: str
    authored: int
    """Seconds since 1970."""
    subject: str
    root: str
    """The working tree: of a submodule its own."""


def _parse_blame(output: bytes, root: str) -> BlamedLine | None:
    first, _, rest = output.decode("utf-8", "replace").partition("\n")
    commit, *numbers = first.split(" ")
    fields = dict(line.partition(" ")[::2] for line in rest.split("\n") if not line.startswith("\t"))
    if len(numbers) < 2 or "filename" not in fields:
        return None
    return BlamedLine(
        "" if set(commit) == {"0"} else commit,
        fields["filename"],
        int(numbers[0]),
        fields.get("author", ""),
        fields.get("author-mail", "").strip("<>"),
        int(fields.get("author-time", 0)),
        fields.get("summary", ""),
        root,
    )


class GitResult(NamedTuple):
    """What a Git process printed."""

    status: int | None
    """None if it was killed, because it took too long or printed too much."""
    output: bytes
    errors: bytes

    @property
    def error_text(self) -> str:
        return self.errors.decode("utf-8", "replace").strip()


def clean_environment(environment: Mapping[str, str], kept: Collection[str]) -> dict[str, str]:
    """Return an environment in which Git asks nothing, and is directed by no variable of a surrounding Git command."""
    own = {name: value for name, value in environment.items() if not name.startswith("GIT_") or name in kept}
    return own | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}


def run_git(
    words: Sequence[str],
    environment: Mapping[str, str],
    *,
    cwd: str | None = None,
    stdin: bytes = b"",
    timeout_s: float = _TIMEOUT_S,
    max_bytes: int = _MAX_OUTPUT_BYTES,
) -> GitResult:
    """Run Git and return what it printed; kill it if it takes too long or prints too much. Raise OSError without Git."""
    child = subprocess.Popen(
        ["git", *words],
        cwd=cwd,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # the terminal's signals are not for it
    )
    errors: list[bytes] = []
    is_killed = Event()

    def kill() -> None:
        is_killed.set()
        with suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)  # with the programs that it started

    def write() -> None:
        with suppress(OSError), _open(child.stdin) as stream:  # it may not read everything
            stream.write(stdin)

    timer = Timer(timeout_s, kill)
    reader = Thread(target=lambda: errors.append(_open(child.stderr).read(max_bytes)), daemon=True)
    helpers = [timer, Thread(target=write, daemon=True), reader]
    for thread in helpers:
        thread.start()
    try:
        output = _open(child.stdout).read(max_bytes + 1)
        if len(output) > max_bytes:
            kill()
        for thread in helpers[1:]:
            thread.join()
        child.wait()
    finally:
        timer.cancel()
        if child.poll() is None:
            kill()
        with child:
            pass
    return GitResult(None, b"", b"") if is_killed.is_set() else GitResult(child.returncode, output, errors[0])


def _open(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


_HEX = frozenset("0123456789abcdef")
_MIN_ID_LENGTH = 7
_MAX_BLOB_BYTES = 2 << 20
"""Larger files are not read from the history."""
_MAX_RENAMES = 100_000
_SIMILARITY = "-M50%"
_RENAME_OPTIONS = ("--name-status", "-z", "--diff-filter=R", _SIMILARITY)
_MAX_DESCENDANTS = 20
_MAX_REFLOG = 200
_UNSET_ATTRIBUTES = frozenset({b"unspecified", b"unset"})
_IDENTITY_OPTIONS = ("-c", "user.name=lorelog", "-c", "user.email=lorelog@localhost", "-c", "commit.gpgSign=false")


class GitHistory:
    """Queries on the history of a working tree. `remaining_s` returns the timeout of the next command."""

    def __init__(self, git: Git, *, remaining_s: Callable[[], float] = lambda: 10.0) -> None:
        self._git = git
        self._remaining_s = remaining_s

    def commit(self, prefix: str) -> str | None:
        """Return the full id of a commit; empty if no commit, or more than one, has the prefix; None without answer."""
        if len(prefix) < _MIN_ID_LENGTH or not set(prefix) <= _HEX:
            return ""
        return self._text("rev-parse", "--verify", "--quiet", f"{prefix}^{{commit}}", ok_statuses=(0, 1))

    def commit_before(self, moment: str) -> str | None:
        """Return the last commit of this branch before a moment (ISO, with its time zone); empty if there is none."""
        found = self._text("rev-list", "-1", f"--before={moment}", "HEAD", "--")
        if found is None:  # this branch may have no commit yet
            return self._text("rev-parse", "--verify", "--quiet", "HEAD^{commit}", ok_statuses=(1,))
        return found

    def files(self, commit: str, only: Sequence[str] = ()) -> Mapping[str, str] | None:
        """Return the files of a commit, or some of them, with the ids of their contents, without links and submodules."""
        output = self._run("ls-tree", "-r", "-z", "--full-tree", commit, "--", *only)
        if output is None:
            return None
        files: dict[str, str] = {}
        for entry in output.split(b"\0"):
            head, _, name = entry.partition(b"\t")
            mode, _, rest = head.partition(b" ")
            if name and mode.startswith(b"100"):
                files[os.fsdecode(name)] = rest.rpartition(b" ")[2].decode("ascii")
        return files

    def contents(self, ids: Iterable[str]) -> dict[str, bytes] | None:
        """Return contents by id, without those that are missing or too large; None if Git gave no answer."""
        stdin = "".join(f"{id_}\n" for id_ in dict.fromkeys(ids)).encode("ascii")
        check = "--batch-check=%(objecttype) %(objectsize) %(objectname)"
        output = self._run("cat-file", check, stdin=stdin) if stdin else b""
        if output is None:
            return None
        blobs = (line.split(b" ") for line in output.splitlines() if line.startswith(b"blob "))
        stdin = b"".join(name + b"\n" for _, size, name in blobs if int(size) <= _MAX_BLOB_BYTES)
        output = self._run("cat-file", "--batch", stdin=stdin) if stdin else b""
        return None if output is None else _parse_batch(output)

    def lines_with(self, commit: str, words: Sequence[str]) -> list[tuple[str, bytes]] | None:
        """Return the lines of a commit that contain one of some words, with their files. There is no other limit than
        the size of an answer; an answer that is cut is None.
        """
        if not words:
            return []
        patterns = [part for word in words for part in ("-e", word)]
        output = self._grep("--full-name", *patterns, commit, "--")
        if output is None:
            return None
        prefix = len(commit) + 1
        entries = (line.partition(b"\0") for line in output.split(b"\n"))
        return [(os.fsdecode(name[prefix:]), text) for name, zero, text in entries if zero]

    def files_with_now(self, word: str) -> list[str] | None:
        """Return the files of the working tree that contain a word, without ignored files."""
        return _split_names(self._grep("-l", "--untracked", "--full-name", "-e", word, "--"))

    def files_now(self) -> list[str] | None:
        """Return the files of the working tree, without ignored files."""
        return _split_names(self._run("ls-files", "-z", "--cached", "--others", "--exclude-standard"))

    def sparse_files(self) -> frozenset[str] | None:
        """Return the tracked files that a sparse checkout leaves out of the working tree."""
        names = _split_names(self._run("ls-files", "-z", "-t", "--cached"))
        return None if names is None else frozenset(name[2:] for name in names if name.startswith("S "))

    def renames(self, commit: str) -> Mapping[str, str] | None:
        """Return the current names of renamed files of a commit, including staged renames.

        This is one comparison of two trees. Files that were renamed and rewritten step by step are found by
        `renames_by_steps`.
        """
        output = self._run("diff", "--cached", *_RENAME_OPTIONS, commit, "--")
        return None if output is None else dict(_rename_pairs(output))

    def renames_by_steps(self, commit: str) -> Mapping[str, str] | None:
        """Return the current names of renamed files of a commit, followed commit by commit. This can take long."""
        steps = self._run("log", "--no-merges", "--reverse", "--format=", *_RENAME_OPTIONS, f"{commit}..HEAD", "--")
        staged = None if steps is None else self._run("diff", "--cached", *_RENAME_OPTIONS, "HEAD", "--")
        if staged is None:
            return None
        current_names: dict[str, str] = {}
        original_names: dict[str, str] = {}
        for before, after in (*_rename_pairs(steps), *_rename_pairs(staged)):
            if before in current_names and before not in original_names:
                continue  # a new file with the name of one that was renamed before
            original = original_names.pop(before, before)
            current_names[original] = after
            original_names[after] = original
            if len(current_names) > _MAX_RENAMES:
                break
        return {before: after for before, after in current_names.items() if before != after}

    def is_filtered(self, path: str) -> bool | None:
        """Return True if a file differs from its history by design: filters (LFS), encodings, keywords."""
        output = self._run("check-attr", "-z", "filter", "ident", "working-tree-encoding", "--", path)
        return None if output is None else any(value not in _UNSET_ATTRIBUTES for value in output.split(b"\0")[2::3])

    def content_now(self, path: str) -> str | None:
        """Return the id of a file's staged, else committed, content; empty if the file is not tracked."""
        output = self._run("ls-files", "-z", "--stage", "--", path)
        return None if output is None else output.partition(b"\t")[0].split(b" ")[1].decode("ascii") if output else ""

    def is_staged_otherwise(self, path: str) -> bool | None:
        """Return whether the staged content of a file differs from that of HEAD, or only one of them has the file."""
        committed = self._run("ls-tree", "-z", "--full-tree", "HEAD", "--", path)
        staged = None if committed is None else self._run("ls-files", "-z", "--stage", "--", path)
        if committed is None or staged is None:
            return None
        return _object_ids(committed, 2) != _object_ids(staged, 1)

    def has_known(self, path: str) -> bool | None:
        """Return whether HEAD or one of its ancestors has, or had, a file or folder."""
        output = self._run("rev-list", "-1", "HEAD", "--", path)
        return None if output is None else bool(output.strip())

    def is_merged(self, commit: str, head: str = "HEAD") -> bool | None:
        """Return whether a commit is part of another one: by a merge, commit by commit, or squashed.

        Return None if that is unknown: the commit is missing (a shallow clone, a branch that was never fetched, or
        garbage collection).
        """
        full_id = self.commit(commit)
        if not full_id:
            return None
        base = self._text("merge-base", head, full_id, ok_statuses=(0, 1))
        if not base:  # no common history, as far as it was fetched
            return None if base is None or self._git.is_shallow() else False
        if base == full_id:
            return True
        # A squash merge contains the branch as it was at its end, so later commits of the branch count as well.
        results: set[bool | None] = set()
        for candidate in (full_id, *self._descendants(full_id)):
            results.add(self._is_content_merged(candidate, head))
            if True in results:
                return True
        return None if None in results else False

    def _is_content_merged(self, commit: str, head: str) -> bool | None:
        """Return whether `head` has the changes of a commit: one by one, squashed, or because a merge changes nothing."""
        unmerged = self._count_unmerged(commit, head)
        if unmerged is None or unmerged == "0":
            return None if unmerged is None else True
        base = self._text("merge-base", head, commit)
        if not base:
            return None
        import tempfile

        with tempfile.TemporaryDirectory(prefix="lorelog-") as objects:
            words = ("commit-tree", "-p", base, "-m", "all at once", f"{commit}^{{tree}}")
            squashed = self._text(*_IDENTITY_OPTIONS, *words, objects=objects)
            if squashed is None:
                return None
            unmerged = self._count_unmerged(squashed, head, objects)
            return True if unmerged == "0" else self._is_merge_empty(commit, head, objects)

    def _count_unmerged(self, commit: str, head: str, objects: str = "") -> str | None:
        """Return the number of commits of a branch whose change no commit of `head` makes."""
        options = ("--cherry-pick", "--right-only", "--no-merges", "--count")
        return self._text("rev-list", *options, f"{head}...{commit}", "--", objects=objects)

    def _is_merge_empty(self, commit: str, head: str, objects: str) -> bool | None:
        """Return whether merging a commit would change nothing."""
        drivers = self._text("config", "--name-only", "--get-regexp", r"^merge\..*\.driver$", ok_statuses=(0, 1))
        head_tree = self._text("rev-parse", "--verify", "--quiet", f"{head}^{{tree}}")
        if drivers != "" or not head_tree:  # a merge would run the drivers
            return False if head_tree and drivers else None
        merged = self._text("merge-tree", "--write-tree", head, commit, objects=objects, ok_statuses=(0, 1))
        return None if merged is None else merged.partition("\n")[0] == head_tree

    def _descendants(self, commit: str) -> list[str]:
        """Return commits that are based on a commit: tips of branches, and earlier checkouts from the reflog."""
        options = ("--format=%(objectname)", f"--contains={commit}", f"--count={_MAX_DESCENDANTS}")
        refs = self._text("for-each-ref", *options)
        logged = self._text("rev-list", "--walk-reflogs", f"--max-count={_MAX_REFLOG}", "HEAD", "--") or ""
        based = self._text("rev-list", "--ancestry-path", f"^{commit}", *dict.fromkeys(logged.split()), "--") or ""
        descendants = set(based.split())
        candidates = [*(refs or "").split(), *(id_ for id_ in logged.split() if id_ in descendants)]
        return [id_ for id_ in dict.fromkeys(candidates) if id_ != commit][:_MAX_DESCENDANTS]

    def _grep(self, *args: str) -> bytes | None:
        words = ("-c", "submodule.recurse=false", "grep", "-z", "-w", "-F", "-I", *args)
        return self._run(*words, ok_statuses=(0, 1))

    def _run(
        self, *args: str, stdin: bytes = b"", objects: str = "", ok_statuses: Sequence[int] = (0,)
    ) -> bytes | None:
        timeout_s = self._remaining_s()
        return self._git.run(*args, timeout_s=timeout_s, stdin=stdin, objects=objects, ok_statuses=ok_statuses)

    def _text(self, *args: str, objects: str = "", ok_statuses: Sequence[int] = (0,)) -> str | None:
        output = self._run(*args, objects=objects, ok_statuses=ok_statuses)
        return None if output is None else os.fsdecode(output).strip()


def _split_names(output: bytes | None) -> list[str] | None:
    return None if output is None else [os.fsdecode(name) for name in output.split(b"\0") if name]


def _object_ids(entries: bytes, field: int) -> set[bytes]:
    """Return the ids in the entries of `ls-tree` or `ls-files --stage`."""
    return {entry.partition(b"\t")[0].split(b" ")[field] for entry in entries.split(b"\0") if entry}


def _rename_pairs(output: bytes | None) -> list[tuple[str, str]]:
    """Parse old and new names from the output of `--name-status -z`."""
    parts = (os.fsdecode(part.lstrip(b"\n")) for part in (output or b"").split(b"\0"))
    pairs = [(next(parts, ""), next(parts, "")) for part in parts if part.startswith("R")]
    return [pair for pair in pairs if all(pair)]


def _parse_batch(output: bytes) -> dict[str, bytes]:
    """Parse the contents from the output of `cat-file --batch`."""
    contents: dict[str, bytes] = {}
    offset = 0
    while offset < len(output):
        end = output.find(b"\n", offset)
        header = output[offset:end].split(b" ")
        offset = end + 1
        if end < 0:
            break
        if len(header) == 3 and header[2].isdigit():
            size = int(header[2])
            contents[header[0].decode("ascii")] = output[offset : offset + size]
            offset += size + 1
    return contents
