"""Measures deliveries on real sessions, per team, with intervals over sessions.

    python -m bench.delivery TEAM_FOLDER... --labels FILE [--out DIR] [--jobs N] [--only CONDITION]...

Conditions: `judge` (the labels are the judge), `none` (nobody judges), `wrong` (one label of ten is wrong), `placebo` (the memory of
another team), `bm25` (the three nearest notes with every prompt, at the same tokens). Each is a replay of all sessions of a team; deliveries
are kept in `--out`, so that a second call only counts.

What readers say of a shown line is in `judged.tsv`, under a digest of the session, the moment, what it was about and the line; the texts
are not kept. `--sample N` writes lines that nobody has judged to `--out`, to be read.

- repeated corrections: what users had to say again (`repeated.tsv`) and whether the rule was shown in that session before;
- repeated failures: failed commands whose shape and error had been seen in at least two earlier sessions, and
  whether the call was announced, with a command that then passed;
- false alarms: lines shown before a call that readers call noise or wrong, in 1,000 calls; the share of those that were read counts for all.

Exits with 1 if a target is missed. Capture has measurements of its own: `bench.delivery.notes`, `.statements`; and so has the cost of cues: `.cues`.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import random
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any

from bench.delivery.recorded_judge import RecordedJudge
from bench.delivery.timeline import Session, read_team

CONDITIONS = ("judge", "none", "wrong", "placebo", "bm25")
JUDGED, REPEATED = (Path(__file__).with_name(name) for name in ("judged.tsv", "repeated.tsv"))
LABELS = ("wanted", "harmless", "noise", "wrong")
_ERROR_SHARE = 0.1
_MAX_WRONG = {"judge": 0.03, "none": 0.02}
_PLACEBO_SHARE = 0.005
"""Lines in a call that a memory of another team may bring."""
_BM25_TOKENS = 700
"""Tokens of a session, as lorelog uses in the median."""
_IDS = re.compile(r"\(?\b(?:id|memory) [\w-]+\)?|\S*/(?:replay-\w+|\.lorelog)/\S*")
_ANNOUNCED = re.compile(r"`(.+?)` passed instead")
_ERROR_LINE = re.compile(r"error|fail|not found|cannot|unrecognized|unknown|denied|no such", re.IGNORECASE)
_SUMMARY_LINE = re.compile(
    r"task failed|^\W*\d+ (?:\w+ )?(?:fail|error|problem)|^FAIL$|exit code|exited with", re.IGNORECASE
)
"""Ends every failed run of a linter or of tests, whatever failed."""
_PLACE = re.compile(r"^\W*[\w./-]+(?::\d+|\.\w+$)|^(?:---|===)? ?FAIL:?\s")
"""Begins a line about a file, or about a test."""
_PREFIXES = ("$ ", "Exit code", "Chunk ID", "Wall time", "Process exited", "Total output", "Output:")
_LATER_CALLS = 6


Labels = dict[str, str]


@dataclass(frozen=True)
class Figure:
    """Something measured, and whether it meets its target."""

    name: str
    value: str
    is_met: bool = True


@dataclass(frozen=True)
class ShownLine:
    """A line that was shown at a moment of a session."""

    session: str
    at: str
    moment: str
    about: str
    line: str

    @property
    def digest(self) -> str:
        """Under it readers store their judgement."""
        text = f"{self.session}\n{self.moment}\n{' '.join(self.about.split())[:300]}\n{_IDS.sub('', self.line)}"
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


@dataclass
class Team:
    """The sessions of a team, what was said again, and which failures were repeated."""

    name: str
    sessions: list[Session]
    calls: int = 0
    corrections: list[tuple[str, str, str, tuple[str, ...]]] = field(default_factory=list)
    """Session, time and subject of what was said again, and the wordings of its rules."""
    failures: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Session, call, command and the command that passed next."""
    passed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Ids of the calls that passed, by session."""


def read_lines(file: Path) -> list[ShownLine]:
    """Return the shown lines of a replay's deliveries."""
    found = []
    for row in map(json.loads, file.read_text("utf-8").splitlines()):
        lines = [line for line in row["shown"].splitlines() if line.startswith(("- ", "* "))]
        found += [ShownLine(row["session"], row["at"], row["moment"], row["about"], line) for line in lines]
    return found


def load_team(folder: Path, labels: Path) -> Team:
    """Return a team with its repetitions."""
    team = Team(folder.name, read_team(folder))
    _find_failures(team)
    judge = RecordedJudge.read(labels)
    by_text = {session.name: session for session in team.sessions}
    groups: dict[str, list[dict[str, str]]] = defaultdict(list)
    with REPEATED.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream, delimiter="\t"):
            if row["team"].replace("/", "+") == team.name:
                groups[row["subject"]].append(row)
    for subject, rows in groups.items():
        digests = [row["digest"] for row in rows]
        wordings = [judge.answers.get(digest, {}).get("wording") or "" for digest in digests]
        wordings += [judge.labels.get(digest, ("", ""))[1] for digest in digests]
        for row in sorted(rows, key=lambda row: row["time"])[1:]:
            session = next((name for name, session in by_text.items() if _covers(session, row["time"])), "")
            team.corrections.append((session, row["time"], subject, (subject, *filter(None, wordings))))
    return team


def _covers(session: Session, at: str) -> bool:
    return any(event.at == at for event in session.events) or bool(
        session.events and session.started <= at <= session.events[-1].at and _has_line(session, at)
    )


def _has_line(session: Session, at: str) -> bool:
    return any(at in line for line in session.lines)


def _find_failures(team: Team) -> None:
    """Note the repeated failures. Shapes are made here, not by lorelog's own code."""
    seen: dict[tuple[str, str], set[str]] = defaultdict(set)
    for session in team.sessions:
        runs = [event for event in session.events if event.moment in {"tool-after", "tool-failed"}]
        team.calls += len(runs)
        team.passed[session.name] = {event.call for event in runs if event.moment == "tool-after"}
        known: set[tuple[str, str]] = set()
        for number, event in enumerate(runs):
            command = str(event.arguments.get("command") or "")
            if event.moment != "tool-failed" or not command:
                continue
            key = (_shape(command), _error(event.output))
            if len(seen[key]) >= 2 and key not in known:  # the first of a session: shown once
                later = runs[number + 1 : number + 1 + _LATER_CALLS]
                words = set(_shape(command).split())
                next_passed = (
                    str(other.arguments.get("command") or "")
                    for other in later
                    if other.moment == "tool-after"
                    and words & set(_shape(str(other.arguments.get("command") or "")).split()) - {"N>&N", "|"}
                )
                team.failures.append((session.name, event.call, command, next(next_passed, "")))
            known.add(key)
        for key in known:
            seen[key].add(session.name)


def _shape(command: str) -> str:
    command = re.sub(r"<<.*", "", command, flags=re.DOTALL)
    command = re.sub(r'"[^"]*"|\'[^\']*\'', "S", command)
    command = re.sub(r"\b[0-9a-f]{7,}\b|\d+", "N", command)
    return " ".join(re.sub(r"(?<![\w-])[\w.@~-]*/[\w./@*-]*", "P", command).split())[:120]


def _error(output: str) -> str:
    """Return what failed: of linters and tests the first rule with its file, or test; otherwise the first line of an error."""
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith(_PREFIXES)]
    lines = [line for line in lines if not _SUMMARY_LINE.search(line)] or lines
    place = next((line for line in lines if _PLACE.search(line)), "")
    chosen = place or next((line for line in lines if _ERROR_LINE.search(line)), lines[0] if lines else "")
    masked = chosen if place else re.sub(r'"[^"]*"|[\w.@~-]*/[\w./@-]*', "P", chosen)
    return re.sub(r"[0-9a-f]{7,}|\d+", "N", masked)[:160]


def read_judged() -> Labels:
    """Return the label of each judged line; where two readers differ, the first one's."""
    with JUDGED.open(encoding="utf-8", newline="") as stream:
        return {row["digest"]: row["label"] for row in csv.DictReader(stream, delimiter="\t")}


def measure(
    team: Team, condition: str, shown: Sequence[ShownLine], tokens: Counter[str], judged: Labels
) -> Iterator[Figure]:
    """Yield what was measured under one condition."""
    is_own = condition in {"judge", "none", "wrong"}
    lines = [line for line in shown if line.moment != "session-start"]
    yield Figure("deliveries", f"{len(lines):,}", condition != "placebo" or len(lines) <= _PLACEBO_SHARE * team.calls)
    labels = [(line.session, judged[line.digest]) for line in lines if line.digest in judged]
    limits = {"wrong": _MAX_WRONG[condition]} if condition in _MAX_WRONG else {}
    yield from _measure_labels("", labels, limits, {"wanted": 0.6} if condition == "judge" else {})
    starts = [line for line in shown if line.moment == "session-start"]
    labels = [(line.session, judged[line.digest]) for line in starts if line.digest in judged]
    yield Figure("lines at session starts", f"{len(starts):,}")
    yield from _measure_labels("… ", labels, limits, {})
    if team.corrections:
        announced = sum(_is_announced(shown, correction) for correction in team.corrections)
        is_met = condition != "judge" or announced >= 14 / 22 * len(team.corrections)
        yield Figure("repeated corrections announced before", f"{announced} of {len(team.corrections)}", is_met)
    if is_own:
        yield from _measure_failures(team, shown, judged)
    per_session = [tokens.get(session.name, 0) for session in team.sessions]
    cuts = quantiles(per_session, n=20) if len(per_session) > 1 else per_session * 19
    yield Figure("tokens of a session: median, 95th percentile", f"{cuts[9]:.0f}, {cuts[18]:.0f}", cuts[9] <= 750)


def _measure_labels(
    prefix: str, labels: Sequence[tuple[str, str]], most: dict[str, float], least: dict[str, float]
) -> Iterator[Figure]:
    """Yield the share of each label with its interval over sessions."""
    for label in LABELS if labels else ():
        share = sum(given == label for _, given in labels) / len(labels)
        is_met = least.get(label, 0) <= share <= most.get(label, 1)
        yield Figure(f"{prefix}{label}, of {len(labels):,} judged", _share(labels, label), is_met)


def _is_announced(shown: Sequence[ShownLine], correction: tuple[str, str, str, tuple[str, ...]]) -> bool:
    session, at, _, wordings = correction
    earlier = (line.line for line in shown if line.session == session and line.at < at)
    return any(_has(line, wording) for line in earlier for wording in wordings)


def _measure_failures(team: Team, shown: Sequence[ShownLine], judged: Labels) -> Iterator[Figure]:
    before: dict[str, list[ShownLine]] = defaultdict(list)
    for line in shown:
        if line.moment == "tool-before":
            before[line.session].append(line)
    found = right = named = 0
    for session, _, command, passed in team.failures:
        shape = _shape(command).split()[:3]
        lines = [line for line in before[session] if _ANNOUNCED.search(line.line) and all(word in line.line for word in shape if word.isalpha())]  # fmt: skip
        if lines:
            found += 1
            remedy = _ANNOUNCED.findall(lines[0].line)[0]
            named += bool(passed)
            right += bool(passed) and bool(set(remedy.split()) & set(passed.split()))
    yield Figure(
        "repeated failures announced before the call",
        f"{found} of {len(team.failures)}",
        found >= 0.6 * len(team.failures),
    )
    yield Figure("… the remedy is what then passed", f"{right} of {named}", right >= 0.9 * named)
    lines = [line for found in before.values() for line in found]
    read = [judged[line.digest] for line in lines if line.digest in judged]
    alarms = sum(label in {"noise", "wrong"} for label in read) / max(1, len(read)) * len(lines)
    rate = 1000 * alarms / max(1, team.calls)
    yield Figure(
        "false alarms in 1,000 calls", f"{rate:.1f} ({len(lines):,} lines, {len(read):,} of them judged)", rate <= 2
    )


def _has(line: str, wording: str) -> bool:
    return bool(wording) and " ".join(wording.split())[:100].rstrip(". ") in line


def _share(known: Sequence[tuple[str, str]], label: str) -> str:
    """Return the share of a label, with its interval over sessions."""
    sessions: dict[str, list[str]] = defaultdict(list)
    for session, given in known:
        sessions[session].append(given)
    counts = [(sum(given == label for given in labels), len(labels)) for labels in sessions.values()]
    chance, total = random.Random(7), sum(size for _, size in counts)
    draws = []
    for _ in range(1_000):
        drawn = [chance.choice(counts) for _ in counts]
        draws.append(sum(hits for hits, _ in drawn) / sum(size for _, size in drawn))
    low, *_, high = quantiles(draws, n=40)
    return f"{100 * sum(hits for hits, _ in counts) / total:.0f} % ({100 * low:.0f}-{100 * high:.0f})"


def replay_all(folders: Sequence[Path], options: argparse.Namespace) -> None:
    """Replay every team under every condition that has no deliveries yet."""

    def arguments(folder: Path, condition: str) -> list[str]:
        words = [
            sys.executable,
            "-m",
            "bench.delivery.replay",
            str(folder),
            "--out",
            str(_file(options.out, condition, folder)),
        ]
        words += ["--vectors"] if options.vectors else []
        others = [other for other in folders if other != folder]
        more: dict[str, list[str]] = {
            "none": [],
            "bm25": ["--bm25", str(_BM25_TOKENS)],
            "judge": ["--labels", str(options.labels)],
            "wrong": ["--labels", str(options.labels), "--errors", str(_ERROR_SHARE)],
            "placebo": ["--labels", str(options.labels), "--memory", *map(str, others[:1])],
        }
        return words + more[condition]

    conditions = [condition for condition in options.only or CONDITIONS if condition != "placebo" or len(folders) > 1]
    wanted = [(folder, condition) for folder in folders for condition in conditions]
    missing = [pair for pair in wanted if not _file(options.out, pair[1], pair[0]).exists()]
    with ThreadPoolExecutor(options.jobs) as pool:
        for done in pool.map(
            lambda pair: subprocess.run(arguments(*pair), check=False, capture_output=True, text=True), missing
        ):
            if done.returncode:
                print(done.stderr[-2_000:], file=sys.stderr)


def _file(out: Path, condition: str, folder: Path) -> Path:
    return out / f"{condition}.{folder.name}.jsonl"


def sample_lines(folders: Sequence[Path], options: argparse.Namespace, judged: Labels) -> None:
    """Write lines that nobody has judged, the same number of each team and moment, in an order of chance."""
    chance, rows = random.Random(30), []
    for folder in folders:
        groups: dict[str, list[ShownLine]] = defaultdict(list)
        for condition in options.only or CONDITIONS:
            if _file(options.out, condition, folder).exists():
                for line in read_lines(_file(options.out, condition, folder)):
                    if line.digest not in judged:
                        groups[line.moment].append(line)
        for lines in groups.values():
            unique = list({line.digest: line for line in lines}.values())
            rows += [{"digest": line.digest, "team": folder.name, **vars(line)} for line in chance.sample(unique, min(options.sample, len(unique)))]  # fmt: skip
    chance.shuffle(rows)
    file = options.out / "to_judge.jsonl"
    file.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), "utf-8")
    print(f"{len(rows)} lines to judge: {file}")


def main(argv: Sequence[str] | None = None) -> int:
    """Replay the teams under all conditions and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teams", nargs="+", type=Path, metavar="TEAM_FOLDER")
    parser.add_argument("--labels", type=Path, required=True, help="labels of the statements")
    parser.add_argument(
        "--out", type=Path, default=Path(".bench/delivery"), help="folder of the deliveries; do not commit it"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", action="append", choices=CONDITIONS)
    parser.add_argument("--vectors", action="store_true", help="with the vectors of the built-in model")
    parser.add_argument(
        "--sample", type=int, default=0, help="write this many lines of each team and moment to be judged"
    )
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    replay_all(options.teams, options)
    judged = read_judged() if JUDGED.exists() else {}
    if options.sample:
        sample_lines(options.teams, options, judged)
        return 0
    missed = []
    for folder in options.teams:
        team = load_team(folder, options.labels)
        print(f"\n## {team.name}: {len(team.sessions)} sessions, {team.calls:,} calls")
        for condition in options.only or CONDITIONS:
            file = _file(options.out, condition, folder)
            if not file.exists():
                continue
            rows: list[dict[str, Any]] = list(map(json.loads, file.read_text("utf-8").splitlines()))
            tokens: Counter[str] = Counter()
            for row in rows:
                tokens[row["session"]] += row["tokens"]
            print(f"\n### {condition}\n\n| | |\n|---|--:|")
            for figure in measure(team, condition, read_lines(file), tokens, judged):
                print(f"| {figure.name} | {figure.value}{'' if figure.is_met else ' (missed)'} |")
                missed += [] if figure.is_met else [f"{team.name}, {condition}: {figure.name} {figure.value}"]
    print("\n" + ("\n".join(["MISSED:", *missed]) if missed else "ok"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
