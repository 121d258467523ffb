"""Results of benches: figures beside their targets, and one JSON file for each bench.

A bench calls `Verdicts.judge` or `note_figure` for what it judges; nothing else of it needs to know that results are
stored. `bench.all` names a file in BENCH_FIGURES, runs the bench, and stores the figures with what it printed, the date,
the commit, the machine and its load. `bench.page` writes docs/benchmarks.md from these files.

Imports the standard library only: see `measure.py`.
"""

import datetime as dt
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
RESULTS = REPOSITORY / "bench" / "results"
FIGURES_VARIABLE = "BENCH_FIGURES"


@dataclass(frozen=True)
class Figure:
    """One judged figure, as it is shown. `met` is None if it could not be judged."""

    what: str
    measured: str
    target: str = ""
    met: bool | None = None
    headline: bool = False
    """Whether it belongs to the short table at the top of the page."""

    @property
    def verdict(self) -> str:
        if not self.target:
            return ""
        return {True: "ok", False: "MISSED", None: "not judged"}[self.met]

    def cells(self) -> list[str]:
        return [self.what, self.measured, self.target, self.verdict]


@dataclass(frozen=True)
class Result:
    """The last run of one bench."""

    name: str
    date: str
    commit: str
    """Empty if it was not recorded."""
    machine: str
    measures: tuple[str, ...]
    """Paths of the code that the bench measures."""
    modules: tuple[str, ...] = ()
    """The modules that its processes loaded; empty if that is not known. A later commit that touches one of them, or data files in
    `measures`, makes the figures stale. If they are not known, any commit that touches `measures` does."""
    command: str = ""
    load: float | None = None
    seconds: float | None = None
    modified: bool = False
    """Whether these paths had changes that were not committed."""
    figures: tuple[Figure, ...] = ()
    section: tuple[str, ...] = ()
    """What it printed, as lines of Markdown."""

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return path

    @classmethod
    def read(cls, path: Path) -> "Result":
        kept: dict[str, Any] = json.loads(path.read_text("utf-8"))
        kept["figures"] = tuple(Figure(**figure) for figure in kept["figures"])
        for name in ("measures", "modules", "section"):
            kept[name] = tuple(kept.get(name, ()))
        return cls(**kept)


def read_results(folder: Path = RESULTS) -> dict[str, Result]:
    """Return all stored results by the names of their benches."""
    return {path.stem: Result.read(path) for path in sorted(folder.glob("*.json"))}


def _compiled_modules(repository: Path) -> list[Path]:
    return list(repository.glob("src/lorelog/**/__pycache__/*.pyc"))


def reset_loaded_modules(repository: Path = REPOSITORY) -> None:
    """Note that no module of the product is loaded: the access time of each compiled file is set to the epoch."""
    for path in _compiled_modules(repository):
        os.utime(path, ns=(1, path.stat().st_mtime_ns))


def loaded_modules(repository: Path = REPOSITORY) -> tuple[str, ...]:
    """Return the modules that any process has loaded since the reset. Empty if the file system keeps no access times."""
    read = [path for path in _compiled_modules(repository) if path.stat().st_atime_ns > 1]
    sources = {path.parent.parent / f"{path.name.partition('.')[0]}.py" for path in read}
    return tuple(sorted(str(path.relative_to(repository)) for path in sources if path.exists()))


@dataclass
class Verdicts:
    """Figures that a run judges."""

    figures: list[Figure] = field(default_factory=list)

    def judge(self, what: str, value: str, target: str, *, met: bool | None, headline: bool = False) -> None:
        """Record one figure beside its target."""
        self.figures.append(Figure(what, value, target, met, headline))
        note_figure(self.figures[-1])

    @property
    def missed(self) -> list[str]:
        return [figure.what for figure in self.figures if figure.met is False]

    def table(self) -> str:
        return format_table(["target", "measured", "required", ""], [figure.cells() for figure in self.figures])


def note_figure(figure: Figure) -> None:
    """Add a figure to the file that `bench.all` named; do nothing in a run by hand."""
    if path := os.environ.get(FIGURES_VARIABLE):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(figure), ensure_ascii=False) + "\n")


def noted_figures(path: Path) -> tuple[Figure, ...]:
    """Return the figures of a file of `note_figure`."""
    if not path.exists():
        return ()
    return tuple(Figure(**json.loads(line)) for line in path.read_text("utf-8").splitlines())


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table whose second column is set to the right."""
    ruler = ["---", "--:", *["---"] * (len(head) - 2)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ruler, *rows])


def describe_machine() -> str:
    """Return the system, the processors that this process may use, and the Python version."""
    cores = os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    shown = f"{allowed} of {cores}" if allowed < cores else f"{cores}"
    return f"{platform.system()} {platform.machine()}, {shown} cores, Python {platform.python_version()}"


def today() -> str:
    return dt.datetime.now(dt.UTC).date().isoformat()


def git(*words: str, repository: Path = REPOSITORY) -> str | None:
    """Return what git prints, or None if it fails, as without a repository."""
    command = ["git", "-C", str(repository), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def head_commit() -> str:
    return git("rev-parse", "--short=10", "HEAD") or ""


def has_changes(paths: Sequence[str]) -> bool:
    """Whether files below these paths differ from the last commit."""
    return bool(git("status", "--porcelain", "--", *paths))
