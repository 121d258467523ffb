"""Reads files and history of a git repository without a work tree, as `git clone --bare` leaves it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

MAX_FILE_BYTES = 4_200_000


class Repository:
    """A bare repository, or a clone with a `.git` folder."""

    def __init__(self, folder: Path) -> None:
        self.git = folder / ".git" if (folder / ".git").is_dir() else folder

    @classmethod
    def find(cls, mirrors: Path, name: str) -> Repository | None:
        """Return the clone of `owner/name` below a folder of clones, or None."""
        folder = mirrors / name.replace("/", "+")
        for candidate in (folder / "repo", folder):
            if candidate.is_dir():
                return cls(candidate)
        return None

    def paths(self, pattern: str) -> list[str]:
        """Return the paths of the newest commit that a regular expression finds, sorted."""
        listed = self._git("ls-tree", "-r", "-z", "--name-only", "HEAD").decode("utf-8", "replace")
        return sorted(filter(re.compile(pattern).search, listed.split("\0")))

    def texts(self, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield path and text of each file. Files that are absent or too large are left out."""
        for path, content in self.contents(paths):
            yield path, content.decode("utf-8", "replace")

    def contents(self, paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        if not paths:
            return
        with subprocess.Popen(
            ["git", f"--git-dir={self.git}", "cat-file", "--batch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            if process.stdin is None or process.stdout is None:
                raise RuntimeError("git was started without pipes")
            for path in paths:
                if "\n" in path:
                    continue
                process.stdin.write(f"HEAD:{path}\n".encode())
                process.stdin.flush()
                head = process.stdout.readline().split()
                if not head:
                    return
                if head[-1] == b"missing" or len(head) != 3:
                    continue
                size = int(head[2])
                content = process.stdout.read(size + 1)[:size]
                if size <= MAX_FILE_BYTES:
                    yield path, content

    def commits(self, limit: int) -> Iterator[tuple[str, str, str]]:
        """Yield subject, body and shortened patch of the newest commits that are no merges."""
        command = [
            "git",
            f"--git-dir={self.git}",
            "log",
            "--no-merges",
            f"-n{limit}",
            "-p",
            "--unified=1",
            "--no-color",
        ]
        command += ["--no-renames", "--no-ext-diff", "--format=%x1e%s%x1f%b%x1f"]
        command += ["HEAD", "--", ".", ":!*.lock", ":!*.json", ":!*.svg", ":!*.po", ":!*.min.*", ":!*.snap"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            if process.stdout is None:
                raise RuntimeError("git was started without a pipe")
            entry: list[bytes] = []
            size = 0
            for line in process.stdout:
                if line.startswith(b"\x1e"):
                    if entry:
                        yield _commit(b"".join(entry))
                    entry, size = [], 0
                if size < 12_000:  # a patch of a megabyte says no more than its beginning
                    entry.append(line[:400])
                    size += len(entry[-1])
            if entry:
                yield _commit(b"".join(entry))

    def _git(self, *arguments: str) -> bytes:
        return subprocess.run(["git", f"--git-dir={self.git}", *arguments], check=True, stdout=subprocess.PIPE).stdout


def _commit(entry: bytes) -> tuple[str, str, str]:
    subject, _, rest = entry.decode("utf-8", "replace").lstrip("\x1e").partition("\x1f")
    body, _, patch = rest.partition("\x1f")
    kept = [line for line in patch.split("\n") if not line.startswith(("index ", "--- ", "new file", "deleted file"))]
    return subject.strip(), body.strip(), "\n".join(kept).strip()
