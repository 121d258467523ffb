"""Public repositories that a trial reads: bare Git directories, read with `git show`, `ls-tree` and `archive` only."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

SOURCES = ("jiayuanz3/SWEContextBench", "majiayu000/remem", "vectorize-io/sde-bench", "CataDef/LongMemCode")


class SourceMissing(Exception):
    """A repository that a part needs is not in the folder of sources."""


class GitSource:
    """One commit of a bare repository."""

    def __init__(self, folder: Path, commit: str = "HEAD") -> None:
        self.folder = folder
        self.commit = commit

    def at(self, commit: str) -> GitSource:
        """Return the same repository at another commit."""
        return GitSource(self.folder, commit)

    def has(self, commit: str) -> bool:
        """Return whether the repository contains a commit."""
        words = ["git", "-C", str(self.folder), "cat-file", "-e", f"{commit}^{{commit}}"]
        return not subprocess.run(words, capture_output=True, check=False).returncode

    def paths(self, folder: str = "") -> list[str]:
        """Return the paths of all files, below a folder if one is given."""
        words = ["ls-tree", "-r", "-z", "--name-only", self.commit]
        return [path for path in self._git(*words, *([folder] if folder else [])).decode().split("\0") if path]

    def text(self, path: str) -> str:
        return self._git("show", f"{self.commit}:{path}").decode("utf-8", "replace")

    def json(self, path: str) -> Any:
        return json.loads(self.text(path))

    def files(self, folder: str = "") -> Iterator[tuple[str, str]]:
        """Yield path and text of every regular file below a folder, by one call of Git."""
        words = ["archive", "--format=tar", self.commit, *([folder] if folder else [])]
        with tarfile.open(fileobj=BytesIO(self._git(*words))) as archive:
            for member in archive:
                stream = archive.extractfile(member) if member.isfile() else None
                if stream is not None:
                    yield member.name, stream.read().decode("utf-8", "replace")

    def check_out(self, target: Path, folder: str = "") -> None:
        """Write the files of the commit into a folder. Links are left out: they could lead elsewhere."""
        for path, text in self.files(folder):
            place = target / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, "utf-8", newline="")

    def _git(self, *words: str) -> bytes:
        command = ["git", "-C", str(self.folder), *words]
        return subprocess.run(command, capture_output=True, check=True).stdout


def find_source(sources: Path, name: str) -> GitSource:
    """Return the repository OWNER/NAME in a folder that holds it as OWNER+NAME, OWNER+NAME/repo, NAME or NAME.git."""
    owner, _, short = name.partition("/")
    for place in (f"{owner}+{short}/repo", f"{owner}+{short}", short, f"{short}.git"):
        folder = sources / place
        if (folder / "HEAD").exists() or (folder / ".git").exists():
            return GitSource(folder)
    raise SourceMissing(f"{sources} has no {name}: git clone --bare https://github.com/{name} {sources / short}")
