"""How well and how fast records are found: `task.search` on confusable tasks, and what each verb takes when there are
many.

Quality first: two hand-written corpora (`corpora/`), their tasks written by the operations that agents use, each
question asked of `task.search` and, in the same run, of `memory.search` over the same words as plain notes. Then times,
warm: in the process as the daemon holds it, and through a daemon; with the tasks of one corpus and the built-in model,
and with a crowd of made-up records and vectors that cost nothing. An acknowledged write takes turns with a plain append
and fsync of as many bytes. At last the tables of a large ledger are made anew. Exits with 1 when a mark is missed.

    python bench/records.py [--dir DIR] [--records 10000] [--lines 100000] [--rounds 200] [--only quality|times] [--details]
"""

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import median
from bench.records_corpus import Corpus, Crowd, Question, corpora
from bench.result import Verdicts, describe_machine

from lorelog.core import VERSION
from lorelog.core.errors import LorelogError
from lorelog.light import daemon_client as client
from lorelog.light.daemon_control import start
from lorelog.operations.dispatch import ClientIdentity, Dispatcher
from lorelog.records.ledger import Ledger
from lorelog.records.tables import RecordTables
from lorelog.wiring import ResourcePool, resolve_location

HIT_3, MRR = 1.0, 0.95
SEARCH_S, RESUME_S, BRIEF_S, WRITE_S, REPLAY_S = 0.010, 0.050, 0.200, 0.015, 20.0
K = 5
BATCH = 500
KINDS = ("words", "paraphrase", "identifier", "status", "why", "joined")
REMARK = "memd says of its own task.search: hit@3 1.00, MRR .87, with 23 questions that are not these."


class Desk:
    """Calls operations as the daemon does, with everything kept open."""

    def __init__(self, folder: Path, *, provider: str) -> None:
        self.project = folder / "app"
        self.project.mkdir(parents=True)
        self.environment = {
            **{name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ},
            "HOME": str(folder),
            "LORELOG_HOME": str(folder / "home"),
            "LORELOG_EMBEDDING_PROVIDER": provider,
            "LORELOG_CACHE_ANSWERS": "false",
        }
        self.holdings = ResourcePool()
        self._caller = ClientIdentity(str(self.project), self.environment)
        self._dispatcher = Dispatcher(self.holdings.engine)

    def call(self, op: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return self._dispatcher.call(op, arguments, self._caller)

    def by_daemon(self, op: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return client.call_daemon(
            op, arguments, directory=str(self.project), environment={**os.environ, **self.environment}, start=start
        )

    def write(self, corpus: Corpus) -> dict[str, str]:
        """Write a corpus as agents would, and return the task of each case."""
        cases = {}
        for case in corpus.cases:
            task = ""
            for op, arguments in case.calls():
                reply = self.call(op, arguments | ({"task_id": task} if task else {}))
                task = task or reply["task_id"]
            cases[task] = case.name
        self.call("memory.index", {})  # vectors, which the daemon makes while nobody asks
        return cases

    def crowd(self, count: int) -> Crowd:
        """Fill the ledger with synthetic records of this project."""
        here = resolve_location(directory=str(self.project), environment=self.environment)
        with self.holdings.engine(here, {}) as engine:
            archive = engine.records()
            crowd = Crowd(archive.projects[0], max(1, count // 50))
            fill(archive.records.ledger, crowd, count)
        return crowd

    def close(self) -> None:
        self.holdings.close()


def fill(ledger: Ledger, crowd: Crowd, count: int) -> None:
    """Write records in batches."""
    known: list[str] = []
    for first in range(0, count, BATCH):
        known = [item.id for item in ledger.append(crowd.drafts(min(BATCH, count - first), known))]


@contextlib.contextmanager
def opened(folder: Path, *, provider: str) -> Iterator[Desk]:
    desk = Desk(folder, provider=provider)
    try:
        yield desk
    finally:
        desk.close()


def main() -> int:
    """Measure everything and print the tables."""
    options = _arguments()
    verdicts = Verdicts()
    folder = options.dir.resolve()  # a daemon stands elsewhere
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="records-", dir=folder) as made:
        place = Path(made)
        print(_heading(options))
        if options.only != "times":
            _quality(place, options, verdicts)
        if options.only != "quality":
            _times(place, options, verdicts)
    print(f"\n{verdicts.table()}")
    return 1 if verdicts.missed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, default=Path(".bench"), help="where to write; its disk's fsync is measured")
    parser.add_argument("--records", type=int, default=10_000, help="records of the crowd (default 10000)")
    parser.add_argument("--lines", type=int, default=100_000, help="lines to replay (default 100000)")
    parser.add_argument("--rounds", type=int, default=200, help="calls of each verb (default 200)")
    parser.add_argument("--only", choices=["quality", "times"], help="half of it")
    parser.add_argument("--details", action="store_true", help="show each question whose task is not the first")
    return parser.parse_args()


def _heading(options: argparse.Namespace) -> str:
    machine = describe_machine()
    return f"lorelog {VERSION}, {options.rounds} rounds. {machine}, load {os.getloadavg()[0]:.1f}."


# -- quality -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answered:
    """A query with the tasks returned for it, best first."""

    question: Question
    found: tuple[str, ...]

    @property
    def rank(self) -> int:
        """Return the rank of the right task from 1; 0 if it is missing."""
        return self.found.index(self.question.case) + 1 if self.question.case in self.found else 0


def _quality(place: Path, options: argparse.Namespace, verdicts: Verdicts) -> None:
    print(f"\n**Questions on confusable tasks** ({REMARK})\n")
    print("| corpus | asked | questions | hit@1 | hit@3 | MRR | " + " | ".join(f"MRR, {kind}" for kind in KINDS) + " |")
    print("|---|---|--:|--:|--:|--:|" + "--:|" * len(KINDS))
    wrong: list[str] = []
    for corpus in corpora():
        with opened(place / corpus.name, provider="builtin") as desk:
            for name, answered in _rankings(desk, corpus).items():
                print(_quality_row(corpus, name, answered))
                wrong += [_shown(corpus, name, item) for item in answered if item.rank != 1]
                if name == "task.search":
                    hit, mrr = hit_at(answered, 3), mean_rank(answered)
                    verdicts.judge(f"{corpus.name}: hit@3", f"{hit:.3f}", f">= {HIT_3:.2f}", met=hit >= HIT_3)
                    verdicts.judge(f"{corpus.name}: MRR", f"{mrr:.3f}", f">= {MRR:.2f}", met=mrr >= MRR)
    if options.details:
        print("\nNot first:\n")
        print("\n".join(wrong))


def _rankings(desk: Desk, corpus: Corpus) -> dict[str, list[Answered]]:
    """Run every query on the records, and on the same text as plain notes."""
    tasks = desk.write(corpus)
    asked: dict[str, list[Answered]] = {"task.search": []}
    for question in corpus.questions:
        reply = desk.call("task.search", {"query": question.text, "k": K, **question.filters})
        asked["task.search"].append(
            Answered(question, distinct(tasks.get(hit["task_id"], "") for hit in reply["hits"]))
        )
    with opened(desk.project.parent / "notes", provider="builtin") as plain:
        for case in corpus.cases:
            path = plain.project / "notes" / f"{case.name}.md"
            path.parent.mkdir(exist_ok=True)
            path.write_text("\n".join(case.sections()), "utf-8")
        plain.call("memory.index", {"paths": ["notes"]})
        for lane in ("lexical", "hybrid"):
            answers = asked[f"memory.search, {lane}"] = []
            for question in corpus.questions:
                hits = plain.call("memory.search", {"query": question.text, "k": K, "lane": lane})["hits"]
                answers.append(Answered(question, distinct(Path(hit["source"]).stem for hit in hits)))
    return asked


def distinct(names: Iterator[str]) -> tuple[str, ...]:
    """Return names without duplicates: a task with three matching records is one result."""
    return tuple(dict.fromkeys(names))


def hit_at(answered: Sequence[Answered], k: int) -> float:
    """Return the share of queries whose task is among the first k."""
    return sum(0 < item.rank <= k for item in answered) / len(answered)


def mean_rank(answered: Sequence[Answered]) -> float:
    """Return the mean reciprocal rank."""
    return sum(1 / item.rank for item in answered if item.rank) / len(answered)


def _quality_row(corpus: Corpus, name: str, answered: Sequence[Answered]) -> str:
    by_kind = [mean_rank([item for item in answered if item.question.kind == kind]) for kind in KINDS]
    numbers = [hit_at(answered, 1), hit_at(answered, 3), mean_rank(answered), *by_kind]
    cells = [corpus.name, name, str(len(answered)), *(f"{number:.3f}" for number in numbers)]
    return "| " + " | ".join(cells) + " |"


def _shown(corpus: Corpus, name: str, one: Answered) -> str:
    before = ", ".join(one.found[: one.rank - 1 if one.rank else 3])
    limits = f" {dict(one.question.filters)}" if one.question.filters else ""
    return (
        f"- {corpus.name}, {name}, {one.question.kind}: {one.question.text!r}{limits} means {one.question.case}, "
        f"rank {one.rank or 'none'}, after {before}"
    )


# -- times ---------------------------------------------------------------------------------------------------------------


def _times(place: Path, options: argparse.Namespace, verdicts: Verdicts) -> None:
    print("\n**Times, warm**\n\n| what | where | calls | median | p95 | CPU, median |\n|---|---|--:|--:|--:|--:|")
    timed = _Timed(options.rounds, verdicts)
    first, *_ = corpora()
    cases = first.cases[:8]
    few = Corpus(
        first.name,
        cases,
        tuple(question for question in first.questions if question.case in {case.name for case in cases}),
    )
    with opened(place / "few", provider="builtin") as desk:
        desk.write(few)
        _searches(desk, timed, "8 tasks, the built-in model", [question.text for question in few.questions])
    with opened(place / "many", provider="fake") as desk:
        crowd = desk.crowd(options.records)
        where = f"{options.records:,} records, vectors that cost nothing"
        caught_up = took(desk.call, "memory.index", {})  # what the daemon does while nobody asks
        _searches(desk, timed, where, [crowd.question() for _ in range(200)])
        _digests(desk, crowd, timed, where)
        _writes(desk, crowd, timed, where)
    print(f"\n{options.records:,} records were made found, pages, words and vectors, in {caught_up.wall_s:.1f} s.")
    _replay(place / "replay", options.lines, verdicts)


@dataclass(frozen=True)
class Spent:
    """Duration of one call, and the CPU time of this process."""

    wall_s: float
    cpu_s: float


class _Timed:
    """Times calls, prints rows, and checks medians."""

    def __init__(self, rounds: int, verdicts: Verdicts) -> None:
        self.rounds = rounds
        self.verdicts = verdicts

    def row(self, what: str, where: str, spent: Sequence[Spent], most_s: float | None = None) -> None:
        ordered = sorted(item.wall_s for item in spent)
        middle, p95 = median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
        cpu = _ms(median(item.cpu_s for item in spent))
        print(f"| {what} | {where} | {len(ordered)} | {_ms(middle)} | {_ms(p95)} | {cpu} |", flush=True)
        if most_s is not None:
            self.verdicts.judge(f"{what}, {where}: median", _ms(middle), f"< {_ms(most_s)}", met=middle < most_s)


def took(act: Callable[..., object], *given: object) -> Spent:
    """Return the duration of a call."""
    wall, cpu = time.perf_counter(), time.process_time()
    act(*given)
    return Spent(time.perf_counter() - wall, time.process_time() - cpu)


def _searches(desk: Desk, timed: _Timed, where: str, questions: Sequence[str]) -> None:
    """Query in the process and through a daemon, without cached replies."""
    ways: dict[str, Callable[[str, Mapping[str, Any]], dict[str, Any]]] = {
        "task.search": desk.call,
        "task.search through the daemon": desk.by_daemon,
    }
    try:
        for what, ask in ways.items():
            ask("task.search", {"query": "warm up", "k": 5})
            asked = [questions[turn % len(questions)] for turn in range(timed.rounds)]
            seconds = [took(ask, "task.search", {"query": said, "k": 5}) for said in asked]
            timed.row(what, where, seconds, SEARCH_S)
    finally:
        with contextlib.suppress(LorelogError):
            desk.by_daemon("daemon.stop", {})


def _digests(desk: Desk, crowd: Crowd, timed: _Timed, where: str) -> None:
    """Resume tasks and brief the project, each time after a write."""
    rounds = max(10, timed.rounds // 5)
    resumed, briefed, again = [], [], []
    for turn in range(rounds + 1):
        task = crowd.tasks[(turn * 37) % len(crowd.tasks)]
        desk.call("task.progress", {"task_id": task, "summary": crowd.say(20), "next_step": crowd.say(6)})
        resumed.append(took(desk.call, "task.resume", {"task_id": task}))
        desk.call("task.progress", {"task_id": task, "summary": crowd.say(20), "next_step": crowd.say(6)})
        briefed.append(took(desk.call, "context.brief_project", {}))
        again.append(took(desk.call, "context.brief_project", {}))
    timed.row("task.resume after a write", where, resumed[1:], RESUME_S)
    timed.row("context.brief_project after a write", where, briefed[1:], BRIEF_S)
    timed.row("context.brief_project, nothing new", where, again[1:])


def _writes(desk: Desk, crowd: Crowd, timed: _Timed, where: str) -> None:
    """Write, beside a plain append of as many bytes that is flushed to the disk."""
    ledger = next((desk.project.parent / "home").rglob("ledger.jsonl"))
    other = os.open(ledger.parent / "plain.append", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    ours, plain = [], []
    for turn in range(timed.rounds + 1):
        said = {"task_id": crowd.tasks[turn % len(crowd.tasks)], "summary": crowd.say(24), "next_step": crowd.say(8)}
        before = ledger.stat().st_size
        ours.append(took(desk.call, "task.progress", said))
        line = b"x" * max(1, ledger.stat().st_size - before)
        plain.append(took(_append, other, line))
    os.close(other)
    timed.row("task.progress, on disk when it answers", where, ours[1:], WRITE_S)
    timed.row("plain append and fsync of as many bytes", "", plain[1:])
    times = median(our.wall_s for our in ours[1:]) / median(item.wall_s for item in plain[1:])
    print(f"| a write over a plain append | | | {times:.1f}x | | |")
    fresh = []
    for turn in range(10):
        desk.call("task.progress", {"task_id": crowd.tasks[turn], "summary": crowd.say(24), "next_step": "go on"})
        fresh.append(took(desk.call, "task.search", {"query": crowd.question(), "k": 5}))
    timed.row("task.search, first after a write", where, fresh)


def _append(file: int, line: bytes) -> None:
    os.write(file, line)
    os.fsync(file)


def _replay(folder: Path, lines: int, verdicts: Verdicts) -> None:
    """Make the tables of a large ledger."""
    folder.mkdir()
    ledger = Ledger(folder)
    fill(ledger, Crowd("p", max(1, lines // 50)), lines)
    tables = RecordTables(folder / "again.db")
    spent = took(tables.catch_up, ledger)
    seconds, cpu = spent.wall_s, spent.cpu_s
    count = len(tables.applied_after(0, lines + 1))
    tables.close()
    size = sum(path.stat().st_size for path in folder.glob("ledger*"))
    print(f"\n{count:,} ledger lines ({size / 1e6:.0f} MB) were replayed in {seconds:.1f} s, {cpu:.1f} s of CPU.")
    met = seconds < REPLAY_S and count == lines
    verdicts.judge(f"replay of {lines:,} lines", f"{seconds:.1f} s", f"< {REPLAY_S:g} s", met=met)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"


if __name__ == "__main__":
    raise SystemExit(main())
