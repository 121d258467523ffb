"""Cues in made-up sessions: is the right memory in context before the call, and nothing else?

Rules are stated in real sessions: typed corrections are captured from a transcript, the others are added by `lorelog
add`, into a real home. Then every session makes its calls through the real hook (`lorelog hook claude tool-before`, and
`tool-failed` for failures), in this process; a sample runs as processes of their own and must give the same answer.

Wanted: the memory is shown in every seeded case; at most 1 of 100 unrelated calls shows anything. Rules with other tools
and phrases, which the derivation of cues was not written for, are reported apart, without a target.

    python -m bench.delivery.sessions [--seed 1] [--unrelated 2400] [--processes 20] [--show] [--only SET]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.delivery.held_out import make_held_out_projects
from bench.delivery.hook_calls import Bench, ToolUse, claude_line
from bench.delivery.made_up import MadeUpProject, Rule, make_projects, unrelated_calls

MAX_FALSE_SHARE = 0.01
SETS = ("made-up", "held-out", "unseen")
_QUOTED_CHARS = 40


@dataclass
class SessionResults:
    """Counts, and the cases to read."""

    seeded: int = 0
    unrelated: int = 0
    missed: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    surplus: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    processes: int = 0

    @property
    def is_ok(self) -> bool:
        """True if every target is met."""
        return not self.missed and not self.differing and len(self.false) <= MAX_FALSE_SHARE * self.unrelated


def main(argv: Sequence[str] | None = None) -> int:
    """Run all sessions and print the counts; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unrelated", type=int, default=2400, help="number of unrelated calls")
    parser.add_argument("--processes", type=int, default=20, help="seeded calls that run as processes, too")
    parser.add_argument("--only", choices=SETS, help="run one set of rules")
    parser.add_argument("--show", action="store_true", help="print every missed and every false case")
    options = parser.parse_args(argv)
    is_ok = True
    for name in SETS if options.only is None else (options.only,):
        with tempfile.TemporaryDirectory(prefix="delivery-") as folder:
            bench = Bench(Path(folder).resolve())
            with bench.active():
                results = measure(bench, options, name)
        report(results, name, show=options.show)
        is_ok = is_ok and (results.is_ok or name != "made-up")
    return 0 if is_ok else 1


def measure(bench: Bench, options: argparse.Namespace, name: str) -> SessionResults:
    """State the rules of all projects of a set, then run the sessions."""
    results = SessionResults()
    projects = make_projects(options.seed) if name == "made-up" else make_held_out_projects(unseen=name == "unseen")
    sessions = sum(len(project.rules) for project in projects)
    rng = random.Random(options.seed)
    sampled = set(rng.sample(range(sessions), min(options.processes, sessions)))
    number = 0
    for project in projects:
        root = bench.make_project(project.name)
        rules = [_placed_rule(rule, bench, root) for rule in project.rules]
        placed = replace(project, rules=tuple(rules))
        state_rules(bench, root, placed)
        for rule in rules:
            count = options.unrelated // sessions + (number < options.unrelated % sessions)
            calls = unrelated_calls(placed, str(root), rng, count)
            run_session(bench, root, f"session-{number}", rule, calls, results)
            if number in sampled:
                _compare_process(bench, root, f"process-{number}", rule, results)
            number += 1
    return results


def state_rules(bench: Bench, root: Path, project: MadeUpProject) -> None:
    """State the rules: typed ones in a conversation that is captured, the others by a command."""
    typed = [rule for rule in project.rules if rule.is_typed]
    lines: list[str] = []
    for number, rule in enumerate(typed):
        at = f"2026-03-05T{9 + number:02d}:00:00.000Z"
        more = {"sessionId": f"stated-{root.name}", "cwd": str(root)}
        text = [{"type": "text", "text": "I started with the change."}]
        lines += [
            claude_line("user", f"u{number}", f"Go on with part {number} of the change", at, **more),
            claude_line("assistant", f"a{number}", text, at, **more),
            claude_line("user", f"c{number}", f"{rule.opening}{rule.text}", at.replace(":00:00.", ":05:00."), **more),
            claude_line("assistant", f"b{number}", text, at.replace(":00:00.", ":06:00."), **more),
        ]
    if lines:
        transcript = bench.root / f"{root.name}.jsonl"
        transcript.write_text("".join(lines), "utf-8")
        bench.capture(root, transcript, f"stated-{root.name}")
    for statement in project.prose:
        bench.run_command("add", statement, "--type", "preference", "--project", str(root))
    for rule in project.rules:
        if not rule.is_typed:
            bench.run_command("add", rule.text, "--type", "correction", "--project", str(root), *rule.options)


def run_session(
    bench: Bench, root: Path, session: str, rule: Rule, calls: Sequence[ToolUse], results: SessionResults
) -> None:
    """Make unrelated calls, then the call that the rule is about."""
    for number, use in enumerate(calls):
        results.unrelated += 1
        text = bench.call(use, session, number, root)
        if text:
            results.false.append(f"{root.name} | {use} | {_one_line(text)}")
    results.seeded += 1
    text = bench.call(rule.seeded, f"{session}-seeded", len(calls), root)
    if not _shows(text, rule):
        results.missed.append(
            f"{root.name} | {'typed' if rule.is_typed else 'added'} | {rule.text} | {rule.seeded} | {_one_line(text)}"
        )
    elif text.count("(memory ") > 1:
        results.surplus.append(f"{root.name} | {rule.text} | {_one_line(text)}")


def report(results: SessionResults, name: str, *, show: bool) -> None:
    """Print the counts, and the cases if requested or wrong."""
    share = len(results.false) / max(1, results.unrelated)
    print(f"| {name} sessions | measured | wanted | |\n|---|--:|--:|---|")
    hits = results.seeded - len(results.missed)
    print(f"| seeded rules shown before the call | {hits} of {results.seeded} | all | {_verdict(not results.missed)} |")
    print(
        f"| unrelated calls with a delivery | {len(results.false)} of {results.unrelated} ({share:.2%}) "
        f"| at most 1 % | {_verdict(share <= MAX_FALSE_SHARE)} |"
    )
    same = results.processes - len(results.differing)
    print(f"| same answer as a process | {same} of {results.processes} | all | {_verdict(not results.differing)} |")
    print(f"| seeded calls that brought another memory, too | {len(results.surplus)} | | |")
    cases: dict[str, list[str]] = {"missed": results.missed, "differing": results.differing}
    if show or not results.is_ok:
        cases |= {"false": results.false, "surplus": results.surplus if show else []}
    for label, lines in cases.items():
        for line in lines:
            print(f"{label}: {line}")


def _compare_process(bench: Bench, root: Path, session: str, rule: Rule, results: SessionResults) -> None:
    results.processes += 1
    text = bench.call_process(rule.seeded, session, 0, root)
    if not _shows(text, rule):
        results.differing.append(f"{root.name} | {rule.seeded} | {_one_line(text)}")


def _placed_rule(rule: Rule, bench: Bench, root: Path) -> Rule:
    """Return a rule whose calls name files of the real project."""
    return replace(rule, seeded=_placed(rule.seeded, root), near=tuple(_placed(use, root) for use in rule.near))


def _placed(use: ToolUse, root: Path) -> ToolUse:
    def place(value: Any) -> Any:
        return value.replace("{root}", str(root.parent)) if isinstance(value, str) else value

    return replace(use, arguments={name: place(value) for name, value in use.arguments.items()})


def _shows(text: str, rule: Rule) -> bool:
    words = " ".join(rule.text.split())[:_QUOTED_CHARS].lower()
    return words in " ".join(text.split()).lower()


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


def _verdict(is_ok: bool) -> str:  # noqa: FBT001
    return "ok" if is_ok else "MISSED"


if __name__ == "__main__":
    sys.exit(main())
