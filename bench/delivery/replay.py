"""Counterfactual replay: what the hooks would have shown in real sessions, with a memory that holds only the past.

All sessions of a team are merged by time. The clock is set to each event, the transcript holds the lines written so far, the real
hook code answers, and each turn is captured when it ends. The daemon's answers are computed in this process and always
arrive: an upper bound. Nothing is judged here: every delivery is written to `--out`, with what the user or the agent had
just said, to be read. That file quotes the transcripts; do not commit it.

    python -m bench.delivery.replay TEAM_FOLDER... [--out FILE] [--sessions N] [--memory OTHER_TEAM_FOLDER] [--then OTHER_TEAM_FOLDER]

A TEAM_FOLDER holds one team's transcripts; see `timeline`. With --memory, the memory is that of another team, captured
whole before the first event: the placebo. Deliveries should then be rare. --then measures the same with the memory that the replay has
made, and what BM25 would have shown besides: most of the time is capture, which does not depend on the arm.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import quantiles
from typing import Any
from unittest import mock

import time_machine
from bench.delivery.hook_calls import Bench, shown_text
from bench.delivery.recorded_judge import RecordedJudge
from bench.delivery.timeline import Event, Session, read_team

from lorelog import Lorelog
from lorelog.light import daemon_connection
from lorelog.light.delivery_log import estimate_tokens
from lorelog.services.sessions.drain import Drainer, capture_arguments
from lorelog.surfaces.hook import context as hook_context
from lorelog.surfaces.hook import handle_hook

_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
STOPPED = "stopped"
"""Moment of the line that says up to when a replay came in its time."""
_MAX_QUOTED_CHARS = 2_000
_MOVES_HEAD = re.compile(r"\bgit (?:commit|merge|rebase|pull|reset|cherry-pick|am)\b|\bgh pr merge\b")
_EVENT_NAMES = {
    "session-start": "SessionStart", "prompt": "UserPromptSubmit", "tool-before": "PreToolUse", "tool-after": "PostToolUse",
    "tool-failed": "PostToolUseFailure", "turn-end": "Stop", "compact": "PreCompact", "session-end": "SessionEnd",
}  # fmt: skip


@dataclass(frozen=True)
class Delivery:
    """What a hook showed at an event."""

    session: str
    at: str
    moment: str
    about: str
    """The prompt, the call or the error that it was shown with."""
    shown: str
    tokens: int
    digest: str
    """Of what it was about and what was shown, without ids: under it readers store their judgement."""
    arm: str = "lorelog"


class NoteIndex:
    """The notes of a journal, ranked by BM25 alone: what a plain memory would show with every prompt."""

    def __init__(self) -> None:
        self.notes: dict[str, Counter[str]] = {}
        self.frequencies: Counter[str] = Counter()

    def update(self, folder: Path) -> None:
        """Add the notes that were written since."""
        for file in folder.glob("*.md"):
            for note in re.split(r"^#+ .*$", file.read_text("utf-8"), flags=re.MULTILINE):
                text = " ".join(re.sub(r"<!--.*?-->", "", note, flags=re.DOTALL).split())
                if text and text not in self.notes:
                    self.notes[text] = Counter(re.findall(r"\w+", text.lower()))
                    self.frequencies.update(self.notes[text].keys())

    def nearest(self, query: str, count: int = 3) -> list[str]:
        """Return the best notes for a query."""
        total = len(self.notes)
        mean = sum(sum(words.values()) for words in self.notes.values()) / max(1, total)
        terms = {word for word in re.findall(r"\w+", query.lower()[:4_000]) if word in self.frequencies}
        rarity = {
            word: math.log(1 + (total - self.frequencies[word] + 0.5) / (self.frequencies[word] + 0.5))
            for word in terms
        }
        scores: dict[str, float] = {}
        for text, words in self.notes.items():
            length = 1.2 * (0.25 + 0.75 * sum(words.values()) / mean)
            score = sum(rarity[word] * 2.2 * words[word] / (words[word] + length) for word in terms if word in words)
            if score:
                scores[text] = score
        return sorted(scores, key=lambda text: -scores[text])[:count]


@dataclass
class Replay:
    """One team's sessions, replayed through the hooks into one project."""

    bench: Bench
    root: Path
    memory: Lorelog
    drainer: Drainer
    deliveries: list[Delivery] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    judge: RecordedJudge | None = None
    written: dict[str, int] = field(default_factory=dict)
    is_foreign: bool = False
    """The memory is of another team: nothing is added to it."""
    deadline: float = math.inf
    """Replay no further than this, by the monotonic clock."""
    notes: NoteIndex | None = None
    budget: int = 0
    """With `notes`: the tokens that a session may get; the hooks' answers are not shown."""
    spent: Counter[str] = field(default_factory=Counter)
    with_rivals: bool = False
    """Note beside each delivery what BM25 finds, as an arm of its own."""
    branches: dict[str, str] = field(default_factory=dict)
    now: datetime = _LONG_AGO

    def run(self, sessions: Sequence[Session]) -> None:
        """Replay the events of all sessions in order of time."""
        merged = _merge(sessions)
        start = datetime.fromisoformat(sessions[0].started)
        shift = max(timedelta(), self.now - start)  # a memory is never of the future
        with time_machine.travel(start + shift, tick=False) as clock:
            for session, event in merged:
                if time.monotonic() > self.deadline:
                    print(f"stopped at {event.at}", file=sys.stderr)
                    self.deliveries.append(Delivery("", event.at, STOPPED, "", "", 0, ""))
                    break
                self.now = max(self.now, datetime.fromisoformat(event.at) + shift)
                clock.move_to(self.now)
                self.replay_event(session, event)

    def replay_event(self, session: Session, event: Event) -> None:
        """Run the hook of an event, and capture what a finished turn left in the spool."""
        self.counts[event.moment] += 1
        self._check_out(session, event)
        transcript = self._grow(session, event.lines)
        payload = self._payload(session, event, transcript)
        answer = handle_hook([session.host, event.moment], json.dumps(payload).encode(), os.environ)
        shown = shown_text(answer) or str(answer.get("additionalContext") or "")
        if self.notes is not None:
            plain = "" if self.is_foreign and self.with_rivals else self._plain_quotes(session, event)
            shown = shown if self.with_rivals else plain
            if plain and self.with_rivals:
                self.deliveries.append(replace(_delivery(session, event, plain), arm="BM25"))
        if shown:
            self.deliveries.append(_delivery(session, event, shown))
        if self.is_foreign:
            return
        if event.moment in {"turn-end", "compact", "session-end"}:
            self.drainer.drain()
        engine = self.memory._caller.engine  # noqa: SLF001
        if event.moment == "session-end":
            engine.refresh_delivery(check_code=True)  # as the daemon does in the background
        if event.moment == "session-end" and self.judge is not None:
            reviewer = engine.reviewer(os.environ)
            for entry in reviewer.run(self.judge, "recorded", reviewer.statements(None, 1_000)).filed:  # type: ignore[arg-type]
                self.counts[f"filed {entry.label}"] += 1

    def _check_out(self, session: Session, event: Event) -> None:
        """Check out the session's branch. A command of Git that moves HEAD makes another commit of it."""
        branch = self.branches[session.name] = event.branch or self.branches.get(session.name, "main")
        (self.root / ".git" / "HEAD").write_text(f"ref: refs/heads/{branch}\n")
        file = self.root / ".git" / "refs" / "heads" / branch
        moves = event.moment == "tool-after" and _MOVES_HEAD.search(str(event.arguments.get("command") or ""))
        if moves or not file.exists():
            if file.is_dir() or any(parent.is_file() for parent in file.parents):
                return  # `temp` and `temp/x` were branches at different times
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{hashlib.sha1(f'{session.name} {event.at}'.encode()).hexdigest()}\n")

    def _plain_quotes(self, session: Session, event: Event) -> str:
        """Return the best notes for a prompt, as long as the session has tokens left."""
        assert self.notes is not None
        if event.moment != "prompt":
            return ""
        self.notes.update(self.root / ".lorelog" / "memory")
        shown = "\n".join(f"- {json.dumps(text[:400], ensure_ascii=False)}" for text in self.notes.nearest(event.text))
        self.spent[session.name] += estimate_tokens(shown)
        return shown if self.spent[session.name] <= self.budget else ""

    def _grow(self, session: Session, lines: int) -> Path:
        path = self.bench.root / "transcripts" / session.host / f"{session.name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        start = self.written.get(session.name, 0)
        if lines > start or not path.exists():
            text = "".join(session.lines[start:lines])
            with path.open("a", encoding="utf-8") as stream:
                stream.write(self._placed(session, text))
            self.written[session.name] = max(lines, start)
        return path

    def _placed(self, session: Session, text: str) -> str:
        """Return a text with the session's directory replaced by the project's."""
        return text.replace(session.directory, str(self.root)) if len(session.directory) > 1 else text

    def _payload(self, session: Session, event: Event, transcript: Path) -> dict[str, Any]:
        arguments = json.loads(self._placed(session, json.dumps(event.arguments)))
        output = self._placed(session, event.output)
        if session.host == "copilot":
            result = {"resultType": "failure" if output else "success", "textResultForLlm": output}
            payload: dict[str, Any] = {
                "sessionId": session.name,
                "cwd": str(self.root),
                "transcriptPath": str(transcript),
            }
            payload |= {"prompt": event.text, "toolName": event.tool, "toolArgs": arguments, "toolResult": result}
            return payload | ({"error": output} if output else {})
        payload = {"session_id": session.name, "cwd": str(self.root), "transcript_path": str(transcript)}
        payload |= {
            "hook_event_name": _EVENT_NAMES[event.moment],
            "prompt": event.text,
            "source": event.text or "startup",
        }
        payload |= {"tool_name": event.tool, "tool_input": arguments, "tool_use_id": event.call}
        if output and session.host == "codex":
            payload["tool_response"] = output
        elif output:
            payload["error"] = output
        return payload


def _merge(sessions: Sequence[Session]) -> list[tuple[Session, Event]]:
    """Return all events by time; those of one session keep their order, whatever its clock says."""
    keyed: list[tuple[str, int, int]] = []
    for order, session in enumerate(sessions):
        latest = ""
        for number, event in enumerate(session.events):
            latest = max(latest, event.at)
            keyed.append((latest, order, number))
    return [(sessions[order], sessions[order].events[number]) for _, order, number in sorted(keyed)]


def _delivery(session: Session, event: Event, shown: str) -> Delivery:
    about = event.text or event.output[:_MAX_QUOTED_CHARS] or event.tool
    if event.tool:
        about = f"{event.tool} {json.dumps(event.arguments, ensure_ascii=False)[:_MAX_QUOTED_CHARS]}\n{event.output[-_MAX_QUOTED_CHARS:]}"
    digest = hashlib.sha256(f"{session.name}\n{event.moment}\n{about}\n{_without_ids(shown)}".encode()).hexdigest()[:16]
    return Delivery(
        session.name, event.at, event.moment, about[:_MAX_QUOTED_CHARS], shown, estimate_tokens(shown), digest
    )


def _without_ids(shown: str) -> str:
    return re.sub(r"\b(?:id|memory) [\w-]+", "", shown)


def replay_team(folder: Path, options: argparse.Namespace, judge: RecordedJudge | None) -> tuple[Replay, list[Session]]:
    """Replay a team's sessions in a temporary home; return the replay and the sessions."""
    sessions = read_team(folder, options.drawn)[: options.sessions or None]
    with tempfile.TemporaryDirectory(prefix="replay-") as place, ExitStack() as stack:
        bench = Bench(Path(place).resolve())
        bench.environment |= {"LORELOG_DAEMON_WARM": "auto", "TZ": "UTC"}
        if options.vectors:
            bench.environment["LORELOG_EMBEDDING_PROVIDER"] = "builtin"
        root = bench.make_project(folder.name.replace("+", "-"))
        stack.enter_context(bench.active())
        memory = stack.enter_context(Lorelog(project=root, daemon="off"))

        def ask(
            address: object, timeout_s: float, op: str, arguments: Mapping[str, Any], directory: str
        ) -> dict[str, Any]:
            return memory.call(op, arguments)

        stack.enter_context(mock.patch.object(daemon_connection, "ask_within", ask))
        stack.enter_context(mock.patch.object(daemon_connection, "wake", return_value=True))
        if options.long_prompts:
            stack.enter_context(_long_prompts(options.long_prompts))
        capture = lambda event: memory.call("session.capture", capture_arguments(event))  # noqa: E731
        replay = Replay(bench, root, memory, Drainer(os.environ["LORELOG_HOME"], capture), judge=judge)
        replay.deadline = time.monotonic() + options.seconds
        replay.with_rivals = bool(options.then)
        replay.notes = NoteIndex() if options.bm25 or options.then else None
        replay.budget = sys.maxsize if options.then else options.bm25
        earlier = read_team(options.memory) if options.memory else []
        if judge is not None:
            judge.learn([*earlier, *sessions])
        if earlier:
            replay.run(earlier)
            replay.deliveries.clear()
            replay.counts.clear()
            replay.is_foreign = True
        replay.run(sessions)
        if options.then:
            own, replay.deliveries, replay.is_foreign = replay.deliveries, [], True
            replay.run(read_team(options.then, options.then_drawn))
            replay.deliveries = own + [replace(delivery, arm="placebo") for delivery in replay.deliveries]
    return replay, sessions


@contextmanager
def _long_prompts(part: str) -> Iterator[None]:
    """Search for a part of the prompts that the hook finds too long."""
    longest, recall = hook_context._MAX_PROMPT_CHARS, hook_context.recall_for_prompt  # noqa: SLF001

    def recall_part(context: Any, prompt: str, budget: int) -> tuple[list[str], list[str]]:
        sentences = re.split(r"(?<=[.!?])\s+|\n+", prompt.strip())
        asked = {"whole": prompt, "ends": f"{sentences[0]}\n{sentences[-1]}"}[part]
        return recall(context, asked if len(prompt) > longest else prompt, budget)

    with (
        mock.patch.object(hook_context, "_MAX_PROMPT_CHARS", 1_000_000),
        mock.patch.object(hook_context, "recall_for_prompt", recall_part),
    ):
        yield


def report(name: str, replay: Replay, sessions: Sequence[Session]) -> Iterator[str]:
    """Yield the lines of a team's table."""
    own = [delivery for delivery in replay.deliveries if delivery.arm == "lorelog"]
    moments = Counter(delivery.moment for delivery in own)
    per_session = Counter({session.name: 0 for session in sessions})
    for delivery in own:
        per_session[delivery.session] += delivery.tokens
    tokens = sorted(per_session.values())
    cuts = quantiles(tokens, n=20) if len(tokens) > 1 else tokens * 19
    yield f"\n| {name}: {len(sessions)} sessions | events | deliveries |"
    yield "|---|--:|--:|"
    for moment in replay.counts:
        yield f"| {moment} | {replay.counts[moment]:,} | {moments[moment]:,} |"
    yield f"\ntokens a session: p50 {cuts[9]:.0f}, p95 {cuts[18]:.0f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Replay the teams and print what was delivered."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teams", nargs="+", type=Path, metavar="TEAM_FOLDER")
    parser.add_argument("--out", type=Path, help="write every delivery to this file, one JSON object a line")
    parser.add_argument("--sessions", type=int, default=0, help="only the first N sessions of each team")
    parser.add_argument("--memory", type=Path, help="the memory is that of this team (placebo)")
    parser.add_argument(
        "--drawn", type=int, default=0, help="only so many whole sessions of each team, drawn with seed 7"
    )
    parser.add_argument("--then", type=Path, help="note BM25's notes besides, and show this team the memory (placebo)")
    parser.add_argument("--then-drawn", type=int, default=0, help="only so many sessions of that team")
    parser.add_argument(
        "--long-prompts",
        choices=("whole", "ends"),
        help="search for prompts of any length: for all or for their first and last sentences",
    )
    parser.add_argument("--vectors", action="store_true", help="with the vectors of the built-in model")
    parser.add_argument(
        "--bm25",
        type=int,
        default=0,
        metavar="TOKENS",
        help="instead: the 3 notes that BM25 finds for each prompt, up to these tokens a session",
    )
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this time, and print what there is")
    parser.add_argument("--labels", type=Path, help="labels of the statements, which serve as a recorded judge")
    parser.add_argument("--errors", type=float, default=0.0, help="share of wrong labels of the recorded judge")
    options = parser.parse_args(argv)
    judge = RecordedJudge.read(options.labels, options.errors) if options.labels else None
    found: list[dict[str, Any]] = []
    for folder in options.teams:
        replay, sessions = replay_team(folder, options, judge)
        print("\n".join(report(folder.name, replay, sessions)), flush=True)
        found += [{"team": folder.name, **vars(delivery)} for delivery in replay.deliveries]
    if options.out:
        options.out.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in found), "utf-8")
        print(f"\nRead them in {options.out}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
