"""The order of a scale run: insert one after the other, then cold and warm questions in rounds that take turns.

Responsible for what is done and when. A noisy minute should fall on all alike, so each round asks every contender the
same few questions, and begins with another one. All warm contenders are open at the same time, and only one is asked.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.measure import CommandFailed, disk_bytes
from bench.scale.contender import OURS
from bench.scale.making import SEED
from bench.scale.material import QUERIES, WARM_UP, Material, recall
from bench.scale.processes import REPOSITORY, Worker, Workplace

_OPEN_LIMIT_S = 900.0
_WARM_UP_BUDGET_S = 10.0
_ROUND_BUDGET_S = 10.0
_RECALL_BUDGET_S = 60.0


@dataclass(frozen=True)
class Plan:
    """What a run does at one size."""

    place: Workplace
    size: int
    names: Sequence[str]
    queries: int = 200
    rounds: int = 10
    cold_rounds: int = 5
    limit_s: float = 900.0
    """How long a rival may insert."""
    vectors: Path | None = None
    fresh: bool = False
    """Insert the rivals' anew even where an earlier run's stores are there."""
    reuse: bool = False
    """Use our own store of an earlier run too."""

    @property
    def material(self) -> Path:
        kind = f"made-{SEED}" if self.vectors is None else f"given-{_fingerprint(self.vectors)}"
        return self.place.root / "material" / f"{kind}-{self.size}"

    def folder(self, name: str) -> Path:
        return self.place.root / "stores" / self.material.name / name


@dataclass(frozen=True)
class Inserted:
    """How a store came to be."""

    rows: int
    seconds: float
    cpu: float
    peak: int
    disk: int
    version: str
    limit_s: float
    on: str
    """The day, as a store may be an earlier run's."""
    reused: bool = False


@dataclass
class Seen:
    """All that was seen of one contender."""

    inserted: Inserted
    cold: list[float] = field(default_factory=list)
    cold_cpu: list[float] = field(default_factory=list)
    opening: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    warm_cpu: list[float] = field(default_factory=list)
    lexical: list[float] = field(default_factory=list)
    dense_lane: list[float] = field(default_factory=list)
    dense: list[float] = field(default_factory=list)
    recalls: list[float] = field(default_factory=list)
    memory: dict[str, int] = field(default_factory=dict)
    fewest_hits: int = 10


@dataclass
class Outcome:
    """What a run at one size saw, and who did not get through it."""

    seen: dict[str, Seen] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def run(plan: Plan) -> Outcome:
    """Do everything at one size."""
    outcome = Outcome()
    make_material(plan, plan.size)
    for name in plan.names:
        _tell(f"{plan.size:,}: inserting, {name}")
        try:
            outcome.seen[name] = Seen(insert(plan, name))
        except CommandFailed as error:
            outcome.failed[name] = str(error)
    for size in {seen.inserted.rows for seen in outcome.seen.values()}:
        make_material(plan, size)
    for step in (cold_questions, warm_questions):
        _tell(f"{plan.size:,}: {step.__name__.replace('_', ' ')}")
        step(plan, outcome)
    return outcome


def make_material(plan: Plan, truth_of: int) -> None:
    """Make the material, and the truth for that many of its rows, where they are not there; numpy stays out of here."""
    material = Material(plan.material)
    if material.complete and material.truth(truth_of) is not None:
        return
    _tell(f"making {plan.material.name}, the nearest of {truth_of:,}")
    given = [str(plan.vectors.resolve())] if plan.vectors else []
    for size in dict.fromkeys([*([] if material.complete else [plan.size]), truth_of]):
        command = [sys.executable, "-m", "bench.scale.making", str(plan.material), str(size), *given]
        answer = subprocess.run(command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True, check=False)
        if answer.returncode:
            raise CommandFailed(answer.stderr.strip().splitlines()[-1])


def insert(plan: Plan, name: str) -> Inserted:
    """Fill a contender's store, or take the one of an earlier run."""
    folder, version = plan.folder(name), plan.place.version(name)
    record = folder / "insert.json"
    if record.exists() and (plan.reuse if name == OURS else not plan.fresh):
        known = Inserted(**json.loads(record.read_text("utf-8")))
        enough = known.rows == plan.size or known.limit_s >= plan.limit_s
        if known.version == version and enough:
            return Inserted(**(asdict(known) | {"reused": True}))
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "data").mkdir(parents=True)
    limit_s = 24 * 3600.0 if name == OURS else plan.limit_s
    with Worker(plan.place, _task(plan, name, "insert", limit_s=limit_s)) as worker:
        answer = worker.take(limit_s + _OPEN_LIMIT_S)
    disk = disk_bytes(folder / "data")
    inserted = Inserted(**answer, disk=disk, version=version, limit_s=plan.limit_s, on=time.strftime("%Y-%m-%d"))
    record.write_text(json.dumps(asdict(inserted)), encoding="utf-8")
    return inserted


def cold_questions(plan: Plan, outcome: Outcome) -> None:
    """Start, ask once, end: each contender in each round, after one untimed round."""
    for number in range(plan.cold_rounds + 1):
        for name, seen in _turn(outcome, number):
            try:
                wall_s, answer = _alone(plan, name, "cold", number)
                opening_s = _alone(plan, name, "opening", number)[1]["seconds"] if name == OURS else 0.0
            except CommandFailed as error:
                _drop(outcome, name, error)
                continue
            if number:
                seen.cold.append(wall_s)
                seen.cold_cpu.append(answer["cpu"])
                seen.opening.append(opening_s)
            seen.fewest_hits = min(seen.fewest_hits, answer["hits"])


def _alone(plan: Plan, name: str, deed: str, question: int) -> tuple[float, dict[str, Any]]:
    """Have a fresh process do one thing; return the seconds from its start to its answer."""
    with Worker(plan.place, _task(plan, name, deed, question=question)) as worker:
        answer = worker.take(_OPEN_LIMIT_S)
        return time.perf_counter() - worker.started, answer


def warm_questions(plan: Plan, outcome: Outcome) -> None:
    """Open all, warm all up, then take turns; memory after the questions, recall last."""
    with ExitStack() as held:
        workers: dict[str, Worker] = {}
        for name in list(outcome.seen):
            worker = held.enter_context(Worker(plan.place, _task(plan, name, "serve")))
            try:
                worker.take(_OPEN_LIMIT_S)
                worker.ask(_OPEN_LIMIT_S, do="hybrid", first=0, last=WARM_UP, budget_s=_WARM_UP_BUDGET_S)
            except CommandFailed as error:
                _drop(outcome, name, error)
                continue
            workers[name] = worker
        each = -(-plan.queries // plan.rounds)
        for number in range(plan.rounds):
            first = WARM_UP + number * each
            for name, seen in _turn(outcome, number):
                _ask(outcome, workers[name], (name, seen), first, min(first + each, WARM_UP + plan.queries))
        for name, seen in list(outcome.seen.items()):
            try:
                seen.memory = workers[name].ask(_OPEN_LIMIT_S, do="memory")
                _recall(plan, workers[name], seen)
            except CommandFailed as error:
                _drop(outcome, name, error)


def _ask(outcome: Outcome, worker: Worker, of: tuple[str, Seen], first: int, last: int) -> None:
    """Ask one contender the questions of one round; ours also by each lane alone."""
    name, seen = of
    try:
        answer = worker.ask(_OPEN_LIMIT_S, do="hybrid", first=first, last=last, budget_s=_ROUND_BUDGET_S)
        seen.warm += answer["seconds"]
        seen.warm_cpu += answer["cpu"]
        seen.fewest_hits = min([seen.fewest_hits, *map(len, answer["found"])])
        if name == OURS:
            for lane, times in (("lexical", seen.lexical), ("dense_lane", seen.dense_lane)):
                answer = worker.ask(_OPEN_LIMIT_S, do=lane, first=first, last=last, budget_s=_ROUND_BUDGET_S)
                times.extend(answer["seconds"])
    except CommandFailed as error:
        _drop(outcome, name, error)


def _recall(plan: Plan, worker: Worker, seen: Seen) -> None:
    """Ask by vector alone, and hold the answers against the exact ones among the rows this store has."""
    first, last = WARM_UP, WARM_UP + min(plan.queries, QUERIES)
    answer = worker.ask(_OPEN_LIMIT_S, do="dense", first=first, last=last, budget_s=_RECALL_BUDGET_S)
    truth = Material(plan.material).truth(seen.inserted.rows) or []
    seen.recalls = [recall(found, right) for found, right in zip(answer["found"], truth[first:last], strict=False)]
    seen.dense = answer["seconds"]


def _turn(outcome: Outcome, number: int) -> Iterator[tuple[str, Seen]]:
    """Yield the contenders of one round; each round begins with another."""
    names = list(outcome.seen)
    start = number % len(names) if names else 0
    for name in names[start:] + names[:start]:
        if name in outcome.seen:
            yield name, outcome.seen[name]


def _task(plan: Plan, name: str, deed: str, **more: Any) -> dict[str, Any]:
    data = plan.folder(name) / "data"
    return {"do": deed, "contender": name, "folder": str(data), "material": str(plan.material), **more}


def _drop(outcome: Outcome, name: str, error: CommandFailed) -> None:
    outcome.failed[name] = str(error)
    outcome.seen.pop(name, None)


def _fingerprint(folder: Path) -> str:
    """Name given vectors by their files, without reading gigabytes."""
    files = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(folder.glob("*.npy"))]
    return hashlib.sha256(repr(files).encode()).hexdigest()[:8]


def _tell(what: str) -> None:
    print(f"bench: {what}", file=sys.stderr, flush=True)
