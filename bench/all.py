"""Runs every bench, one after the other, stores each result, and writes docs/benchmarks.md.

    python -m bench.all [--data DIR] [--vectors DIR] [--only speed,latency] [--skip NAMES] [--rival-env DIR]
    python -m bench.all --full        more rounds and questions; --list has the minutes
    python -m bench.all --quick       small sizes, to see that everything runs; stored in .bench/results, page unchanged
    python -m bench.all --list [--full]

A bench that fails, is missing or needs data that was not given is reported and does not stop the others; it keeps its last
result. A result is written as soon as its bench ends. Exits with 1 if a bench failed. A missed target is no failure: the
page shows it. Use an otherwise idle machine: the default form takes at most an hour on two cores (a test adds up its parts), once downloads, generated rows
and the rivals' stores are there, which take about 20 minutes more the first time. SIGTERM and Ctrl-C end it within seconds, with all that the
running bench started.
"""

import argparse
import contextlib
import ctypes
import importlib.util
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, NoReturn

from bench.page import write_page
from bench.result import (
    FIGURES_VARIABLE,
    REPOSITORY,
    RESULTS,
    Figure,
    Result,
    describe_machine,
    has_changes,
    head_commit,
    loaded_modules,
    noted_figures,
    reset_loaded_modules,
    today,
)

QUICK_RESULTS = REPOSITORY / ".bench" / "results"
_PACKAGE = "src/lorelog"
_TRACEBACK = "Traceback (most recent call last)"
_PATIENCE = 4
"""A bench is stopped after so many times the minutes that it should take."""
_GRACE_S = 2.0
"""Between asking a process to end and killing it."""
_PR_SET_CHILD_SUBREAPER = 36


def _paths(names: str) -> tuple[str, ...]:
    return tuple(f"{_PACKAGE}/{name}" for name in names.split())


START = _paths("core config engine.py wiring.py operations surfaces/cli/main.py surfaces/cli/client.py")
SEARCH = _paths("language retrieval services/search stores/embedded surfaces/cli/commands/search.py")
WRITE = _paths(
    "ingest services/indexing services/pipeline services/memories stores/embedded surfaces/cli/commands/index.py"
)
DAEMON = _paths("surfaces/daemon light operations")
MODEL = _paths("models/embed")
HOOKS = _paths("surfaces/hook surfaces/cli/main.py light")
CAPTURE = _paths("services/sessions ingest/transcripts")
RECORDS = _paths("records services/records")
CODE = _paths("code services/code")


@dataclass(frozen=True)
class Bench:
    """A bench: how it is run, and which code its figures describe."""

    name: str
    command: tuple[str, ...]
    """Words after the interpreter."""
    measures: tuple[str, ...]
    minutes: float
    """What the default form takes on two quiet cores, once its downloads and the rivals' stores are there."""
    short: tuple[str, ...] = ()
    """Further words of the default form: fewer rounds and questions. Sizes that figures and targets name stay as they are."""
    full: tuple[str, ...] = ()
    """Further words of the full form, which leaves `short` out."""
    full_minutes: float = 0
    quick: tuple[str, ...] | None = ()
    """Further words of a quick run; None leaves it out."""
    data: str = "none"
    """Whether it takes --data: none, optional or required."""
    vectors: bool = False
    rival: bool = False
    """Whether it takes --rival-env."""
    judges: bool = True
    """Whether its exit status says if targets were met."""
    named_only: bool = False
    """Whether it runs only if `--only` names it."""
    before: tuple[str, ...] = field(default=())
    """A command that prepares it, such as a download."""

    def takes(self, *, full: bool) -> float:
        return (self.full_minutes or self.minutes) if full else self.minutes


def _bench(name: str, command: str, measures: Sequence[str], minutes: float, **more: object) -> Bench:
    quick = more.pop("quick", "")
    words = None if quick is None else tuple(str(quick).split())
    lists = {key: tuple(str(more.pop(key, "")).split()) for key in ("short", "full", "before")}
    paths = tuple(dict.fromkeys(measures))
    return Bench(name, tuple(command.split()), paths, minutes, quick=words, **lists, **more)  # type: ignore[arg-type]


BENCHES = (
    _bench(
        "speed",
        "bench/speed.py",
        START + SEARCH + WRITE,
        4.5,
        short="--repeat 1",
        full_minutes=9,
        quick="--sizes 200 --repeat 1",
        rival=True,
    ),
    _bench(
        "latency",
        "bench/latency.py",
        START + SEARCH + DAEMON + MODEL,
        4,
        short="--rounds 10 --asked 40 --operations 4000",
        full_minutes=8,
        quick="--entries 100 --rounds 3 --operations 300 --asked 5 --quiet 1",
        rival=True,
    ),
    _bench(
        "growth",
        "-m bench.growth",
        SEARCH + DAEMON + WRITE + MODEL,
        4.5,
        short="--rounds 30 --idle 30",
        full_minutes=15,
        quick="--quick",
    ),
    _bench(
        "journal", "-m bench.journal", WRITE + DAEMON + _paths("surfaces/cli/commands/changes.py"), 0.5, quick="--quick"
    ),
    _bench("capture", "-m bench.capture", CAPTURE + DAEMON, 1.5, quick="--megabytes 1 --turns 3"),
    _bench("memory", "-m bench.memory", DAEMON + MODEL, 1, quick="--chunks 60 --questions 10 --idle 5"),
    _bench(
        "floor",
        "-m bench.floor",
        START + SEARCH + DAEMON + MODEL,
        0.5,
        short="--chunks 300 --rounds 5 --questions 100",
        full_minutes=2,
        quick="--chunks 100 --rounds 2 --questions 10",
        judges=False,
    ),
    _bench(
        "page-speed",
        "-m bench.page_speed",
        SEARCH + DAEMON + _paths("surfaces/page surfaces/http"),
        2.5,
        short="--questions 5",
        full_minutes=5,
        quick="--quick",
    ),
    _bench(
        "hooks",
        "bench/hooks.py",
        HOOKS,
        3.5,
        short="--runs 120 --rival-runs 2",
        full_minutes=20,
        quick="--runs 3 --rival-runs 1",
        rival=True,
    ),
    _bench(
        "records",
        "bench/records.py",
        RECORDS + SEARCH,
        2,
        short="--rounds 50",
        full_minutes=5,
        quick="--records 1000 --lines 500 --rounds 5",
    ),
    _bench(
        "words",
        "bench/words.py",
        WRITE + MODEL,
        1,
        short="--observe 20",
        full_minutes=2,
        quick="--observe 2",
        data="required",
    ),
    _bench(
        "code",
        "-m bench.code --tools .bench/code",
        CODE,
        2.5,
        short="--each 5",
        full_minutes=5,
        quick=None,
        before="-m bench.code.fetch .bench/code",
    ),
    _bench("code-speed", "-m bench.code_speed", CODE, 2.5, quick="--files 100 --symbols 1000 --packages rich"),
    _bench("freshness", "-m bench.freshness {rich} {hypothesis}", _paths("services/freshness"), 1),
    _bench("delivery", "-m bench.delivery.cues", HOOKS + CAPTURE, 0.5),
    _bench("redaction", "bench/redaction.py", _paths("ingest/redaction"), 0.5, data="required", judges=False),
    _bench(
        "scale", "-m bench.scale --only lorelog", SEARCH, 1, quick="--size 1000 --queries 20 --cold 1", judges=False
    ),
    _bench(
        "scale-rivals",
        "-m bench.scale --rivals milvus,lancedb,lancedb-hnsw,chroma,bare-hnsw,bare-bits",
        SEARCH,
        4,
        short="--queries 60 --rounds 3 --cold 2",
        full_minutes=15,
        quick=None,
        judges=False,
    ),
    _bench(
        "scale-million",
        "-m bench.scale --size 1000000 --only lorelog",
        SEARCH,
        9.5,
        short="--queries 60 --rounds 3 --cold 2",
        full_minutes=12,
        quick=None,
        judges=False,
    ),
    _bench(
        "milvus",
        "-m bench.milvus",
        _paths("stores/milvus"),
        1,
        short="--size 2000 --questions 20",
        full_minutes=4,
        quick="--size 200 --questions 5",
        judges=False,
    ),
    _bench(
        "safety-secrets", "-m bench.safety.secrets", _paths("ingest/redaction"), 1.5, quick="--each 1", data="optional"
    ),
    _bench("safety-hostile", "-m bench.safety.hostile", START + WRITE, 1.5, quick="--only bytes"),
    _bench(
        "safety-kills",
        "-m bench.safety.kills",
        WRITE + CAPTURE,
        1.5,
        short="--cycles 6 --kills 20",
        full="--cycles 60 --kills 200",
        full_minutes=15,
        quick="--cycles 1",
    ),
    _bench(
        "quality",
        "-m bench.quality",
        SEARCH + MODEL,
        3,
        short="--limit 60",
        full_minutes=15,
        quick="--limit 5",
        data="required",
        vectors=True,
        judges=False,
    ),
    _bench("install-size", "bench/install_size.py", ("requirements", "pyproject.toml", "encoder"), 0.5, quick=None),
    _bench("first-run", "-m bench.first_run", ("pyproject.toml", *START), 4, quick="--only lorelog"),
    _bench(
        "why",
        "-m bench.why",
        _paths("services/lines code/git.py"),
        20,
        quick="--lines 20 --commits 100",
        data="optional",
        named_only=True,
    ),
    _bench(
        "check",
        "-m bench.check",
        _paths("services/changes operations/changes.py"),
        30,
        quick="--changes 10",
        data="required",
        named_only=True,
    ),
    _bench("value-a", "-m bench.value --part a", HOOKS + CAPTURE, 45, quick=None, named_only=True),
    _bench("value-a-held-out", "-m bench.value --part a-held-out", HOOKS + CAPTURE, 45, quick=None, named_only=True),
    _bench("value-b1", "-m bench.value --part b1", SEARCH + HOOKS + CAPTURE, 20, quick=None, named_only=True),
    _bench(
        "value-b1-held-out",
        "-m bench.value --part b1-held-out",
        SEARCH + HOOKS + CAPTURE,
        10,
        quick=None,
        named_only=True,
    ),
    _bench("value-b2", "-m bench.value --part b2", SEARCH + HOOKS + CAPTURE, 10, quick=None, named_only=True),
    _bench(
        "value-b2-held-out",
        "-m bench.value --part b2-held-out",
        SEARCH + HOOKS + CAPTURE,
        15,
        quick=None,
        named_only=True,
    ),
    _bench("value-c", "-m bench.value --part c", SEARCH + HOOKS + CAPTURE, 20, quick=None, named_only=True),
    _bench("value-d", "-m bench.value --part d", CODE, 3, quick=None, named_only=True),
)


def main() -> int:
    options = _arguments()
    only, skipped = choose_names(options.only), choose_names(options.skip)
    by_default = (bench for bench in BENCHES if not bench.named_only or bench.name in only or options.list)
    chosen = [bench for bench in by_default if (not only or bench.name in only) and bench.name not in skipped]
    if options.list:
        for bench in chosen:
            print(f"{bench.name:16} {bench.takes(full=options.full):4g} min  {_shown_command(bench, options)}")
        minutes = sum(bench.takes(full=options.full) for bench in chosen if not bench.named_only or bench.name in only)
        print(f"{'in all':16} {minutes:4g} min  on two quiet cores, with rows, rivals and downloads of an earlier run")
        if named := [bench.name for bench in chosen if bench.named_only and bench.name not in only]:
            print(f"not among them, unless --only names them: {', '.join(named)}")
        return 0
    adopt_orphans()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    folder = QUICK_RESULTS if options.quick else RESULTS
    outcomes: dict[str, str] = {}
    try:
        for bench in chosen:
            outcomes[bench.name] = run_bench(bench, options, folder)
    finally:
        if not options.quick:
            write_page()
        print("\n# " + ("quick run, results in .bench/results" if options.quick else "results in bench/results"))
        for name, outcome in outcomes.items():
            print(f"{name:16} {outcome}")
    return int(any(outcome.startswith("FAILED") for outcome in outcomes.values()))


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    """End the bench that is running, and write the page; a second signal does not disturb that."""
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + number)


def _arguments() -> argparse.Namespace:
    def names(text: str) -> list[str]:
        given = text.split(",")
        if unknown := [name for name in given if not choose_names([name])]:
            raise argparse.ArgumentTypeError(f"no such bench: {', '.join(unknown)}; --list names them")
        return given

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", type=names, default=[], metavar="NAMES", help="some benches; safety means all safety-…"
    )
    parser.add_argument("--skip", type=names, default=[], metavar="NAMES")
    parser.add_argument("--data", type=Path, metavar="DIR", help="third-party data; see bench/README.md")
    parser.add_argument("--vectors", type=Path, metavar="DIR", help="vectors of judged sets, kept between runs")
    parser.add_argument("--rival-env", type=Path, metavar="DIR", help="memsearch's environment")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--quick", action="store_true", help="small sizes; the page is not written")
    form.add_argument("--full", action="store_true", help="more rounds and questions, and the waits of ten minutes")
    parser.add_argument("--list", action="store_true", help="list the benches, and run none")
    return parser.parse_args()


def choose_names(given: Sequence[str]) -> set[str]:
    """Return the benches with these names. A word that is not a name stands for all that begin with it: safety for safety-…"""
    names = [bench.name for bench in BENCHES]
    exact = {word for word in given if word in names}
    return exact | {name for name in names for word in given if word not in exact and name.startswith(f"{word}-")}


def run_bench(bench: Bench, options: argparse.Namespace, folder: Path) -> str:
    """Run one bench and store its result; return what became of it in a few words."""
    if bench.data == "required" and options.data is None:
        return "left out: give --data DIR (make bench-all DATA=DIR)"
    if options.quick and bench.quick is None:
        return "left out of a quick run"
    words = _words(bench, options)
    print(f"\n# {bench.name}: python {shlex.join(words)}\n", flush=True)
    commit, modified, load = head_commit(), has_changes(bench.measures), os.getloadavg()[0]
    reset_loaded_modules()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as made:
        figures_file = Path(made) / "figures.jsonl"
        if bench.before and subprocess.run([sys.executable, *bench.before], cwd=REPOSITORY, check=False).returncode:
            return f"FAILED: python {shlex.join(bench.before)}"
        status, printed, reason = _run(words, figures_file, bench.takes(full=options.full) * 60 * _PATIENCE)
        figures = noted_figures(figures_file)
    seconds = time.monotonic() - started
    if reason:
        return f"FAILED after {seconds:.0f} s: {reason}"
    if not figures and bench.judges:
        figures = (Figure("its targets", "met" if status == 0 else "missed", "all", met=status == 0),)
    result = Result(
        name=bench.name,
        date=today(),
        commit=commit,
        machine=describe_machine(),
        measures=bench.measures,
        modules=loaded_modules(),
        command=_shown_command(bench, options),
        load=round(load, 1),
        seconds=round(seconds, 1),
        modified=modified,
        figures=figures,
        section=tuple(_without_edges(printed)),
    )
    result.write(folder)
    missed = sum(figure.met is False for figure in figures)
    return f"done in {seconds:.0f} s" + (f", {missed} of {len(figures)} targets missed" if missed else "")


def _words(bench: Bench, options: argparse.Namespace) -> list[str]:
    """The words after the interpreter. Paths are absolute: a bench may run elsewhere. {NAME} is the folder of a package."""
    words = [_package_folder(word[1:-1]) if word.startswith("{") else word for word in bench.command]
    if bench.data != "none" and options.data:
        words += ["--data", str(options.data.resolve())]
    if bench.vectors and options.vectors:
        words += ["--vectors", str(options.vectors.resolve())]
    if bench.rival and options.rival_env:
        words += ["--rival-env", str(options.rival_env.resolve())]
    return words + list(_form(bench, options))


def _form(bench: Bench, options: argparse.Namespace) -> tuple[str, ...]:
    return (bench.quick or ()) if options.quick else bench.full if options.full else bench.short


def _shown_command(bench: Bench, options: argparse.Namespace) -> str:
    """The command as a reader would type it, without folders of this machine."""
    given = [
        *bench.command,
        *(("--data", "DIR") if bench.data != "none" and options.data else ()),
        *_form(bench, options),
    ]
    return f"python {' '.join(word.strip('{}') for word in given)}"


def _package_folder(name: str) -> str:
    found = importlib.util.find_spec(name)
    return str(Path(found.origin).parent) if found and found.origin else name


def _run(words: Sequence[str], figures: Path, limit_s: float) -> tuple[int, list[str], str]:
    """Run a bench and show its output; return its status, the lines of its output, and why it failed, if it did.

    Nothing that it started outlives it, and its temporary files are below the folder of its figures.
    """
    printed: list[str] = []
    errors: list[str] = []
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=REPOSITORY,
        env={**os.environ, FIGURES_VARIABLE: str(figures), "TMPDIR": str(figures.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    outputs = ((process.stdout, sys.stdout, printed), (process.stderr, sys.stderr, errors))
    readers = [threading.Thread(target=_copy, args=output, daemon=True) for output in outputs]
    try:
        for reader in readers:
            reader.start()
        status = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return 1, printed, f"not done after {limit_s / 60:.0f} minutes, and stopped"
    finally:
        end_children(process)
        for reader in readers:
            reader.join(timeout=2)
    said = [line for line in errors if line.strip()]
    crashed = status not in (0, 1) or not printed or any(_TRACEBACK in line for line in errors)
    refused = status == 1 and bool(said) and said[-1].startswith("bench: ")
    if crashed or refused:
        return status, printed, said[-1].strip()[:200] if said else f"exit status {status}, nothing said"
    return status, printed, ""


def adopt_orphans() -> None:
    """Become the parent of what a bench leaves behind, such as a daemon in a session of its own, so that it can be found (Linux)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children(process: subprocess.Popen[str]) -> None:
    """End a bench and all that it started: each is asked to, and killed if it is still there after a moment."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        asked: set[int] = set()
        end = time.monotonic() + _GRACE_S
        while running := _running_children(process):
            for pid in running - asked:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            asked |= running
            if time.monotonic() > end:
                break
            time.sleep(0.05)
    process.poll()


def _running_children(process: subprocess.Popen[str]) -> set[int]:
    """All descendants of this process, the ended ones reaped; without /proc the bench alone."""
    ended = process.poll() is not None
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            state, parent = stat.read_text("ascii", "replace").rpartition(")")[2].split()[:2]
            pid = int(stat.parent.name)
            if state != "Z":
                parents[pid] = int(parent)
            elif int(parent) == os.getpid() and pid != process.pid:
                os.waitpid(pid, os.WNOHANG)
    if os.getpid() not in parents:
        return set() if ended else {process.pid}
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def _copy(source: IO[str], target: IO[str], lines: list[str]) -> None:
    for line in source:
        lines.append(line.rstrip())
        target.write(line)
        target.flush()


def _without_edges(lines: Sequence[str]) -> list[str]:
    """Lines without blank ones at both ends and next to each other."""
    kept: list[str] = []
    for line in lines:
        if line or (kept and kept[-1]):
            kept.append(line)
    return kept[:-1] if kept and not kept[-1] else kept


if __name__ == "__main__":
    sys.exit(main())
