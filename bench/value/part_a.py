"""A: real sessions, counterfactual: of what happened twice, how much was announced before the second time, and at what cost?

The sessions that public repositories keep on the branch `entire/checkpoints/v1` are replayed through the real hooks in order of time
(`bench.delivery.replay`), each repository apart, with a memory that holds only the past and no model as judge. Two kinds of events, fixed
before anything was delivered:

- a failed command whose shape and error two earlier sessions had, and that another command followed which passed: announced if a line that
  the session was shown before the call has that other command;
- a file that an earlier session had read is read again: announced if a line shown before names it, by folder and name.

Arms: nothing; lorelog without vectors and without a judge; BM25's three nearest notes with each prompt until as many tokens are shown as
lorelog shows in a session of that team on average, and until 700; the memory of another team (placebo); and an oracle, which shows a line
for each event and nothing else. One replay makes them all, because capture takes most of the time and is the same under every arm. Of a
team with more than 100 sessions so many as `TEAMS` says are drawn whole, with seed 7.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from bench.delivery.__main__ import Team, _find_failures
from bench.delivery.timeline import Event, read_team
from bench.result import Verdicts, format_table, head_commit
from bench.value.intervals import mean, share, share_of_groups
from bench.value.issues import names_file
from bench.value.sources import GitSource, SourceMissing, find_source

from lorelog.light.delivery_log import estimate_tokens

TEAMS = {"PackmindHub/context-evaluator": 0, "EntityProcess/agentv": 0, "entireio/cli": 60}
"""Each with the number of sessions that are drawn; 0: all."""
TEAMS_HELD_OUT = {"FSM1/cipher-box": 0, "ShamsiievDmytro/entire-bmad": 0}
"""Teams whose deliveries nobody looked at while lorelog was developed."""
_BRANCH = "entire/checkpoints/v1"
BM25_TOKENS = 700
BM25_MORE = f"BM25, {BM25_TOKENS} tokens"
ARMS = ("nothing", "lorelog", "BM25, as many tokens", BM25_MORE, "placebo", "oracle")
_READERS = frozenset({"Read", "view"})
"""Tools of Claude Code and Copilot that read a file."""
_PRINTED = re.compile(r"(?:bash -lc )?[\"']?(?:cat|nl|head|tail|sed -n)\b[^|;&<>]*?\s([\w./@-]+\.\w+)\b")


@dataclass(frozen=True)
class Announcement:
    """A repeated event under one arm."""

    team: str
    arm: str
    kind: str
    session: str
    announced: bool
    tokens: int
    """Of a line that announces it."""


@dataclass(frozen=True)
class Cost:
    """What a session was shown under one arm."""

    team: str
    arm: str
    session: str
    tokens: int
    calls: int
    alarms: int
    """Lines shown before calls that passed."""


def run_part(
    sources: Path, keep: Path, deadline: float, *, held_out: bool = False
) -> tuple[list[Announcement], list[Cost]]:
    """Replay the teams whose repositories are there, side by side; deliveries of the same commit are not made again."""
    folders: dict[Path, int] = {}
    for name, drawn in (TEAMS_HELD_OUT if held_out else TEAMS).items():
        try:
            folders[_extract(find_source(sources, name), keep / "teams" / name.replace("/", "+"))] = drawn
        except SourceMissing:
            print(f"left out: {name} is not in {sources}", file=sys.stderr)
    files = {folder: keep / f"replay.{head_commit()}.{folder.name}.jsonl" for folder in folders}
    ring = dict(zip(folders, [*folders][1:] + [*folders][:1], strict=True))
    """After its own sessions each team's memory is shown to the next team."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda folder: _replay(folder, ring[folder], folders, files[folder], deadline), folders))
    rows = [
        json.loads(line) for file in files.values() if file.exists() for line in file.read_text("utf-8").splitlines()
    ]
    announcements: list[Announcement] = []
    costs: list[Cost] = []
    for folder, drawn in folders.items():
        team = Team(folder.name, read_team(folder, drawn))
        _find_failures(team)
        names = {session.name for session in team.sessions}
        own = [row for row in rows if row["session"] in names]
        for arm in ARMS:
            shown = _Shown(own, arm, team)
            announcements += _announcements(team, arm, shown)
            costs += _costs(team, arm, shown)
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


def _replay(folder: Path, other: Path, drawn: Mapping[Path, int], file: Path, deadline: float) -> None:
    """Replay a team, and show its memory to another one."""
    seconds = deadline - time.monotonic()
    if file.exists() or seconds < 0:
        return
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
    words += ["--drawn", str(drawn[folder]), "--then", str(other), "--then-drawn", str(drawn[other])]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    print(done.stderr[-1_000:], file=sys.stderr, end="")


class _Shown:
    """What the sessions of a team were shown under an arm."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], arm: str, team: Team) -> None:
        self.rows: dict[str, list[tuple[str, str, str, int]]] = defaultdict(list)
        """By session: time, moment, text and tokens."""
        for row in rows:
            if row["arm"] == arm.partition(",")[0]:
                self.rows[row["session"]].append((row["at"], row["moment"], row["shown"], row["tokens"]))
        if arm.startswith("BM25"):
            spent = sum(row["tokens"] for row in rows if row["arm"] == "lorelog") / max(1, len(team.sessions))
            for session, found in self.rows.items():
                self.rows[session] = list(_within(found, BM25_TOKENS if arm == BM25_MORE else spent))

    def lines(self, session: str, until: str) -> list[str]:
        """Return the lines that a session was shown up to a time."""
        return [line for at, _, shown, _ in self.rows[session] if at <= until for line in shown.splitlines()]


def _within(rows: Sequence[tuple[str, str, str, int]], budget: float) -> Iterator[tuple[str, str, str, int]]:
    """Yield a session's quoted notes, one by one, as long as there are tokens left."""
    for at, moment, shown, _ in rows:
        for line in shown.splitlines():
            budget -= estimate_tokens(line)
            if budget < 0:
                return
            yield at, moment, line, estimate_tokens(line)


def _announcements(team: Team, arm: str, shown: _Shown) -> Iterator[Announcement]:
    times = {
        event.call: event.at for session in team.sessions for event in session.events if event.moment == "tool-before"
    }
    for session, call, command, passed in team.failures:
        failed, remedy = _core(command), _core(passed)
        if remedy and failed and remedy != failed:
            lines = (line.replace(failed, "") for line in shown.lines(session, times.get(call, "")))
            said = arm == "oracle" or any(remedy in line for line in lines)
            yield Announcement(team.name, arm, "failure", session, said, estimate_tokens(f"- `{failed}` failed; `{remedy}` passed instead"))  # fmt: skip
    read: set[str] = set()
    for one in team.sessions:
        new: set[str] = set()
        for event in one.events:
            path = _read_file(event) if event.moment == "tool-before" else ""
            if path and path not in new:
                path = path.removeprefix(one.directory)
                if path in read and path not in new:
                    said = arm == "oracle" or names_file("\n".join(shown.lines(one.name, event.at)), [path])
                    yield Announcement(team.name, arm, "read again", one.name, said, estimate_tokens(path))
                new.add(path)
        read |= new


def _read_file(event: Event) -> str:
    """Return the file that a call reads: with a tool, or with a command that prints files, as Codex does."""
    if event.tool in _READERS:
        return str(event.arguments.get("file_path") or event.arguments.get("path") or "")
    found = _PRINTED.match(str(event.arguments.get("command") or "")) if event.tool == "Bash" else None
    return found[1] if found else ""


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
        yield Cost(team.name, arm, session.name, sum(tokens for *_, tokens in rows), calls, alarms)


def report(found: tuple[list[Announcement], list[Cost]], verdicts: Verdicts) -> Iterator[str]:
    """Yield the tables of the part."""
    announcements, costs = found
    rows = []
    teams = list(dict.fromkeys(one.team for one in costs))
    for team, arm in product(teams, ARMS):
        here = [one for one in costs if (one.team, one.arm) == (team, arm)]
        events = [one for one in announcements if (one.team, one.arm) == (team, arm)]
        spent = {one.session: one.tokens for one in here}
        for one in events if arm == "oracle" else ():
            spent[one.session] += one.tokens
        alarms = 1_000 * sum(one.alarms for one in here) / max(1, sum(one.calls for one in here))
        rows.append([
            team.replace("+", "/"), arm, *(_share(events, kind) for kind in ("failure", "read again")),
            mean([float(tokens) for tokens in spent.values()]), f"{alarms:.1f}",
        ])  # fmt: skip
    sizes = (
        f"{team.replace('+', '/')} {sum(one.team == team and one.arm == ARMS[0] for one in costs)}" for team in teams
    )
    yield f"Sessions: {', '.join(sizes)}. Intervals are over sessions.\n"
    head = ["team", "arm", "repeated failures with another remedy", "files read again", "tokens of a session", "lines before passing calls, of 1,000"]  # fmt: skip
    yield format_table(head, rows)
    for team in teams:
        hits = [one.announced for one in announcements if (one.team, one.arm, one.kind) == (team, "lorelog", "failure")]
        verdicts.judge(
            f"repeated failures announced with their remedy, {team.replace('+', '/')}", share(hits), "60 %",
            met=sum(hits) >= 0.6 * len(hits) if hits else None, headline=False,
        )  # fmt: skip


def _share(events: Sequence[Announcement], kind: str) -> str:
    """Return the announced events of a kind with the interval over sessions."""
    sessions: dict[str, list[bool]] = defaultdict(list)
    for one in events:
        if one.kind == kind:
            sessions[one.session].append(one.announced)
    return share_of_groups(list(sessions.values()))
