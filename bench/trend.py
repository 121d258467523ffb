"""CPU time of common commands by commit, so that a regression is seen when it comes, and found when it was not.

    python -m bench.trend record                  measure this checkout, and add one line to bench/history.jsonl (about a minute)
    python -m bench.trend record --commit REV     measure an older commit from a temporary worktree, with the packages of this environment
    python -m bench.trend check --commit REV      compare this checkout with a commit; exit with 1 if a command takes 5 % more CPU time
    python -m bench.trend draw                    draw bench/history.jsonl as docs/assets/bench_trend.svg
    python -m bench.trend show                    print it as a table

Commands run in turn, `python -c pass` among them. Of each command the minimum and the median of the CPU time are kept; the ratio to
the minimum of `python -c pass` is what to compare between machines and between noisy minutes. A command that a commit does not
know, or that fails there, is left out of its line. A commit that is measured again replaces its line. Lines are in the order of the commits.

The work of each command: 200 journal entries are indexed by keywords; each round asks another question; `add` appends to a journal of 1,000 entries
without the daemon; `hook` is a prompt with the daemon alive. CPU time is that of the command and of children that it waited for, not the daemon's.
"""

import argparse
import datetime as dt
import json
import math
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.corpus import SEED, Writer, journal_entry, questions, write_journals
from bench.measure import Measured, clean_environment, median
from bench.result import REPOSITORY, describe_machine, git, has_changes
from bench.trend_chart import draw_chart

HISTORY = REPOSITORY / "bench" / "history.jsonl"
PICTURE = REPOSITORY / "docs" / "assets" / "bench_trend.svg"
BARE = "python -c pass"
ENTRIES, JOURNAL_ENTRIES, ROUNDS = 200, 1_000, 7
PASSES, MAX_SLOWER, NOISE_MS = 3, 1.05, 1.0
"""Of `check`: how often both checkouts are measured in turn, and what is slower: by this factor and by more than so much."""
_START = "import sys; from {module} import {function}; sys.exit({function}())"
_NONE = {"EMBEDDING_PROVIDER": "none"}


@dataclass(frozen=True)
class Checkout:
    """Code to measure: a folder with `src/PACKAGE`, and the interpreter that has its dependencies."""

    source: Path
    package: str
    start: str
    """Python that starts the program as its entry script does."""

    @classmethod
    def at(cls, folder: Path) -> "Checkout":
        scripts: dict[str, str] = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
        module, _, function = next(iter(scripts.values())).partition(":")
        package = module.partition(".")[0]  # it had another name before the first version
        return cls(folder / "src", package, _START.format(module=module, function=function))

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-c", self.start, *words]

    def environment(self, place: Path, settings: Mapping[str, str]) -> dict[str, str]:
        prefix = self.package.upper()
        named = {"HOME": str(place / "home"), "DAEMON_WARM": "off", "WATCH_ENABLED": "false", **settings}
        given = {f"{prefix}_{name}": value for name, value in named.items()}
        # The sources come first on the path, whatever is installed in the environment.
        return clean_environment(place) | {"PYTHONPATH": str(self.source)} | given


@dataclass
class Case:
    """A command and its runs."""

    words: tuple[str, ...]
    place: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    payload: bytes = b""
    runs: list[Measured] = field(default_factory=list)
    failure: str = ""


def main() -> int:
    options = _arguments()
    if options.do == "record":
        _record(options)
    elif options.do == "check":
        return _check(options)
    elif options.do == "draw":
        lines = read_history()
        PICTURE.write_text(draw_chart(lines, BARE), encoding="utf-8", newline="\n")
        print(f"{PICTURE.relative_to(REPOSITORY)}: {len(lines)} commits")
    else:
        _show(read_history())
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("record", "check", "draw", "show"))
    parser.add_argument(
        "--commit", metavar="REV", help="with record: an older commit; with check: the one to compare with"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"runs of each command ({ROUNDS})")
    parser.add_argument("--dry", action="store_true", help="with record: print the line, and do not keep it")
    return parser.parse_args()


def read_history(path: Path = HISTORY) -> list[dict[str, Any]]:
    """Return the kept lines, the oldest commit first."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def keep(line: dict[str, Any], path: Path = HISTORY) -> None:
    """Add a line, or replace that of the same commit; a replacement keeps the file in the order of the commits."""
    lines = [kept for kept in read_history(path) if kept["commit"] != line["commit"]] + [line]
    lines.sort(key=lambda kept: str(kept["committed"]))
    path.write_text("".join(json.dumps(kept) + "\n" for kept in lines), encoding="utf-8", newline="\n")


# -- measuring -----------------------------------------------------------------------------------------------------------


def _record(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="trend-") as made, _checkout(options.commit, Path(made)) as folder:
        revision = options.commit or "HEAD"
        cases = _measure(Checkout.at(folder), Path(made), options.rounds)
    modified = options.commit is None and has_changes(["src"])
    line = {
        "commit": (git("rev-parse", "--short=10", revision) or "") + ("+" if modified else ""),
        "committed": git("show", "-s", "--format=%cI", revision),
        "subject": git("show", "-s", "--format=%s", revision),
        "measured": dt.datetime.now(dt.UTC).isoformat(timespec="minutes"),
        "machine": describe_machine(),
        "load": round(os.getloadavg()[0], 1),
        "cpu_ms": {name: _figures(case, cases[BARE]) for name, case in cases.items() if case.runs},
    }
    for name, case in cases.items():
        if not case.runs:
            print(f"left out: {name}: {case.failure}", file=sys.stderr)
    _show([line])
    if not options.dry:
        keep(line)


def _check(options: argparse.Namespace) -> int:
    """Measure a commit and this checkout in turn, and print the least CPU time of each command; return 1 if one is slower."""
    least: list[dict[str, float]] = [{}, {}]
    with tempfile.TemporaryDirectory(prefix="trend-") as made, _checkout(options.commit or "HEAD~1", Path(made)) as old:
        for number in range(PASSES):
            for side, folder in enumerate((old, REPOSITORY)):
                cases = _measure(Checkout.at(folder), Path(made) / f"{number}-{side}", options.rounds)
                for name, case in cases.items():
                    for run in case.runs:
                        least[side][name] = min(run.cpu_s * 1e3, least[side].get(name, math.inf))
    found = slower(*least)
    print("| command | before, CPU ms | now | |\n|---|--:|--:|---|")
    for name, now in least[1].items():
        print(f"| {name} | {least[0].get(name, math.nan):.1f} | {now:.1f} | {'SLOWER' if name in found else ''} |")
    return int(bool(found))


def slower(before: Mapping[str, float], now: Mapping[str, float]) -> list[str]:
    """Return the commands that take more CPU time than before, beyond noise; one that no longer runs is among them."""
    return [
        name
        for name, ms in before.items()
        if now.get(name, math.inf) > max(ms * MAX_SLOWER, ms + NOISE_MS) and name != BARE
    ]


def _figures(case: Case, bare: Case) -> dict[str, float]:
    cpu = [run.cpu_s for run in case.runs]
    least = min(run.cpu_s for run in bare.runs)
    return {"min": round(min(cpu) * 1e3, 1), "median": round(median(cpu) * 1e3, 1), "ratio": round(min(cpu) / least, 2)}


@contextmanager
def _checkout(revision: str | None, made: Path) -> Iterator[Path]:
    """The tree of this file, or a worktree of an older commit that is removed afterwards."""
    if revision is None:
        yield REPOSITORY
        return
    folder = made / "worktree"
    if git("worktree", "add", "--detach", str(folder), revision) is None:
        raise SystemExit(f"bench: no such commit: {revision}")
    try:
        yield folder
    finally:
        git("worktree", "remove", "--force", str(folder))


def _measure(checkout: Checkout, made: Path, rounds: int) -> dict[str, Case]:
    """Prepare the homes, then run all commands in turn; the first round is not counted."""
    cases = _cases(checkout, made)
    warm = next(case for name, case in cases.items() if name.startswith("warm"))
    daemon = checkout.environment(warm.place, {**warm.settings, "DAEMON_WARM": "auto"})
    no_daemon = _run_quietly(checkout.command("daemon", "start"), daemon, warm.place)
    for case in cases.values():
        if case.settings.get("DAEMON_WARM"):
            case.failure = case.failure or no_daemon
    asked = questions(rounds + 1, seed=SEED)
    try:
        for number in range(rounds + 1):
            for name, case in cases.items():
                if not case.failure:
                    words = [word.format(question=asked[number], number=number) for word in case.words]
                    command = [sys.executable, "-c", "pass"] if name == BARE else checkout.command(*words)
                    _take(case, command, checkout.environment(case.place, case.settings), counted=number > 0)
    finally:
        _run_quietly(checkout.command("daemon", "stop"), daemon, warm.place)
    return cases


def _cases(checkout: Checkout, made: Path) -> dict[str, Case]:
    small, large, vectors = made / "small", made / "large", made / "vectors"
    failed = {
        place: _fill(checkout, place, entries, settings)
        for place, entries, settings in ((small, ENTRIES, _NONE), (large, JOURNAL_ENTRIES, _NONE), (vectors, 4, {}))
    }
    payload = {
        "session_id": "s",
        "cwd": str(small),
        "prompt_id": "p",
        "prompt": "why this cache?",
        "transcript_path": "",
    }
    search = ("search", "{question}", "--json")
    return {
        BARE: Case((), small),
        "--help": Case(("--help",), small),
        "hook": Case(
            ("hook", "claude", "prompt"), small, _NONE | {"DAEMON_WARM": "auto"}, json.dumps(payload).encode()
        ),
        "warm search": Case(search, small, _NONE | {"DAEMON_WARM": "required"}),
        "cold search, lexical": Case((*search, "--lane", "lexical"), small, _NONE),
        "cold search, built-in model": Case(search, vectors, failure=failed[vectors]),
        "unchanged index": Case(("index", "--json"), small, _NONE),
        f"add, journal of {JOURNAL_ENTRIES:,}": Case(("add", "{question} {number}"), large, _NONE),
    }


def _fill(checkout: Checkout, place: Path, entries: int, settings: Mapping[str, str]) -> str:
    """Make a project with journals, indexed: many files, or one of today for `add`. Return why it could not be indexed."""
    (place / ".git" / "objects").mkdir(parents=True)
    (place / ".git" / "refs").mkdir()
    (place / ".git" / "HEAD").write_text("ref: refs/heads/main\n", "utf-8")
    journals = place / f".{checkout.package}" / "memory"
    if entries == JOURNAL_ENTRIES:
        journals.mkdir(parents=True)
        writer = Writer(SEED)
        text = "".join(journal_entry(writer, number, 0) for number in range(entries))
        (journals / f"{dt.date.today().isoformat()}.md").write_text(text, "utf-8")
    else:
        write_journals(journals, entries)
    return _run_quietly(checkout.command("index"), checkout.environment(place, settings), place)


def _run_quietly(command: Sequence[str], environment: Mapping[str, str], place: Path) -> str:
    """Run a command that is not measured; return why it failed, or nothing."""
    done = subprocess.run(command, env=dict(environment), cwd=place, capture_output=True, text=True, check=False)
    said = " ".join((done.stderr or done.stdout).split())[-200:]
    return (said or f"status {done.returncode}") if done.returncode else ""


def _take(case: Case, command: Sequence[str], environment: Mapping[str, str], *, counted: bool) -> None:
    """Run a command with its input and measure it; a failure leaves the case out."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
        given.write(case.payload)
        given.seek(0)
        process = subprocess.Popen(
            command, env=dict(environment), cwd=case.place, stdin=given, stdout=subprocess.DEVNULL, stderr=errors
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            case.failure = errors.read().decode("utf-8", "replace").strip()[-200:] or f"status {process.returncode}"
            case.runs.clear()
        elif counted:
            case.runs.append(Measured(0.0, usage.ru_utime + usage.ru_stime, 0, 0, "", ""))


# -- showing -------------------------------------------------------------------------------------------------------------


def _show(lines: Sequence[Mapping[str, Any]]) -> None:
    names = list(dict.fromkeys(name for line in lines for name in line["cpu_ms"]))
    print("| commit | " + " | ".join(names) + " |\n|---|" + "--:|" * len(names))
    for line in lines:
        cells = [_cell(line["cpu_ms"].get(name)) for name in names]
        print(f"| {line['commit']} {str(line['committed'])[:16]} | {' | '.join(cells)} |")


def _cell(figures: Mapping[str, float] | None) -> str:
    return f"{figures['min']:g} / {figures['median']:g} ms ({figures['ratio']:g}x)" if figures else ""


if __name__ == "__main__":
    sys.exit(main())
