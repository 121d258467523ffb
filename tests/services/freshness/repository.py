"""A real repository with code and memories about it, for the tests of freshness."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace
from tests.code.repositories import git

from lorelog.core.memory import NewMemory
from lorelog.core.query import FreshnessVerdict, Hit
from lorelog.engine import Engine
from lorelog.services.code.index_run import CodeIndexJob, index_code
from lorelog.wiring import open_engine, resolve_location

LOAD = '''"""Settings."""

LIMIT = 3


def parse_config(path):
    """Read a file."""
    text = open(path).read()
    values = [line.split("=") for line in text.splitlines()]
    return dict(values)


class Engine:
    def search(self, query, k=5):
        found = self.lookup(query)
        ordered = sorted(found, key=len)
        return ordered[:k]

    def lookup(self, query):
        return [query]
'''
OTHER = "def helper_of_all(one, other):\n    total = one + other\n    print(total)\n    return total\n"


class Repository:
    """A repository with some code, and a home with memories about it."""

    def __init__(self, place: Path, *init: str) -> None:
        self.root, self._home = place / "repo", place / "home"
        self.root.mkdir()
        self.write("config/settings.py", LOAD)
        self.write("other.py", OTHER)
        self.write("Makefile", "test:\n\tpytest\n")
        self.write("defaults.toml", "[search]\nkind = 5\nsearch.depth = 3\n")
        self.git("init", "-q", "-b", "main", *init)
        self.commit("first")

    def git(self, *args: str) -> str:
        return git(self.root, *args).strip()

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_text()
        assert old in text
        (self.root / name).write_text(text.replace(old, new))

    @contextmanager
    def engine(self, root: Path | None = None) -> Iterator[Engine]:
        here = resolve_location(home=str(self._home), project=str(root or self.root))
        with open_engine(here, {"embedding.provider": "none"}) as engine:
            yield engine

    def index(self) -> None:
        with self.engine() as engine:
            place = engine.place
            index_code(engine.code().tables.path, CodeIndexJob(place.project.root, place.project.id, processes=1))

    def clone(self, place: Path) -> Repository:
        """Return a fresh clone, with a home of its own: nothing was ever checked there."""
        place.mkdir()
        subprocess.run(["git", "clone", "-q", str(self.root), str(place / "repo")], check=True, capture_output=True)
        return Repository._at(place)

    @classmethod
    def _at(cls, place: Path) -> Repository:
        made = cls.__new__(cls)
        made.root, made._home = place / "repo", place / "home"
        return made

    def write_journal(self, day: str, text: str, commit: str = "") -> None:
        """Write a memory as an old journal has it, and index it."""
        anchor = f"<!-- branch:main commit:{commit} memory:m1 type:turn -->\n" if commit else ""
        self.write(f".lorelog/memory/{day}.md", f"### 12:00\n{anchor}{text}\n")
        with self.engine() as engine:
            engine.maintenance().index()

    def remember(self, *texts: str) -> None:
        with self.engine() as engine:
            engine.memories().add([NewMemory(text) for text in texts])
            engine.run_background_work()

    def hits(self, query: str = "team agreed", root: Path | None = None) -> tuple[Hit, ...]:
        with self.engine(root) as engine:
            engine.run_background_work()
            return engine.search(query, replace(engine.defaults.search, k=10)).hits

    def verdict(self, query: str = "team agreed", root: Path | None = None) -> FreshnessVerdict:
        (hit,) = self.hits(query, root)
        return hit.verdict
