"""What became of the files and definitions of an old state in a new one.

A thing is `fresh`, `drifted` (changed, moved or renamed) or `gone`. Whether something that is not in its place was
moved or deleted is a question of degree: it was moved if something new is at least `SAME` alike, it is gone if nothing
new is even `OTHER` alike, and whatever is between is left out of the measurement (and counted).
"""

import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from bench.code.truth import Tooling
from bench.freshness_truth.definitions import Definition, definitions, similarity

SAME = 0.6
OTHER = 0.35
FRESH, DRIFTED, GONE, UNSURE = "fresh", "drifted", "gone", ""
CODE = (".py", ".go", ".ts", ".tsx", ".js", ".mjs", ".cjs", ".jsx")


@dataclass
class TreeState:
    """A source tree: its files with the ids of their contents, and their definitions."""

    root: Path
    blobs: Mapping[str, str]
    inside: Mapping[str, list[Definition]]

    def named(self, path: str, name: str) -> list[Definition]:
        """Return the definitions of a name in a file."""
        return [item for item in self.inside.get(path, ()) if item.name == name]


def read_state(repository: Path, commit: str, root: Path, tools: Tooling) -> TreeState:
    """Unpack a commit into a folder, and parse its code."""
    root.mkdir(parents=True)
    archive = subprocess.Popen(["git", "-C", str(repository), "archive", commit], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", str(root)], stdin=archive.stdout, check=True)
    archive.wait()
    listed = subprocess.run(
        ["git", "-C", str(repository), "ls-tree", "-r", "-z", commit], check=True, capture_output=True
    ).stdout
    blobs = {}
    for entry in listed.decode("utf-8", "surrogateescape").split("\0"):
        head, _, path = entry.partition("\t")
        if path and head.startswith("100"):
            blobs[path] = head.rpartition(" ")[2]
    code = [path for path in blobs if path.endswith(CODE) and "vendor/" not in path and "node_modules/" not in path]
    return TreeState(root, blobs, definitions(root, code, tools))


class Fates:
    """Answers what became of things between two states."""

    def __init__(self, old: TreeState, new: TreeState, followed: Mapping[str, str]) -> None:
        self.old, self.new = old, new
        self._followed = followed
        """Files that Git follows through the commits to a new name."""
        self._likeness: dict[str, tuple[float, str]] = {}
        self._pieces: dict[str, frozenset[bytes]] = {}
        self._added: dict[str, list[Definition]] = defaultdict(list)
        for items in new.inside.values():
            for item in items:
                if not old.named(item.path, item.name):
                    self._added[item.last].append(item)
        self._by_shape: dict[str, list[Definition]] = defaultdict(list)
        for items in self._added.values():
            for item in items:
                self._by_shape[masked(item)].append(item)

    def of_definition(self, item: Definition) -> str:
        """Return what became of a definition."""
        if item.path in self.new.blobs and item.path not in self.new.inside:
            return UNSURE  # its parser refuses the new file
        now = self.new.named(item.path, item.name)
        if now:
            then = self.old.named(item.path, item.name)
            return FRESH if Counter(one.shape for one in now) == Counter(one.shape for one in then) else DRIFTED
        elsewhere = [other for other in self._added[item.last] if other.kind == item.kind]
        likely = max((similarity(item.pieces, other.pieces) for other in elsewhere), default=0.0)
        homes = {item.path, self.file_home(item.path)}
        renamed = [
            other
            for home in homes
            for other in self.new.inside.get(home, ())
            if other.kind == item.kind
            and not self.old.named(home, other.name)
            and not self.old.named(item.path, other.name)
        ]
        likely = max([likely, *(similarity(item.pieces, other.pieces) for other in renamed)])
        if masked(item) in self._by_shape:
            likely = 1.0
        return DRIFTED if likely >= SAME else GONE if likely < OTHER else UNSURE

    def of_file(self, path: str) -> str:
        """Return what became of a file."""
        if path in self.new.blobs:
            return FRESH if self.new.blobs[path] == self.old.blobs[path] else DRIFTED
        if self.file_home(path):
            return DRIFTED
        return UNSURE if path in self._followed or self._file_likeness(path)[0] >= OTHER / 2 else GONE

    def file_home(self, path: str) -> str:
        """Return where a file is now, if it was moved; else empty."""
        if path in self.new.blobs:
            return ""
        likeness, home = self._file_likeness(path)
        return home if likeness >= SAME else ""

    def _file_likeness(self, path: str) -> tuple[float, str]:
        if path not in self._likeness:
            suffix = path.rpartition(".")[2]
            then = file_pieces(self.old.root / path)
            added = (other for other in self.new.blobs if other not in self.old.blobs and other.endswith(f".{suffix}"))
            scored = ((similarity(then, self._pieces_now(other)), other) for other in added)
            self._likeness[path] = max(scored, default=(0.0, ""))
        return self._likeness[path]

    def _pieces_now(self, path: str) -> frozenset[bytes]:
        if path not in self._pieces:
            self._pieces[path] = file_pieces(self.new.root / path)
        return self._pieces[path]


def masked(item: Definition) -> str:
    """Return a digest of a definition without its own name."""
    text = item.shape.replace(item.last, "*") if len(item.last) > 3 else item.shape
    return blake2b(text.encode(), digest_size=12).hexdigest()


def file_pieces(file: Path) -> frozenset[bytes]:
    """Return the lines of a file, without white space."""
    lines = (line.strip() for line in file.read_bytes().splitlines())
    return frozenset(blake2b(line, digest_size=6).digest() for line in lines if len(line) > 3)


def combined(parts: Iterable[str]) -> str:
    """Return the fate of a memory by those of what it names: gone if all are, fresh if all are, else drifted."""
    values = set(parts)
    if UNSURE in values:
        return UNSURE
    return values.pop() if values in ({FRESH}, {GONE}) else DRIFTED
