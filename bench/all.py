"""Runs every bench, one after the other, stores each result, and writes docs/benchmarks.md.

    python -m bench.all [--data DIR] [--vectors DIR] [--only speed,latency] [--skip NAMES] [--rival-env DIR]
    python -m bench.all --quick       small sizes, to see that everything runs; stored in .bench/results, page unchanged
    python -m bench.all --list

A bench that fails, is missing or needs data that was not given is reported and does not stop the others; it keeps its last
result. A result is written as soon as its bench ends. Exits with 1 if a bench failed. A missed target is no failure: the
page shows it. Use an otherwise idle machine; all of it takes about four hours.
"""

import argparse
import contextlib
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
from typing import IO

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
_PATIENCE = 6
"""A bench is stopped after so many times the minutes that it should take."""


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
    quick: tuple[str, ...] | None = ()
    """Further words of a quick run; None leaves it out."""
    data: str = "none"
    """Whether it takes --data: none, optional or required."""
    vectors: bool = False
    rival: bool = False
    """Whether it takes --rival-env."""
    judges: bool = True
    """Whether its exit status says if targets were met."""
    before: tuple[str, ...] = field(default=())
    """A command that prepares it, such as a download."""


def _bench(name: str, command: str, measures: Sequence[str], minutes: float, **more: object) -> Bench:
    quick = more.pop("quick", "")
    words = None if quick is None else tuple(str(quick).split())
    before = tuple(str(more.pop("before", "")).split())
    return Bench(name, tuple(command.split()), tuple(dict.fromkeys(measures)), minutes, words, before=before, **more)  # type: ignore[arg-type]


BENCHES = (
    _bench("speed", "bench/speed.py", START + SEARCH + WRITE, 15, quick="--sizes 200 --repeat 1", rival=True),
    _bench(
        "latency",
        "bench/latency.py",
        START + SEARCH + DAEMON + MODEL,
        12,
        quick="--entries 100 --rounds 3 --operations 300 --asked 5 --quiet 1",
        rival=True,
    ),
    _bench("growth", "-m bench.growth", SEARCH + DAEMON + WRITE + MODEL, 25, quick="--quick"),
    _bench(
        "journal", "-m bench.journal", WRITE + DAEMON + _paths("surfaces/cli/commands/changes.py"), 5, quick="--quick"
    ),
    _bench("capture", "-m bench.capture", CAPTURE + DAEMON, 3, quick="--megabytes 1 --turns 3"),
    _bench("memory", "-m bench.memory", DAEMON + MODEL, 4, quick="--chunks 60 --questions 10 --idle 5"),
    _bench(
        "page-speed", "-m bench.page_speed", SEARCH + DAEMON + _paths("surfaces/page surfaces/http"), 8, quick="--quick"
    ),
    _bench("hooks", "bench/hooks.py", HOOKS, 20, quick="--runs 3 --rival-runs 1", rival=True),
    _bench("records", "bench/records.py", RECORDS + SEARCH, 5, quick="--records 1000 --lines 500 --rounds 5"),
    _bench("words", "bench/words.py", WRITE + MODEL, 4, quick="--observe 2", data="required"),
    _bench("code", "-m bench.code --tools .bench/code", CODE, 8, quick=None, before="-m bench.code.fetch .bench/code"),
    _bench("code-speed", "-m bench.code_speed", CODE, 5, quick="--files 100 --symbols 1000 --packages rich"),
    _bench("freshness", "-m bench.freshness {rich} {hypothesis}", _paths("services/freshness"), 2),
    _bench("delivery", "-m bench.delivery.cues", HOOKS + CAPTURE, 1),
    _bench("why", "-m bench.why", _paths("services/lines code/git.py"), 20, quick="--lines 20 --commits 100", data="optional"),
    _bench("redaction", "bench/redaction.py", _paths("ingest/redaction"), 1, data="required", judges=False),
    _bench(
        "scale", "-m bench.scale --only lorelog", SEARCH, 8, quick="--size 1000 --queries 20 --cold 1", judges=False
    ),
    _bench(
        "scale-rivals",
        "-m bench.scale --rivals milvus,lancedb,lancedb-hnsw,chroma",
        SEARCH,
        40,
        quick=None,
        judges=False,
    ),
    _bench("scale-million", "-m bench.scale --size 1000000 --only lorelog", SEARCH, 30, quick=None, judges=False),
    _bench("milvus", "-m bench.milvus", _paths("stores/milvus"), 8, quick="--size 200 --questions 5", judges=False),
    _bench(
        "safety-secrets", "-m bench.safety.secrets", _paths("ingest/redaction"), 4, quick="--each 1", data="optional"
    ),
    _bench("safety-hostile", "-m bench.safety.hostile", START + WRITE, 6, quick="--only bytes"),
    _bench("safety-kills", "-m bench.safety.kills --cycles 60 --kills 200", WRITE + CAPTURE, 60, quick="--cycles 1"),
    _bench(
        "quality",
        "-m bench.quality",
        SEARCH + MODEL,
        30,
        quick="--limit 5",
        data="required",
        vectors=True,
        judges=False,
    ),
    _bench("install-size", "bench/install_size.py", ("requirements", "pyproject.toml", "encoder"), 3, quick=None),
    _bench("first-run", "-m bench.first_run", ("pyproject.toml", *START), 10, quick="--only lorelog"),
)


def main() -> int:
    options = _arguments()
    only, skipped = choose_names(options.only), choose_names(options.skip)
    chosen = [bench for bench in BENCHES if (not only or bench.name in only) and bench.name not in skipped]
    if options.list:
        for bench in chosen:
            print(f"{bench.name:16} {bench.minutes:4g} min  {_shown_command(bench, options)}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the bench that is running, and writes the page
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
    parser.add_argument("--quick", action="store_true", help="small sizes; the page is not written")
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
    with tempfile.TemporaryDirectory(prefix="bench-") as made:
        figures_file = Path(made) / "figures.jsonl"
        if bench.before and subprocess.run([sys.executable, *bench.before], cwd=REPOSITORY, check=False).returncode:
            return f"FAILED: python {shlex.join(bench.before)}"
        status, printed, reason = _run(words, figures_file, bench.minutes * 60 * _PATIENCE)
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
    return words + (list(bench.quick or ()) if options.quick else [])


def _shown_command(bench: Bench, options: argparse.Namespace) -> str:
    """The command as a reader would type it, without folders of this machine."""
    given = [*bench.command, *(("--data", "DIR") if bench.data != "none" and options.data else ())]
    return f"python {' '.join(word.strip('{}') for word in given)}"


def _package_folder(name: str) -> str:
    found = importlib.util.find_spec(name)
    return str(Path(found.origin).parent) if found and found.origin else name


def _run(words: Sequence[str], figures: Path, limit_s: float) -> tuple[int, list[str], str]:
    """Run a bench and show its output; return its status, the lines of its output, and why it failed, if it did."""
    environment = {**os.environ, FIGURES_VARIABLE: str(figures)}
    printed: list[str] = []
    errors: list[str] = []
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=REPOSITORY,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        timer = threading.Timer(limit_s, _end, (process, signal.SIGKILL))
        timer.daemon = True
        timer.start()
        reader = threading.Thread(target=_copy, args=(process.stderr, sys.stderr, errors), daemon=True)
        reader.start()
        try:
            _copy(process.stdout, sys.stdout, printed)
            status = process.wait()
        except BaseException:
            _end(process, signal.SIGINT)
            reader.join(timeout=20)
            raise
        reader.join(timeout=5)
        timer.cancel()
    said = [line for line in errors if line.strip()]
    crashed = status not in (0, 1) or not printed or any(_TRACEBACK in line for line in errors)
    refused = status == 1 and bool(said) and said[-1].startswith("bench: ")
    if crashed or refused:
        return status, printed, said[-1].strip()[:200] if said else f"exit status {status}, nothing said"
    return status, printed, ""


def _end(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Send a signal to a bench and to all that it started and waits for."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


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
