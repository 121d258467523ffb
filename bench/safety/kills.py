"""Kill cycles: each verb that writes is killed at a random moment, and what is left is checked.

    python -m bench.safety.kills [--cycles 1000] [--verbs add task forget …] [--kills 100] [--seed 1] [--json]

The moments are spread over the time that the verb takes when it is not killed. After each kill the next commands run as a
person would run them, and the files are read: nothing acknowledged may be lost, nothing may be there twice, no entry may be one that
is not registered as written here, and nothing may be left of what was forgotten. With `--kills`, 24 processes write over one daemon, which is killed
that often. Two verbs run at a time. The trials are in `kill_trials.py`; tests run them briefly. The last
rows are the trials of `bench.safety.promises`, with a hundredth of the cycles.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict

from bench.safety.kill_trials import TRIALS, KillReport, run_kill_trial, run_writers
from bench.safety.promises import try_promises

TRIALS_BY_VERB = {trial.verb: trial for trial in TRIALS}


def run_verb(verb: str, cycles: int, seed: int) -> list[KillReport]:
    """Run the trial of a verb."""
    return [run_kill_trial(TRIALS_BY_VERB[verb], cycles, seed=seed)]


def run_daemon_kills(kills: int, seed: int) -> list[KillReport]:
    """Kill the daemon of 24 writers."""
    return [run_writers(kills, seed=seed)]


def run_promises(cycles: int) -> list[KillReport]:
    """Run the trials of `bench.safety.promises`."""
    return [
        KillReport(
            trial.name, cycles, acknowledged=trial.acknowledged, failed=len(trial.faults), faults=trial.faults[:10]
        )
        for trial in try_promises(cycles)
    ]


def main() -> int:
    """Run the trials and print a row each; exit 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--verbs", nargs="*", choices=sorted(TRIALS_BY_VERB), default=list(TRIALS_BY_VERB))
    parser.add_argument("--kills", type=int, default=0, help="of the daemon below 24 writers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    started, reports = time.monotonic(), []
    columns = ("verb", "cycles", "killed", "acknowledged", "lost", "twice", "foreign", "residues", "failed")
    if not args.json:
        print("| " + " | ".join(columns) + " |\n|---|" + "--:|" * (len(columns) - 1), flush=True)
    with ProcessPoolExecutor(args.jobs, max_tasks_per_child=1) as pool:
        futures = [pool.submit(run_verb, verb, args.cycles, args.seed) for verb in args.verbs]
        futures += [pool.submit(run_daemon_kills, args.kills, args.seed)] if args.kills else []
        if len(args.verbs) == len(TRIALS):
            futures.append(pool.submit(run_promises, max(1, args.cycles // 100)))
        for report in (report for future in futures for report in future.result()):
            reports.append(report)
            if not args.json:
                print("| " + " | ".join(str(getattr(report, name)) for name in columns) + " |", flush=True)
    if args.json:
        print(json.dumps([{**asdict(report), "ok": report.ok} for report in reports], indent=2))
    else:
        print(f"{time.monotonic() - started:,.0f} s")
        for report in reports:
            for fault in report.faults:
                print(f"{report.verb}: {fault}", file=sys.stderr)
    return 0 if all(report.ok for report in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
