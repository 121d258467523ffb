"""CPU time and instructions of common commands by commit, so that a regression is seen when it comes, and found when it was not.

    python -m bench.trend record                  measure this checkout, and add one line to bench/history.jsonl (two minutes)
    python -m bench.trend record --commit REV     measure an older commit from a temporary worktree, with the packages of this environment
    python -m bench.trend guard                   count instructions, and exit with 1 if a command has 5 % more than the history's best
    python -m bench.trend check --commit REV      compare CPU time with a commit's; exit with 1 if a command takes 5 % more
    python -m bench.trend commits --since REV     exit with 1 if a later commit does not import, or does not find what it indexed
    python -m bench.trend draw                    draw bench/history.jsonl as docs/assets/bench_trend.svg
    python -m bench.trend show                    print it as a table

Commands run in turn, `python -c pass` among them. Of each command the minimum and the median of the CPU time are kept; the ratio to
the minimum of `python -c pass` is what to compare between machines and between noisy minutes. A command that a commit does not
know, or that fails there, is left out of its line. A commit that is measured again replaces its line. Lines are in the order of the commits.
If valgrind is installed, a line also has the instructions of each command (`instructions.py`), which do not depend on the load.

`guard` compares with the least count of each command in the lines of the same processor architecture and Python, so that ten landings of 1 % each
do not pass unseen. `record --accept REASON` begins anew: lines before one with a reason no longer count. Exits with 0 and says
so where there is nothing to compare with.

`common_commands.py` has the work of each command. CPU time is that of the command and of children that it waited for, not the daemon's.
"""

import argparse
import datetime as dt
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.common_commands import BARE, Case, Checkout, checked_out, make_project, prepared_cases, run_quietly, take
from bench.corpus import SEED, questions
from bench.instructions import MAX_MORE, SAME_INTERPRETER, can_count, count_instructions, describe_build
from bench.measure import median
from bench.result import REPOSITORY, describe_machine, git, has_changes
from bench.trend_chart import draw_chart

HISTORY = REPOSITORY / "bench" / "history.jsonl"
PICTURE = REPOSITORY / "docs" / "assets" / "bench_trend.svg"
ROUNDS = 7
PASSES, MAX_SLOWER, NOISE_MS = 3, 1.05, 1.0
"""Of `check`: how often both checkouts are measured in turn, and what is slower: by this factor and by more than so much."""
MAX_COMMITS = 200
"""Of `commits`: how many are tried at most."""
NO_VALGRIND = 3
"""Exit status of `guard` without valgrind."""
_IMPORT_ALL = """
import importlib, pkgutil, {package} as package
for module in pkgutil.walk_packages(package.__path__, "{package}."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] == "{package}":
                raise
"""
"""Imports every module; one that lacks an optional package of others is no fault."""


def main() -> int:
    options = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # stops the daemon and removes the worktree
    if options.do in ("guard", "check", "commits"):
        return {"guard": _guard, "check": _check, "commits": _commits}[options.do](options)
    if options.do == "record":
        _record(options)
    elif options.do == "draw":
        lines = read_history()
        PICTURE.write_text(draw_chart(lines, BARE), encoding="utf-8", newline="\n")
        print(f"{PICTURE.relative_to(REPOSITORY)}: {len(lines)} commits")
    else:
        _show(read_history())
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("record", "guard", "check", "commits", "draw", "show"))
    parser.add_argument(
        "--commit", metavar="REV", help="with record: an older commit; with check: the one to compare with"
    )
    parser.add_argument("--since", metavar="REV", default="origin/main", help="with commits (origin/main)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"runs of each command ({ROUNDS})")
    parser.add_argument("--accept", metavar="REASON", help="with record: what is slower now is meant to be")
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
    with tempfile.TemporaryDirectory(prefix="trend-") as made, checked_out(options.commit, Path(made)) as folder:
        revision = options.commit or "HEAD"
        checkout = Checkout.at(folder)
        cases = _measure(checkout, Path(made) / "timed", options.rounds)
        counts, uncounted = count_instructions(checkout, Path(made) / "counted") if can_count() else ({}, {})
    modified = options.commit is None and has_changes(["src"])
    line: dict[str, Any] = {
        "commit": (git("rev-parse", "--short=10", revision) or "") + ("+" if modified else ""),
        "committed": git("show", "-s", "--format=%cI", revision),
        "subject": git("show", "-s", "--format=%s", revision),
        "measured": dt.datetime.now(dt.UTC).isoformat(timespec="minutes"),
        "machine": describe_machine(),
        "load": round(os.getloadavg()[0], 1),
        "cpu_ms": {name: _figures(case, cases[BARE]) for name, case in cases.items() if case.runs},
    }
    if counts:
        line |= {"build": describe_build(), "instructions": counts}
    if options.accept:
        line["accepted"] = options.accept
    for name, reason in {
        name: case.failure for name, case in cases.items() if not case.runs
    }.items() | uncounted.items():
        print(f"left out: {name}: {reason}", file=sys.stderr)
    _show([line])
    if not options.dry:
        keep(line)


def _guard(_options: argparse.Namespace) -> int:
    """Count this checkout's instructions, and print them beside the history's best; return 1 if a command has too many."""
    if not can_count():
        print("bench: there is no valgrind here, so instructions cannot be counted", file=sys.stderr)
        return NO_VALGRIND
    with tempfile.TemporaryDirectory(prefix="trend-") as made:
        now, uncounted = count_instructions(Checkout.at(REPOSITORY), Path(made))
    lines = comparable(read_history(), describe_build(), now)
    if not lines:
        print(
            f"bench: nothing to compare with: no line of bench/history.jsonl has counts of {describe_build()}, this build"
        )
        return 0
    before = least_counts(lines)
    found = [name for name, count in before.items() if now.get(name, math.inf) > count * MAX_MORE]
    print("| command | instructions, best | now | | |\n|---|--:|--:|--:|---|")
    for name, count in before.items():
        new = now.get(name, 0)
        print(f"| {name} | {count:,} | {new:,} | {new / count - 1:+.1%} | {'SLOWER' if name in found else ''} |")
    for name, reason in uncounted.items():
        print(f"not counted: {name}: {reason}", file=sys.stderr)
    newest = str(lines[-1]["commit"])
    later = (git("rev-list", "--count", f"{newest}..HEAD", "--", "src") or "").strip()
    if later not in ("", "0"):
        print(
            f"\nThe newest line of bench/history.jsonl is of {newest}; {later} later commits changed src/ (`bench.trend record`)."
        )
    return int(bool(found))


def comparable(lines: Sequence[dict[str, Any]], build: str, now: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the lines whose counts depend on the same build of Python, from the last accepted one on."""
    bare = now.get(BARE, 0)
    kept: list[dict[str, Any]] = []
    for line in lines:
        counts = line.get("instructions", {})
        if line.get("build") == build and abs(counts.get(BARE, 0) - bare) <= SAME_INTERPRETER * bare:
            kept = [line] if line.get("accepted") else [*kept, line]
    return kept


def least_counts(lines: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the least count of each command that the newest line has, but the bare interpreter."""
    names = [name for name in lines[-1]["instructions"] if name != BARE]
    return {name: min(line["instructions"].get(name, math.inf) for line in lines) for name in names}


def _check(options: argparse.Namespace) -> int:
    """Measure a commit and this checkout in turn, and print the least CPU time of each command; return 1 if one is slower."""
    least: list[dict[str, float]] = [{}, {}]
    with (
        tempfile.TemporaryDirectory(prefix="trend-") as made,
        checked_out(options.commit or "HEAD~1", Path(made)) as old,
    ):
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


def _measure(checkout: Checkout, made: Path, rounds: int) -> dict[str, Case]:
    """Prepare the homes, then run all commands in turn; the first round is not counted."""
    asked = questions(rounds + 1, seed=SEED)
    with prepared_cases(checkout, made) as cases:
        for number in range(rounds + 1):
            for case in cases.values():
                if not case.failure:
                    command = case.command(checkout, asked[number], number)
                    take(case, command, checkout.environment(case.place, case.settings), counted=number > 0)
    return cases


# -- commits -------------------------------------------------------------------------------------------------------------


def _commits(options: argparse.Namespace) -> int:
    """Try each commit since a revision; print those that cannot be used, and return 1 if there are any."""
    listed = git("rev-list", "--reverse", f"{options.since}..HEAD")
    if listed is None:
        raise SystemExit(f"bench: no such commit: {options.since}")
    commits = listed.split()
    if len(commits) > MAX_COMMITS:
        raise SystemExit(f"bench: {len(commits)} commits since {options.since}; at most {MAX_COMMITS} are tried")
    broken = 0
    for commit in commits:
        with tempfile.TemporaryDirectory(prefix="commit-") as made, checked_out(commit, Path(made)) as folder:
            reason = _unusable(Checkout.at(folder), Path(made) / "app")
        broken += bool(reason)
        print(
            f"{'BROKEN' if reason else 'ok':6} {git('show', '-s', '--format=%h %s', commit)} {reason}".rstrip(),
            flush=True,
        )
    print(f"{broken} of {len(commits)} commits cannot be used")
    return int(bool(broken))


def _unusable(checkout: Checkout, project: Path) -> str:
    """Return why a module of a checkout cannot be imported, or why a search does not find the file that was indexed."""
    make_project(project)
    (project / "notes.md").write_text("# Cache\n\nThe cache is Redis.\n", "utf-8")
    environment = checkout.environment(project, {"EMBEDDING_PROVIDER": "none"})
    script = _IMPORT_ALL.format(package=checkout.package)
    for command in ([sys.executable, "-c", script], checkout.command("index", "notes.md")):
        if reason := run_quietly(command, environment, project):
            return reason
    search = checkout.command("search", "redis", "--json")
    done = subprocess.run(search, env=environment, cwd=project, capture_output=True, text=True, check=False)
    if done.returncode or "notes.md" not in done.stdout:
        return " ".join((done.stderr or done.stdout).split())[-200:] or "the search found nothing"
    return ""


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
