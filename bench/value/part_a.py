"""A: real sessions, counterfactual: of what happened twice, how much was announced before the second time, and at what cost?

The sessions that public repositories keep on the branch `entire/checkpoints/v1` are replayed through the real hooks in order of time
(`bench.delivery.replay`), each repository apart, with a memory that holds only the past and no model as judge. Two kinds of events, fixed
before anything was delivered:

- a failed command whose shape and error two earlier sessions had, and that another command followed which passed: announced if a line that
  the session was shown before the call has that other command;
- a file that an earlier session had read is read again: announced if a line shown before names it, by folder and name.

Arms: lorelog without vectors and without a judge, BM25's three nearest notes with each prompt at the same tokens, and a memory of another
team (placebo). Nothing is shown in the arm `nothing`, and `oracle` announces all.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.delivery.__main__ import Team, _find_failures
from bench.delivery.timeline import read_team
from bench.result import Verdicts, format_table, head_commit
from bench.value.intervals import mean, share
from bench.value.issues import names_file
from bench.value.sources import GitSource, SourceMissing, find_source

TEAMS = ("PackmindHub/context-evaluator", "EntityProcess/agentv", "entireio/cli")
_BRANCH = "entire/checkpoints/v1"
_ARMS = ("lorelog", "BM25", "placebo")
_BM25_TOKENS = 700


@dataclass(frozen=True)
class Announcement:
    """A repeated event under one arm."""

    team: str
    arm: str
    kind: str
    session: str
    announced: bool


@dataclass(frozen=True)
class Cost:
    """What a session was shown under one arm."""

    team: str
    arm: str
    tokens: int
    calls: int
    alarms: int
    """Lines shown before calls that passed."""


def run_part(sources: Path, keep: Path, deadline: float) -> tuple[list[Announcement], list[Cost]]:
    """Replay the teams whose repositories are there, under every arm; deliveries of the same commit are not made again."""
    folders = []
    for name in TEAMS:
        try:
            folders.append(_extract(find_source(sources, name), keep / "teams" / name.replace("/", "+")))
        except SourceMissing:
            print(f"left out: {name} is not in {sources}", file=sys.stderr)
    announcements: list[Announcement] = []
    costs: list[Cost] = []
    for folder in folders:
        team = Team(folder.name, read_team(folder))
        _find_failures(team)
        others = [other for other in folders if other != folder]
        for arm in _ARMS:
            file = keep / f"{arm}.{head_commit()}.{folder.name}.jsonl"
            if not file.exists() and time.monotonic() < deadline and (others or arm != "placebo"):
                _replay(folder, arm, file, others, deadline - time.monotonic())
            if file.exists():
                found = _Shown(file)
                announcements += _announcements(team, arm, found)
                costs += _costs(team, arm, found)
    return announcements, costs


def _extract(source: GitSource, folder: Path) -> Path:
    """Write the largest checkpoint of each session to a folder; return the folder."""
    if folder.exists():
        return folder
    words = ["git", "-C", str(source.folder), "for-each-ref", "--format=%(refname)"]
    refs = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    ref = next((ref for ref in refs if ref.endswith(f"/{_BRANCH}")), "")
    if not ref:
        raise SourceMissing(f"{source.folder} has no branch {_BRANCH}")
    branch = source.at(ref)
    best: dict[str, str] = {}
    for path in branch.paths():
        if path.endswith("/full.jsonl"):
            try:
                session = str(branch.json(path.replace("full.jsonl", "metadata.json"))["session_id"])
                text = branch.text(path)
            except (subprocess.CalledProcessError, ValueError, KeyError):  # left out of a snapshot, or torn
                continue
            if len(text) > len(best.get(session, "")):
                best[session] = text
    folder.mkdir(parents=True)
    for session, text in best.items():
        (folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', session)}.jsonl").write_text(text, "utf-8")
    return folder


def _replay(folder: Path, arm: str, file: Path, others: Sequence[Path], seconds: float) -> None:
    words = [
        sys.executable,
        "-m",
        "bench.delivery.replay",
        str(folder),
        "--out",
        str(file),
        "--seconds",
        f"{seconds:.0f}",
    ]
    words += {"lorelog": [], "BM25": ["--bm25", str(_BM25_TOKENS)], "placebo": ["--memory", *map(str, others[:1])]}[arm]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-1_000:], file=sys.stderr)


class _Shown:
    """The deliveries of a replay, by session."""

    def __init__(self, file: Path) -> None:
        self.rows: dict[str, list[tuple[str, str, str, int]]] = defaultdict(list)
        for row in map(json.loads, file.read_text("utf-8").splitlines()):
            self.rows[row["session"]].append((row["at"], row["moment"], row["shown"], row["tokens"]))

    def lines(self, session: str, until: str) -> list[str]:
        """Return the lines that a session was shown up to a time."""
        return [line for at, _, shown, _ in self.rows[session] if at <= until for line in shown.splitlines()]


def _announcements(team: Team, arm: str, shown: _Shown) -> Iterator[Announcement]:
    times = {
        event.call: event.at for session in team.sessions for event in session.events if event.moment == "tool-before"
    }
    for session, call, command, passed in team.failures:
        failed, remedy = _core(command), _core(passed)
        if remedy and failed and remedy != failed:
            lines = (line.replace(failed, "") for line in shown.lines(session, times.get(call, "")))
            yield Announcement(team.name, arm, "failure", session, any(remedy in line for line in lines))
    read: set[str] = set()
    for one in team.sessions:
        new: set[str] = set()
        for event in one.events:
            path = str(event.arguments.get("file_path") or "")
            if event.moment == "tool-before" and event.tool == "Read" and path and path not in new:
                path = path.removeprefix(one.directory)
                if path in read and path not in new:
                    said = names_file("\n".join(shown.lines(one.name, event.at)), [path])
                    yield Announcement(team.name, arm, "read again", one.name, said)
                new.add(path)
        read |= new


def _core(command: str) -> str:
    """Return what a command runs, without what becomes of its output; empty if it is a script."""
    return "" if "\n" in command else re.split(r"\s*(?:2>&1|&&|[|;>])", command)[0].strip()


def _costs(team: Team, arm: str, shown: _Shown) -> Iterator[Cost]:
    for session in team.sessions:
        passed = {event.call for event in session.events if event.moment == "tool-after"}
        before = {event.at: event.call for event in session.events if event.moment == "tool-before"}
        rows = shown.rows[session.name]
        alarms = sum(before.get(at) in passed for at, moment, _, _ in rows if moment == "tool-before")
        calls = sum(event.moment == "tool-before" for event in session.events)
        yield Cost(team.name, arm, sum(tokens for *_, tokens in rows), calls, alarms)


def report(found: tuple[list[Announcement], list[Cost]], verdicts: Verdicts) -> Iterator[str]:
    """Yield the tables of the part."""
    announcements, costs = found
    rows = []
    for team in dict.fromkeys(one.team for one in costs):
        for arm in _ARMS:
            here = [one for one in costs if (one.team, one.arm) == (team, arm)]
            if not here:
                continue
            said = {
                kind: [one.announced for one in announcements if (one.team, one.arm, one.kind) == (team, arm, kind)]
                for kind in ("failure", "read again")
            }
            alarms = 1_000 * sum(one.alarms for one in here) / max(1, sum(one.calls for one in here))
            rows.append([team.replace("+", "/"), arm, share(said["failure"]), share(said["read again"]), mean([float(one.tokens) for one in here]), f"{alarms:.1f}"])  # fmt: skip
    head = ["team", "arm", "repeated failures with another remedy", "files read again", "tokens of a session", "lines before passing calls, of 1,000"]  # fmt: skip
    yield "`nothing` announces none of them at no cost, and an oracle all. Intervals are over events, those of tokens over sessions.\n"
    yield format_table(head, rows)
    for team in dict.fromkeys(one.team for one in costs):
        hits = [one.announced for one in announcements if (one.team, one.arm, one.kind) == (team, "lorelog", "failure")]
        verdicts.judge(
            f"repeated failures announced with their remedy, {team.replace('+', '/')}", share(hits), "60 %",
            met=sum(hits) >= 0.6 * len(hits) if hits else None, headline=False,
        )  # fmt: skip
