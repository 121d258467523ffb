"""`lorelog doctor --chaos`: run the trials and print what held."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import to_builtins

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.chaos.faults import FaultReport, run_fault_trials
from lorelog.surfaces.cli.chaos.kills import TRIALS, KillReport, run_kill_trial
from lorelog.surfaces.cli.render import one_line, plural, print_json, stylize

if TYPE_CHECKING:
    import argparse

_CYCLES = 10
_MAX_SHOWN_FAULTS = 5


def run_chaos(args: argparse.Namespace) -> int:
    """Run every trial, print a line for each as it ends, and return 1 if a promise was broken."""
    cycles = _CYCLES if args.cycles is None else args.cycles
    if cycles < 1:
        raise UsageError(f"--cycles {cycles} is not a number of kills", hint="lorelog doctor --chaos --cycles 100")
    if not hasattr(os, "fork"):
        raise UsageError("--chaos needs a system that can fork processes", hint="run it on Linux or macOS")
    trials, ok = [], True
    for report in _run_trials(cycles, is_quiet=args.json):
        ok = ok and report.ok
        trials.append({**to_builtins(report), "ok": report.ok})
        if not args.json:
            _show(report)
    if args.json:
        print_json({"ok": ok, "trials": trials})
    elif ok:
        print("Every promise held.")
    return 0 if ok else 1


def _run_trials(cycles: int, *, is_quiet: bool) -> Iterator[KillReport | FaultReport]:
    shows_progress = not is_quiet and sys.stderr.isatty()
    for trial in TRIALS:

        def show_progress(number: int, verb: str = trial.verb) -> None:
            print(f"\r\033[K{verb}: {number} of {cycles}", end="", file=sys.stderr, flush=True)

        report = run_kill_trial(trial, cycles, seed=os.getpid(), progress=show_progress if shows_progress else None)
        if shows_progress:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        yield report
    yield from run_fault_trials()


def _show(report: KillReport | FaultReport) -> None:
    if isinstance(report, KillReport):
        counts = f"{report.lost} lost, {report.twice} twice, {report.residues} left behind, {report.failed} failed"
        killed = f"killed {plural(report.killed, 'time')} in {plural(report.cycles, 'cycle')}"
        text = f"{report.verb}: {killed}, {report.acknowledged} acknowledged: {counts}"
        if report.ok and not report.killed:
            print(f"{stylize('skip', 'yellow')}  {one_line(text)}; more cycles are needed to hit it")
        else:
            _print_line(report.ok, text)
    elif report.ran:
        _print_line(report.ok, f"{report.name}: {report.how}")
    else:
        print(f"{stylize('skip', 'yellow')}  {report.name}: not run, because {report.how}")
    for fault in report.faults[:_MAX_SHOWN_FAULTS]:
        print(f"      {one_line(fault)}")


def _print_line(is_ok: bool, text: str) -> None:  # noqa: FBT001
    mark = stylize("ok  ", "green") if is_ok else stylize("fail", "red")
    print(f"{mark}  {one_line(text)}", flush=True)
