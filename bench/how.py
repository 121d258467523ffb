"""How often `lorelog how` names the command that a later session ran for a purpose: real sessions, one left out.

    python -m bench.how [--data DIR] [--purposes N] [--answers FILE]

--data holds bare snapshots of repositories that keep their agents' sessions, as for `bench.why`. Each session is captured. A purpose that a
session described, and a command that passed for it, are a question and its answer: is the command's form (its words, without files,
numbers and quoted text) among the first three that the sessions before it give? Purposes whose command no earlier session passed have
no right answer and are counted apart. Beside it: the same by words only, and the three commands that passed most often.

--answers writes every question with its answers to a file, to be read. It quotes other people's work: do not commit it.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.result import Verdicts, format_table
from bench.why import BRANCH, capture, git, read_team

from lorelog import Lorelog
from lorelog.core.options import EmbedOptions, TraceOptions
from lorelog.core.ports import Embedder
from lorelog.language.analyser import WordAnalyser
from lorelog.models.embed.builtin import BuiltinEmbedder
from lorelog.services.traces.how import PurposeMatcher, find_commands
from lorelog.services.traces.remedies import command_form
from lorelog.services.traces.tables import TracedAction, TraceTables

FIRST = 3
TARGET = 0.7


class Question(NamedTuple):
    """A purpose that a session described, the forms that passed for it, and what the sessions before it did."""

    purpose: str
    forms: frozenset[str]
    earlier: list[TracedAction]


def questions(actions: Sequence[TracedAction], count: int) -> list[Question]:
    """Draw purposes of all sessions but the first."""
    began: dict[str, int] = {}
    meant: dict[tuple[str, str], set[str]] = {}
    for run in actions:
        began[run.session] = min(run.at, began.get(run.session, run.at))
        if run.purpose and not run.failed and (form := command_form(run.command)):
            meant.setdefault((run.session, run.purpose), set()).add(form)
    drawn = random.Random(1).sample(sorted(meant), min(count, len(meant)))
    return [
        Question(purpose, frozenset(meant[session, purpose]), [run for run in actions if run.at < began[session]])
        for session, purpose in drawn
    ]


def answers(question: Question, embedder: Embedder | None) -> list[str]:
    """Return the commands of an answer."""
    model = f"{embedder.provider}/{embedder.model}" if embedder else "none"
    matcher = PurposeMatcher(WORDS.words, embedder, model)
    return [known.command for known in find_commands(question.purpose, question.earlier, matcher, FIRST)]


WORDS = WordAnalyser()


def measure(
    name: str, drawn: Sequence[Question], embedder: Embedder, verdicts: Verdicts, to_read: list[str]
) -> list[str]:
    """Ask the questions of one team; return a row of the table."""
    right: Counter[str] = Counter()
    possible = unanswered = wrongly = 0
    seconds: list[float] = []
    for question in drawn:
        passed = Counter(command_form(run.command) for run in question.earlier if run.command and not run.failed)
        started = time.perf_counter()
        found = answers(question, embedder)
        seconds.append(time.perf_counter() - started)
        is_right = not question.forms.isdisjoint(map(command_form, found))
        to_read.append(f"{name}\t{is_right}\t{question.purpose}\t{sorted(question.forms)}\t{found}")
        if question.forms.isdisjoint(passed):
            unanswered += not found
            wrongly += bool(found)
            continue
        possible += 1
        right["vectors"] += is_right
        right["none"] += not found
        right["words"] += not question.forms.isdisjoint(map(command_form, answers(question, None)))
        right["frequent"] += not question.forms.isdisjoint(form for form, _ in passed.most_common(FIRST))
    share = right["vectors"] / max(1, possible)
    verdicts.judge(f"{name}: the command is among the first three", f"{share:.2f}", f"≥ {TARGET}", met=share >= TARGET)
    median = sorted(seconds)[len(seconds) // 2] if seconds else 0.0
    shares = (f"{right[kind] / max(1, possible):.2f}" for kind in ("vectors", "words", "frequent", "none"))
    return [name, str(len(drawn)), str(possible), *shares, f"{unanswered} of {unanswered + wrongly}", f"{median:.2f} s"]


def main() -> int:
    """Print the figures of each team."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with bare snapshots of repositories")
    parser.add_argument("--purposes", type=int, default=400, help="purposes of each repository")
    parser.add_argument("--answers", type=Path, help="where to write the answers to read")
    args = parser.parse_args()
    verdicts, to_read, rows = Verdicts(), list[str](), []
    embedder = BuiltinEmbedder(EmbedOptions())
    for folder in sorted(args.data.iterdir()):
        source = folder / "repo" if (folder / "repo").is_dir() else folder
        if not (source / "HEAD").is_file() or BRANCH not in git(source, "for-each-ref", ok=(0, 128)).decode():
            continue
        with tempfile.TemporaryDirectory(prefix="lorelog-how-") as place:
            team, home = read_team(source, Path(place)), Path(place) / "home"
            with Lorelog(team.checkout, home=home, daemon="off", settings={"embedding.provider": "none"}) as client:
                capture(team, client)
            tables = TraceTables(home / "data" / "default" / "traces.db", TraceOptions())
            drawn = questions([run for run in tables.actions(None, 1_000_000) if run.command], args.purposes)
            rows.append(measure(team.name.replace("+", "/"), drawn, embedder, verdicts, to_read))
            tables.close()
    head = (
        "team|purposes|passed before|first three|by words only|most frequent|no answer|unknown, if never passed|median"
    )
    print(format_table(head.split("|"), rows))
    print(f"\n{verdicts.table()}")
    if args.answers:
        args.answers.write_text("\n".join(to_read), "utf-8")
    return 1 if verdicts.missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
