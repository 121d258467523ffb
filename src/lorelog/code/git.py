"""Asking Git about a working tree, read-only and safely: whatever a repository's configuration says, no program of its choice runs.

A repository may be a stranger's. Git refuses those of other owners by itself (`safe.directory`), and that stands. For the rest
everything that can start a program or a connection is switched off here: hooks, file system monitors, pagers, external diffs and text
conversions, signature checks, lazy fetching of what a partial clone left out. Variables of the caller that lead Git elsewhere
(`GIT_DIR` inside a hook) are not handed on. Whatever goes wrong, the answer is None: everybody who asks can do without Git.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_SAFE = (
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
_SHOWS_FILES = frozenset({"diff", "diff-files", "diff-index", "diff-tree", "log", "show", "whatchanged"})
"""Commands that would convert files by a program that the repository's attributes name."""
_KEPT = frozenset(
    {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_CEILING_DIRECTORIES"},
)
"""Variables by which a person says where their own settings are; `safe.directory` is one of them."""
_TIMEOUT_S = 10.0
_LISTING_S = 120.0
_MOST_BYTES = 64 << 20
_LISTED_BYTES = 512 << 20
_PIECE = 1 << 16
_GITLINK = b"160000"


class Git:
    """The repository that a directory lies in, asked from there."""

    def __init__(self, root: str) -> None:
        self.root = root

    def run(
        self,
        *args: str,
        timeout_s: float = _TIMEOUT_S,
        stdin: bytes = b"",
        most_bytes: int = _MOST_BYTES,
        objects: str = "",
        fine: Sequence[int] = (0,),
    ) -> bytes | None:
        """Return what a command prints, paths relative to `root` where Git does so.

        None where there is no Git, no repository, one of another owner, or the command failed, took longer than
        `timeout_s`, or printed more than `most_bytes`. `objects`: a directory for objects that the command makes
        (`merge-tree` does), so that the repository stays as it is; those of the repository are still found. `fine`: exit
        statuses that are an answer (`grep` has 1 for nothing found).
        """
        words = ["git", *_SAFE, *_guarded(args)]
        environment = _environment()
        if objects:
            own = self.run("rev-parse", "--path-format=absolute", "--git-path", "objects")
            if own is None:
                return None
            environment["GIT_OBJECT_DIRECTORY"] = objects
            environment["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = os.fsdecode(own).rstrip("\n")
        try:
            child = subprocess.Popen(
                words,
                cwd=self.root,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # what is typed at the terminal is not for it
            )
        except (OSError, ValueError):  # no Git, no such directory, a NUL in a name
            return None
        said = _outcome(child, stdin, timeout_s, most_bytes)
        return said if child.returncode in fine else None

    def ask(self, *args: str, timeout_s: float = _TIMEOUT_S) -> str | None:
        """Return what a command prints as text without the last line's end; None as `run` does."""
        said = self.run(*args, timeout_s=timeout_s)
        return None if said is None else os.fsdecode(said).removesuffix("\n")

    def files(self, only: Sequence[str] = ()) -> list[str] | None:
        """Return all files below `root` that are tracked, or new and not ignored, relative to it and sorted; None without Git.

        `only`: some files and folders alone, and none of submodules. Otherwise those of submodules that are there are among them.
        Other repositories inside (linked worktrees, say) never are: each is a working tree of its own. A file that is tracked and
        gone is among them; whoever wants to read it will see.
        """
        found: set[str] = set()
        waiting = [(self, "")]
        while waiting:
            git, prefix = waiting.pop()
            listed = git._list(only)  # noqa: SLF001
            if listed is None:
                if git is self:
                    return None
                continue  # a submodule that was never fetched, or is of another owner
            files, submodules = listed
            found.update(prefix + name for name in files)
            for name in () if only else submodules:
                below = Path(git.root, name)
                if (below / ".git").exists() and not below.is_symlink():
                    waiting.append((Git(str(below)), f"{prefix}{name}/"))
        return sorted(found)

    def head(self) -> str:
        """Return the whole id of the commit that is checked out, on a branch or detached; empty where there is none."""
        return self.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}") or ""

    def is_shallow(self) -> bool:
        """Say whether the history was cut off when it was cloned: then a commit that is not there may have been."""
        return self.ask("rev-parse", "--is-shallow-repository") == "true"

    def _list(self, only: Sequence[str]) -> tuple[list[str], list[str]] | None:
        """Return files and submodules of this repository."""

        def listed(*options: str) -> bytes | None:
            words = ("ls-files", "-z", *options, "--", *only)
            return self.run(*words, timeout_s=_LISTING_S, most_bytes=_LISTED_BYTES)

        # Unmerged files are listed once a side; whoever gets them puts them into a set.
        tracked = listed("--stage", "--cached")
        if tracked is None:
            return None
        new = listed("--others", "--exclude-standard")
        files: list[str] = []
        submodules: list[str] = []
        for entry in tracked.split(b"\0"):
            head, _, name = entry.partition(b"\t")
            if name:
                (submodules if head.startswith(_GITLINK) else files).append(os.fsdecode(name))
        # A name that ends in a stroke is a repository of its own.
        files += [os.fsdecode(name) for name in (new or b"").split(b"\0") if name and not name.endswith(b"/")]
        return files, submodules


def _guarded(args: tuple[str, ...]) -> tuple[str, ...]:
    if args and args[0] in _SHOWS_FILES:
        return (args[0], "--no-ext-diff", "--no-textconv", *args[1:])
    return args


def _environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _KEPT}
    return own | {
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_PAGER": "cat",
        "GIT_ASKPASS": "",
        "GIT_ATTR_NOSYSTEM": "1",
    }


def _outcome(child: subprocess.Popen[bytes], stdin: bytes, timeout_s: float, most_bytes: int) -> bytes | None:
    """Feed a process, read what it prints, and end it when it takes too long or prints too much."""
    said: list[bytes] | None = None
    try:
        said = _read(child, memoryview(stdin), time.monotonic() + timeout_s, most_bytes)
        if said is not None:
            child.wait(timeout=timeout_s)
    except (OSError, subprocess.TimeoutExpired):
        said = None
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        for stream in (child.stdin, child.stdout):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
    return None if said is None else b"".join(said)


def _read(child: subprocess.Popen[bytes], stdin: memoryview, deadline: float, most: int) -> list[bytes] | None:
    assert child.stdin is not None  # noqa: S101
    assert child.stdout is not None  # noqa: S101
    pieces: list[bytes] = []
    size = 0
    with selectors.DefaultSelector() as ready:
        ready.register(child.stdout, selectors.EVENT_READ)
        if stdin:
            os.set_blocking(child.stdin.fileno(), False)
            ready.register(child.stdin, selectors.EVENT_WRITE)
        else:
            child.stdin.close()
        while ready.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            for key, _ in ready.select(left):
                if key.fileobj is child.stdin:
                    with suppress(BrokenPipeError):  # it has read enough
                        stdin = stdin[os.write(key.fd, stdin[:_PIECE]) :]
                        if stdin:
                            continue
                    ready.unregister(child.stdin)
                    child.stdin.close()
                elif piece := os.read(key.fd, _PIECE):
                    pieces.append(piece)
                    size += len(piece)
                    if size > most:
                        return None
                else:
                    ready.unregister(child.stdout)
    return pieces
