"""What Git remembers of a working tree: how files were, what they are called now, and whether a commit has come in.

Every question is one Git process, at most a few; whoever asks keeps the answers. Where Git cannot tell, or takes too long, nothing
is guessed: None is not the same as nothing. No question has Git read files of the working tree through the filters, or merge
by the drivers, that a repository may name: those are programs of its choice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from lorelog.code.git import Git

_HEX = frozenset("0123456789abcdef")
_LEAST_ID = 7
_MOST_FILES = 200_000
_MOST_BLOB = 2 << 20
"""Larger files are not read out of history."""
_MOST_RENAMES = 100_000
_SIMILAR = "-M50%"
_RENAMED = ("--name-status", "-z", "--diff-filter=R", _SIMILAR)
_MOST_DESCENDANTS = 20
_MOST_LOGGED = 200
_UNSET = frozenset({b"unspecified", b"unset"})
_NOBODY = ("-c", "user.name=lorelog", "-c", "user.email=lorelog@localhost", "-c", "commit.gpgSign=false")


class History:
    """The history that a working tree stands on."""

    def __init__(self, git: Git, *, left_s: Callable[[], float] = lambda: 10.0) -> None:
        # `left_s`: how long the next question may take.
        self._git = git
        self._left_s = left_s

    def commit(self, given: str) -> str:
        """Return the whole id of a commit that is given by its first letters; empty where there is none, or several."""
        if len(given) < _LEAST_ID or not set(given) <= _HEX:
            return ""
        return self._ask("rev-parse", "--verify", "--quiet", f"{given}^{{commit}}") or ""

    def commit_before(self, moment: str) -> str:
        """Return the last commit of this branch that was made by a moment (ISO, with its zone); empty where there is none."""
        return self._ask("rev-list", "-1", f"--before={moment}", "HEAD", "--") or ""

    def files(self, commit: str) -> Mapping[str, str]:
        """Return the files of a commit, with the ids of their contents. Links and submodules are left out."""
        said = self._run("ls-tree", "-r", "-z", "--full-tree", commit)
        files: dict[str, str] = {}
        for entry in (said or b"").split(b"\0"):
            head, _, name = entry.partition(b"\t")
            mode, _, rest = head.partition(b" ")
            if name and mode.startswith(b"100") and len(files) < _MOST_FILES:
                files[os.fsdecode(name)] = rest.rpartition(b" ")[2].decode("ascii")
        return files

    def contents(self, ids: Iterable[str]) -> dict[str, bytes]:
        """Return contents by their ids; what is not there or too large is left out."""
        wanted = list(dict.fromkeys(ids))
        if not wanted:
            return {}
        lines = "".join(f"{one}\n" for one in wanted).encode("ascii")
        sizes = self._run("cat-file", "--batch-check=%(objecttype) %(objectsize) %(objectname)", stdin=lines) or b""
        told = (line.split(b" ") for line in sizes.splitlines() if line.startswith(b"blob "))
        small = [name.decode("ascii") for _, size, name in told if int(size) <= _MOST_BLOB]
        if not small:
            return {}
        said = self._run("cat-file", "--batch", stdin="".join(f"{one}\n" for one in small).encode("ascii")) or b""
        return _parted(said)

    def files_with(self, commit: str, words: Sequence[str]) -> list[str]:
        """Return the files of a commit in which one of these words stands, as a word."""
        if not words:
            return []
        patterns = [part for word in words for part in ("-e", word)]
        said = self._grep("--full-name", *patterns, commit, "--")
        prefix = f"{commit}:"
        return [os.fsdecode(one).removeprefix(prefix) for one in (said or b"").split(b"\0") if one]

    def files_with_now(self, word: str) -> list[str] | None:
        """Return the files of the working tree in which a word stands; those that Git ignores are left out."""
        return _names(self._grep("--untracked", "--full-name", "-e", word, "--"))

    def files_now(self) -> list[str] | None:
        """Return the files of the working tree, but those that Git ignores."""
        return _names(self._run("ls-files", "-z", "--cached", "--others", "--exclude-standard"))

    def left_out(self) -> frozenset[str] | None:
        """Return the files that are tracked and kept out of the working tree (a sparse checkout)."""
        said = _names(self._run("ls-files", "-z", "-t", "--cached"))
        return None if said is None else frozenset(one[2:] for one in said if one.startswith("S "))

    def renames(self, commit: str) -> Mapping[str, str] | None:
        """Return what files of a commit are called now, as far as they still look alike; what is staged counts.

        One look, whatever lies between. What was renamed and rewritten bit by bit is for `renames_by_steps` to find.
        """
        said = self._run("diff", "--cached", *_RENAMED, commit, "--")
        return None if said is None else dict(_pairs(said))

    def renames_by_steps(self, commit: str) -> Mapping[str, str] | None:
        """Return what files of a commit are called now, commit by commit, and then by what is staged. This can take long."""
        steps = self._run("log", "--no-merges", "--reverse", "--format=", *_RENAMED, f"{commit}..HEAD", "--")
        staged = None if steps is None else self._run("diff", "--cached", *_RENAMED, "HEAD", "--")
        if staged is None:
            return None
        now: dict[str, str] = {}
        came: dict[str, str] = {}
        for before, after in (*_pairs(steps), *_pairs(staged)):
            if before in now and before not in came:
                continue  # a new file that took the name of one that had left
            first = came.pop(before, before)
            now[first] = after
            came[after] = first
            if len(now) > _MOST_RENAMES:
                break
        return {before: after for before, after in now.items() if before != after}

    def is_filtered(self, path: str) -> bool | None:
        """Say whether a file lies in the working tree in another form than in the history: filters (LFS), encodings, keywords."""
        said = self._run("check-attr", "-z", "filter", "ident", "working-tree-encoding", "--", path)
        return None if said is None else any(one not in _UNSET for one in said.split(b"\0")[2::3])

    def content_now(self, path: str) -> str | None:
        """Return the id of what is staged, or else committed, of a file; empty for a file that is not tracked."""
        said = self._run("ls-files", "-z", "--stage", "--", path)
        return None if said is None else said.partition(b"\t")[0].split(b" ")[1].decode("ascii") if said else ""

    def is_merged(self, commit: str) -> bool | None:
        """Say whether a commit has come into what is checked out: by a merge, commit by commit, or all at once (squashed).

        None where that cannot be told: the commit is not there (a shallow clone, a branch that was never fetched, collected).
        """
        whole = self.commit(commit)
        if not whole:
            return None
        base = self._git.run("merge-base", "HEAD", whole, timeout_s=self._left_s(), fine=(0, 1))
        if not base:  # no history in common, as far as it is here
            return None if base is None or self._git.is_shallow() else False
        if base.decode("ascii", "replace").strip() == whole:
            return True
        # What came after it on its branch tells as much, and more: squashed, the branch came in as it was at its end.
        told: set[bool | None] = set()
        for one in (whole, *self._descendants(whole)):
            told.add(self._came_in(one))
            if True in told:
                return True
        return None if None in told else False

    def _came_in(self, commit: str) -> bool | None:
        """Say whether all that a commit brings is here: commit by commit, as one, or because a merge would change nothing."""
        unlike = self._unlike(commit)
        if unlike is None or unlike == "0":
            return None if unlike is None else True
        base = self._ask("merge-base", "HEAD", commit)
        if not base:
            return None
        import tempfile

        with tempfile.TemporaryDirectory(prefix="lorelog-") as objects:
            squashed = self._git.run(
                *_NOBODY, "commit-tree", "-p", base, "-m", "all at once", f"{commit}^{{tree}}",
                timeout_s=self._left_s(), objects=objects,
            )  # fmt: skip
            if squashed is None:
                return None
            unlike = self._unlike(squashed.decode("ascii", "replace").strip(), objects)
            return True if unlike == "0" else self._adds_nothing(commit, objects)

    def _unlike(self, commit: str, objects: str = "") -> str | None:
        """Return how many commits of a branch are not here, as far as they do what none does that is here."""
        said = self._git.run(
            "rev-list", "--cherry-pick", "--right-only", "--no-merges", "--count", f"HEAD...{commit}", "--",
            timeout_s=self._left_s(), objects=objects,
        )  # fmt: skip
        return None if said is None else said.decode("ascii", "replace").strip()

    def _adds_nothing(self, commit: str, objects: str) -> bool | None:
        """Say whether merging a commit would change nothing: then all that it brought is here already."""
        drivers = self._git.run(
            "config", "--name-only", "--get-regexp", r"^merge\..*\.driver$", timeout_s=self._left_s(), fine=(0, 1)
        )
        here = self._ask("rev-parse", "--verify", "--quiet", "HEAD^{tree}")
        if drivers != b"" or not here:  # a merge would run them
            return False if here and drivers else None
        merged = self._git.run(
            "merge-tree", "--write-tree", "HEAD", commit, timeout_s=self._left_s(), objects=objects, fine=(0, 1)
        )
        return None if merged is None else merged.split(b"\n", 1)[0].decode("ascii", "replace") == here

    def _descendants(self, commit: str) -> list[str]:
        """Return commits that were built on one: ends of branches, and what was checked out here once."""
        refs = self._ask(
            "for-each-ref", "--format=%(objectname)", f"--contains={commit}", f"--count={_MOST_DESCENDANTS}"
        )
        logged = self._ask("rev-list", "--walk-reflogs", f"--max-count={_MOST_LOGGED}", "HEAD", "--") or ""
        built = self._ask("rev-list", "--ancestry-path", f"^{commit}", *dict.fromkeys(logged.split()), "--") or ""
        known = set(built.split())
        found = [*(refs or "").split(), *(one for one in logged.split() if one in known)]
        return [one for one in dict.fromkeys(found) if one != commit][:_MOST_DESCENDANTS]

    def _grep(self, *args: str) -> bytes | None:
        words = ("-c", "submodule.recurse=false", "grep", "-l", "-z", "-w", "-F", "-I", *args)
        return self._git.run(*words, timeout_s=self._left_s(), fine=(0, 1))

    def _run(self, *args: str, stdin: bytes = b"") -> bytes | None:
        return self._git.run(*args, timeout_s=self._left_s(), stdin=stdin)

    def _ask(self, *args: str) -> str | None:
        return self._git.ask(*args, timeout_s=self._left_s())


def _names(said: bytes | None) -> list[str] | None:
    return None if said is None else [os.fsdecode(one) for one in said.split(b"\0") if one]


def _pairs(said: bytes | None) -> list[tuple[str, str]]:
    """Return old and new names of a listing by `--name-status -z`."""
    parts = [os.fsdecode(one.lstrip(b"\n")) for one in (said or b"").split(b"\0")]
    found = []
    place = 0
    while place + 2 < len(parts):
        if parts[place].startswith("R"):
            found.append((parts[place + 1], parts[place + 2]))
            place += 3
        else:
            place += 1
    return found


def _parted(said: bytes) -> dict[str, bytes]:
    """Return the contents in what `cat-file --batch` prints."""
    held: dict[str, bytes] = {}
    place = 0
    while place < len(said):
        end = said.find(b"\n", place)
        parts = said[place:end].split(b" ")
        place = end + 1
        if end < 0:
            break
        if len(parts) == 3 and parts[2].isdigit():
            size = int(parts[2])
            held[parts[0].decode("ascii")] = said[place : place + size]
            place += size + 1
    return held
