"""Accuracy of the freshness check on real histories: memories of an old state, the code indexed only at a new one.

A repository is cloned and checked out at a new tag. Memories are generated about definitions and files of an old tag
(the commit of that day on the way to the new tag), written as journals of that day, and indexed together with the code
at the new tag: what a fresh clone with old journals, or a backfill, looks like. One half of the memories names its
commit, the other has a day only. What became of each thing is told by each language's own parser (`freshness_truth`).

    python -m bench.freshness --history PATH_OF_GIT_DIRECTORY@OLD..NEW [--history …] [--each 15] [--tools .bench/code]
"""

import os
import random
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.code.truth import Tooling
from bench.freshness_truth.definitions import Definition
from bench.freshness_truth.fates import DRIFTED, FRESH, GONE, UNSURE, Fates, combined, read_state
from msgspec.structs import replace

from lorelog.core.query import UNCHECKED_VERDICT
from lorelog.engine import Engine
from lorelog.services.code.index_run import CodeIndexJob, index_code
from lorelog.services.freshness.checker import FreshnessChecker, claim_of
from lorelog.wiring import open_engine, resolve_location

SETTINGS = {"embedding.provider": "none", "search.lane": "lexical"}
SHORTEST = 4
"""Lines of a chosen definition, at least."""
ASKED = 0.95
ASKED_FRESH = 0.98
ASKED_UNCHECKED = 0.10
ASKED_MS = 2.0
FORMS = ("path and symbol", "symbol", "turn", "file")


@dataclass
class HistoryMemory:
    """A generated memory, with what became of the things it names."""

    form: str
    what: str
    """The fate of the definition, or of the file."""
    expected: str
    text: str
    word: str = ""
    verdict: str = ""
    how: str = ""


@dataclass
class HistoryResult:
    """Verdicts on the memories of one repository."""

    name: str
    memories: list[HistoryMemory] = field(default_factory=list)
    unsure: int = 0
    """Things whose fate is a question of degree, which are left out, of all that were looked at."""
    seen: int = 0
    spent_ms: list[float] = field(default_factory=list)
    seconds: float = 0.0


def measure_history(spec: str, each: int, seed: int, tools: Path, work: Path) -> HistoryResult:
    """Clone, generate memories, index, recall."""
    source, _, tags = spec.rpartition("@")
    old_tag, _, new_tag = tags.partition("..")
    name = Path(source).resolve().parent.name if Path(source).name in {"repo", ".git"} else Path(source).stem
    root = work / "clone"
    _git(work, "clone", "-q", "--shared", "--no-checkout", str(Path(source).resolve()), str(root))
    _git(root, "checkout", "-q", "-B", "main", f"{new_tag}^{{commit}}")
    base = _git(root, "merge-base", f"{old_tag}^{{commit}}", "main")
    day = _git(root, "show", "-s", "--format=%cd", "--date=format-local:%Y-%m-%d", base)
    then = _git(root, "rev-list", "-1", f"--before={day}T23:59:59", "main")
    found = Tooling.found(tools.resolve())
    old = read_state(root, then, work / "then", found)
    new = read_state(root, "main", work / "now", found)
    fates = Fates(old, new, _followed(root, then))
    result = HistoryResult(f"{name} {old_tag} to {new_tag}")
    rng = random.Random(seed)
    result.memories, result.unsure, result.seen = choose(fates, each, rng)
    for number, memory in enumerate(result.memories):
        memory.word = f"agreed{number:04}zq"
    _write_journal(root / ".lorelog" / "memory" / f"{day}.md", result.memories, then)
    started = time.perf_counter()
    here = resolve_location(home=str(work / "home"), project=str(root))
    with open_engine(here, SETTINGS) as engine:
        engine.maintenance().index()
        place = engine.place
        index_code(engine.code().tables.path, CodeIndexJob(place.project.root, place.project.id))
        result.seconds = time.perf_counter() - started
        engine.run_background_work()
        result.spent_ms = recall(engine, result.memories)
    return result


def _git(folder: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=folder, check=True, capture_output=True, env={**os.environ, "TZ": "UTC"})
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def _followed(root: Path, then: str) -> dict[str, str]:
    """Return the files that some commit renames: whether these are gone is a matter of opinion."""
    told = _git(root, "log", "--format=", "--name-status", "--diff-filter=R", "-M50%", f"{then}..main")
    lines = (line.split("\t") for line in told.splitlines() if line.startswith("R"))
    return {parts[1]: parts[2] for parts in lines if len(parts) == 3}


def choose(fates: Fates, each: int, rng: random.Random) -> tuple[list[HistoryMemory], int, int]:
    """Choose definitions and files of each fate at random; return memories, fates left open, and things looked at."""
    unsure = seen = 0
    items = [item for inside in fates.old.inside.values() for item in inside if item.end - item.line >= SHORTEST]
    rng.shuffle(items)
    names = Counter(item.last for inside in fates.old.inside.values() for item in inside)
    memories: list[HistoryMemory] = []
    makers: dict[str, Callable[[Definition, str], HistoryMemory | None]] = {
        "path and symbol": lambda item, fate: _path_and_symbol(fates, item, fate),
        "turn": lambda item, fate: _turn(fates, item, fate),
        "symbol": lambda item, fate: _symbol(names, item, fate),
    }
    wanted = {(form, fate): each for form in makers for fate in ("fresh", "beside", "changed", "moved", "gone")}
    for item in items:
        if not any(wanted.values()):
            break
        seen += 1
        fate = _fate_name(fates, item)
        if fate == UNSURE:
            unsure += 1
            continue
        form = max(makers, key=lambda form: (wanted[form, fate], form))
        memory = makers[form](item, fate) if wanted[form, fate] > 0 else None
        if memory is not None and memory.expected == UNSURE:
            unsure += 1
        elif memory is not None:
            wanted[form, fate] -= 1
            memories.append(memory)
    files = [path for path in fates.old.inside if not path.rpartition("/")[2].startswith("__init__")]
    rng.shuffle(files)
    left = dict.fromkeys((FRESH, DRIFTED, "moved", GONE), each)
    for path in files:
        if not any(left.values()):
            break
        seen += 1
        fate = fates.of_file(path)
        unsure += fate == UNSURE
        what = "moved" if fate == DRIFTED and path not in fates.new.blobs else fate
        if left.get(what, 0):
            left[what] -= 1
            memories.append(HistoryMemory("file", what, fate, f"`{path}` holds what we agreed on."))
    rng.shuffle(memories)
    return memories, unsure, seen


def _fate_name(fates: Fates, item: Definition) -> str:
    fate = fates.of_definition(item)
    if fate == FRESH:
        return "fresh" if fates.old.blobs[item.path] == fates.new.blobs[item.path] else "beside"
    if fate == DRIFTED:
        return "changed" if fates.new.named(item.path, item.name) else "moved"
    return fate


_EXPECTED = {"fresh": FRESH, "beside": FRESH, "changed": DRIFTED, "moved": DRIFTED, "gone": GONE}


def _with_file(fates: Fates, item: Definition, fate: str) -> str:
    file = FRESH if item.path in fates.new.blobs else fates.of_file(item.path)
    return combined((_EXPECTED[fate], file))


def _path_and_symbol(fates: Fates, item: Definition, fate: str) -> HistoryMemory:
    text = f"We settled how `{item.name}` in `{item.path}` behaves."
    return HistoryMemory("path and symbol", fate, _with_file(fates, item, fate), text)


def _turn(fates: Fates, item: Definition, fate: str) -> HistoryMemory:
    text = f"- User asked: why is it slow?\n- Outcome: {item.name}() did it twice; now once.\n- Files: {item.path}"
    return HistoryMemory("turn", fate, _with_file(fates, item, fate), text)


def _symbol(names: Counter[str], item: Definition, fate: str) -> HistoryMemory | None:
    if names[item.last] != 1 or len(item.last) < 5 or (item.last.islower() and "_" not in item.last):
        return None
    return HistoryMemory("symbol", fate, _EXPECTED[fate], f"We settled how `{item.name}` behaves.")


def _write_journal(file: Path, memories: Sequence[HistoryMemory], commit: str) -> None:
    file.parent.mkdir(parents=True)
    sections = []
    for number, memory in enumerate(memories):
        anchor = f" commit:{commit[:12]}" if number % 2 else ""
        sections.append(
            f"### 23:59\n<!-- session:s{number} branch:main{anchor} memory:m{number} type:turn origin:agent -->\n"
            f"{memory.text}\n- Noted as {memory.word}\n"
        )
    file.write_text(f"# {file.stem}\n\n" + "\n".join(sections), "utf-8")


def recall(engine: Engine, memories: Sequence[HistoryMemory]) -> list[float]:
    """Search for each memory, and keep its verdict; return warm milliseconds per hit."""
    spent: list[float] = []
    for memory in memories:
        hit = None
        for _ in range(3):  # what a search had no time for is looked at by the next one
            reply = engine.search(memory.word, replace(engine.defaults.search, k=3))
            hit = next((hit for hit in reply.hits if memory.word in hit.content), None)
            if hit is not None and hit.verdict.findings:
                break
        if hit is None:
            memory.verdict = "not found"
            continue
        verdict = UNCHECKED_VERDICT if hit is None else hit.verdict
        memory.verdict, memory.how = str(verdict.freshness), "; ".join(verdict.change_phrases)
        checker = FreshnessChecker(engine.place, engine.code().tables)
        started = time.perf_counter()
        checker.verdicts({hit.id: claim_of(hit, hit.project)})
        spent.append((time.perf_counter() - started) * 1000)
    return spent


def report_histories(results: Sequence[HistoryResult], *, details: bool) -> bool:
    """Print the results; return True if the targets are met by all memories together."""
    print("| repository | memories | fresh p / r | drifted p / r | gone p / r | unchecked | left out | ms |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    every = HistoryResult("all")
    for result in results:
        every.memories += result.memories
        every.unsure += result.unsure
        every.seen += result.seen
        every.spent_ms += result.spent_ms
        _print_row(result)
    good = _print_row(every)
    print("\n| form | fate | memories | right | unchecked | said |\n|---|---|--:|--:|--:|---|")
    groups: dict[tuple[str, str], list[HistoryMemory]] = defaultdict(list)
    for memory in every.memories:
        groups[memory.form, memory.what].append(memory)
    for (form, what), group in sorted(groups.items()):
        right = sum(memory.verdict == memory.expected for memory in group)
        said = ", ".join(f"{count} {said}" for said, count in Counter(memory.verdict for memory in group).most_common())
        open_ = sum(memory.verdict == "unchecked" for memory in group)
        print(f"| {form} | {what} | {len(group)} | {right / len(group):.3f} | {open_} | {said} |")
    if details:
        for result in results:
            for memory in result.memories:
                if memory.verdict != memory.expected:
                    told = memory.text.replace("\n", " ")
                    print(
                        f"  {result.name}: {memory.form}, {memory.what}: expected {memory.expected}, said {memory.verdict} ({memory.how}): {told}"
                    )
    return good


def _print_row(result: HistoryResult) -> bool:
    cells = []
    good = True
    for verdict in (FRESH, DRIFTED, GONE):
        right = sum(memory.expected == verdict == memory.verdict for memory in result.memories)
        said = sum(memory.verdict == verdict for memory in result.memories)
        expected = sum(memory.expected == verdict for memory in result.memories)
        precision, recalled = right / max(1, said), right / max(1, expected)
        good &= precision >= (ASKED_FRESH if verdict == FRESH else ASKED) and recalled >= ASKED
        cells.append(f"{precision:.3f} / {recalled:.3f} ({expected})")
    unchecked = sum(memory.verdict == "unchecked" for memory in result.memories) / max(1, len(result.memories))
    good &= unchecked <= ASKED_UNCHECKED
    times = sorted(result.spent_ms) or [0.0]
    median = times[len(times) // 2]
    print(
        f"| {result.name} | {len(result.memories)} | {' | '.join(cells)} | {unchecked:.1%} | {result.unsure / max(1, result.seen):.1%} |"
        f" {median:.2f} (99 %: {times[int(len(times) * 0.99)]:.1f}) |"
    )
    return good and median <= ASKED_MS
