"""The programs of a speed run and their command lines.

Responsible for the words each program wants for the same deed: help, index, search. Both get the same files, the same
embedding service and an empty home of their own. The model's name is one memsearch knows: with an unknown name it
embeds a probe text on every command, and would be charged for it here.
"""

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bench.measure import CommandFailed, EmbeddingService, Measured, Running, clean_environment

MODEL = "text-embedding-3-small"
API_KEY = "bench"
RIVAL_REQUIREMENT = "memsearch==0.4.23"
HITS = 5


class Contender(Protocol):
    """A program with an index in a home folder and three commands."""

    @property
    def name(self) -> str: ...
    @property
    def home(self) -> Path: ...
    def environment(self) -> dict[str, str]: ...
    def help_command(self) -> list[str]: ...
    def index_command(self, path: Path) -> list[str]: ...
    def search_command(self, query: str) -> list[str]: ...
    def in_home(self, home: Path) -> "Contender":
        """Return the same program with another home."""


@dataclass(frozen=True)
class Memsearch:
    """memsearch, in its own environment, with its embedded store."""

    program: Path
    service: EmbeddingService
    home: Path
    name: str = field(default="memsearch", init=False)

    def environment(self) -> dict[str, str]:
        return clean_environment(self.home) | {"OPENAI_API_KEY": API_KEY}

    def help_command(self) -> list[str]:
        return [str(self.program), "--help"]

    def index_command(self, path: Path) -> list[str]:
        return [str(self.program), "index", *self._flags(), str(path)]

    def search_command(self, query: str) -> list[str]:
        return [str(self.program), "search", *self._flags(), "-k", str(HITS), "--json-output", query]

    def in_home(self, home: Path) -> "Memsearch":
        return Memsearch(self.program, self.service, home)

    def _flags(self) -> list[str]:
        choices = {
            "--provider": "openai",
            "--model": MODEL,
            "--base-url": self.service.base_url,
            "--api-key": API_KEY,
            "--milvus-uri": str(self.home / "milvus.db"),
        }
        return [word for pair in choices.items() for word in pair]


@dataclass(frozen=True)
class Lorelog:
    """lorelog, as installed for the interpreter of the bench."""

    program: Path
    service: EmbeddingService
    home: Path
    name: str = field(default="lorelog", init=False)

    def environment(self) -> dict[str, str]:
        return clean_environment(self.home) | {
            "LORELOG_HOME": str(self.home),
            "LORELOG_EMBEDDING_PROVIDER": "openai",
            "LORELOG_EMBEDDING_MODEL": MODEL,
            "LORELOG_EMBEDDING_BASE_URL": self.service.base_url,
            "OPENAI_API_KEY": API_KEY,
            "LORELOG_DAEMON_WARM": "off",  # a command on its own, like the rival's; `latency.py` says otherwise
        }

    def help_command(self) -> list[str]:
        return [str(self.program), "--help"]

    def index_command(self, path: Path) -> list[str]:
        return [str(self.program), "index", str(path), "--json"]

    def search_command(self, query: str) -> list[str]:
        return [str(self.program), "search", query, "-k", str(HITS), "--json"]

    def in_home(self, home: Path) -> "Lorelog":
        return Lorelog(self.program, self.service, home)


def start_index(contender: Contender, path: Path) -> Running:
    """Start indexing in the corpus folder, which is lorelog's project."""
    return Running(contender.index_command(path), contender.environment(), path)


def search(contender: Contender, query: str, directory: Path) -> Measured:
    return Running(contender.search_command(query), contender.environment(), directory).finish()


def hits(measured: Measured) -> int:
    """Return the number of hits in a search's JSON: a list, or an object with one list."""
    try:
        answer = json.loads(measured.output)
    except ValueError:
        return 0
    if isinstance(answer, dict):
        answer = answer.get("hits", answer.get("results", []))
    return len(answer) if isinstance(answer, list) else 0


def own_program() -> Path:
    """Return the lorelog command of the bench's environment."""
    return Path(sys.executable).parent / "lorelog"


def rival_program(directory: Path) -> Path:
    """Return memsearch in its own environment, creating it if needed."""
    program = directory / "bin" / "memsearch"
    if not program.exists():
        print(f"making the rival's environment in {directory} (once; needs the network)", file=sys.stderr, flush=True)
        steps = [
            [sys.executable, "-m", "venv", str(directory)],
            [str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", RIVAL_REQUIREMENT],
        ]
        for step in steps:
            if subprocess.run(step, check=False).returncode != 0:
                raise CommandFailed(f"could not make the rival's environment: {' '.join(step)}")
    return program


def versions(directory: Path) -> str:
    """Return the installed versions: the store below memsearch determines most of its times."""
    code = (
        "import importlib.metadata as m;"
        "print(*(f'{n} {m.version(n)}' for n in ('memsearch', 'milvus-lite', 'pymilvus')), sep=', ')"
    )
    answer = subprocess.run(
        [str(directory / "bin" / "python"), "-c", code], capture_output=True, text=True, check=False
    )
    return answer.stdout.strip() or "memsearch, version unknown"


def own_version(program: Path) -> str:
    answer = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "lorelog, version unknown"


def chunks_reported(measured: Measured) -> int | None:
    """Return the number of chunks that an index command reports, in either program's format."""
    if found := re.search(r"Indexed (\d+) chunks", measured.output):
        return int(found[1])
    try:
        report = json.loads(measured.output)
    except ValueError:
        return None
    chunks = report.get("chunks") if isinstance(report, dict) else None
    return chunks if isinstance(chunks, int) else None
