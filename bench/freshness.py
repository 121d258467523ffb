"""Accuracy of the freshness check: scripted refactorings of real repositories, and the verdicts on memories.

From each repository (any checkout of Python code; it is copied, never touched) definitions and files are chosen at
random, one a file, and a memory is written of each. Then each meets one fate: renamed, given another signature, edited,
moved to another file, deleted, its file moved or deleted, or left alone while something else in its file changes. All
of it is committed, half of the repositories' moves by `git mv`, and the memories are recalled. Where things are is
found by Python's own `ast`, not by our parser.

    python -m bench.freshness REPOSITORY [REPOSITORY …] [--each 12] [--seed 1] [--details]
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.freshness_history import measure_history, report_histories
from msgspec.structs import replace

from lorelog.core.memory import NewMemory
from lorelog.core.query import UNCHECKED_VERDICT
from lorelog.engine import Engine
from lorelog.services.code.index_run import CodeIndexJob, index_code
from lorelog.services.freshness.checker import FreshnessChecker, claim_of
from lorelog.wiring import open_engine, resolve_location

SETTINGS = {"embedding.provider": "none", "search.lane": "lexical"}
ASKED = 0.95
ASKED_MS = 2.0
SHORTEST = 4
"""Line limits of a chosen definition."""


@dataclass
class Subject:
    """A definition or a file, with the change applied to it."""

    fate: str
    path: str
    name: str = ""
    line: int = 0
    end: int = 0
    said: str = ""
    expected: str = "fresh"
    hint: str = ""
    """Text that the verdict must contain."""


Told = tuple[Subject, str, str]
"""A subject, its verdict, and the described change."""
Git = Callable[..., None]


def definitions(path: Path) -> list[tuple[str, int, int]]:
    """Return top-level functions and classes of a file: name, first and last line."""
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (SyntaxError, ValueError, UnicodeDecodeError):
        return []
    return [
        (node.name, min([node.lineno, *(item.lineno for item in node.decorator_list)]), node.end_lineno or node.lineno)
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= SHORTEST
    ]


def bound(path: Path) -> list[str]:
    """Return every name that a file binds, with repetitions: a chosen name must have one meaning."""
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (SyntaxError, ValueError, UnicodeDecodeError):
        return []
    nodes = list(ast.walk(tree))
    defined = [node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)]
    stored = (ast.Name, ast.Attribute)
    written = [node for node in nodes if isinstance(node, stored) and isinstance(node.ctx, ast.Store)]
    return defined + [node.id if isinstance(node, ast.Name) else node.attr for node in written]


SYMBOL_FATES = ("untouched", "beside", "renamed", "signature", "edited", "moved", "deleted", "renamed and edited")
FILE_FATES = ("file untouched", "file edited", "file moved", "file renamed", "file deleted")


def choose(root: Path, each: int, rng: random.Random) -> list[Subject]:
    """Choose subjects, each in a separate file."""
    names: Counter[str] = Counter()
    found: dict[str, list[tuple[str, int, int]]] = {}
    for file in sorted(root.rglob("*.py")):
        inside = definitions(file)
        found[str(file.relative_to(root))] = inside
        names.update(bound(file))
    files = [path for path, inside in found.items() if inside and not path.rpartition("/")[2].startswith("__")]
    rng.shuffle(files)
    subjects: list[Subject] = []
    fates = [fate for _ in range(each) for fate in (*SYMBOL_FATES, *FILE_FATES)]
    for fate, path in zip(fates, files, strict=False):
        if fate in FILE_FATES:
            subjects.append(Subject(fate, path))
            continue
        options = [item for item in found[path] if names[item[0]] == 1 and len(item[0]) > 3 and not _is_word(item[0])]
        if fate == "signature":
            options = [option for option in options if _is_function(root / path, option)]
        if options:
            subjects.append(Subject(fate, path, *rng.choice(options)))
    return subjects


def _is_word(name: str) -> bool:
    return name.islower() and "_" not in name


def _is_function(path: Path, option: tuple[str, int, int]) -> bool:
    lines = path.read_text("utf-8").splitlines()[option[1] - 1 : option[2]]
    return any(line.startswith("def ") and "(" in line for line in lines)


def refactor(root: Path, one: Subject, git: Git) -> None:
    """Apply a subject's change."""
    path = root / one.path
    lines = path.read_text("utf-8").split("\n")
    body = lines[one.line - 1 : one.end]
    if one.fate == "beside":
        lines.append("\n\ndef added_by_a_bench():\n    return 'nothing of the others'\n")
    elif one.fate in {"renamed", "renamed and edited"}:
        new = f"{one.name}_anew"
        lines[one.line - 1 : one.end] = [_renamed(line, one.name, new) for line in body]
        if one.fate == "renamed and edited":
            lines.insert(one.end, "    assert True, 'something new'")
        lines = [
            line if one.line <= number <= one.end + 1 else _renamed(line, one.name, new)
            for number, line in enumerate(lines, 1)
        ]
        one.expected, one.hint = "drifted", f"renamed to {new}"
    elif one.fate == "signature":
        at = next(
            number
            for number in range(one.line - 1, one.end)
            if lines[number].lstrip().startswith(("def ", "async def "))
        )
        lines[at] = lines[at].replace(
            "(", "(added_first, " if not lines[at].rstrip().endswith("():") else "(added_first", 1
        )
        one.expected, one.hint = "drifted", "has another signature"
    elif one.fate == "edited":
        lines.insert(one.end, "    added_by_a_bench = len('another last statement')")
        one.expected, one.hint = "drifted", "has changed"
    elif one.fate == "moved":
        del lines[one.line - 1 : one.end]
        target = path.with_name(f"new_home_of_{one.name.lower()}.py")
        target.write_text("\n".join(["# moved here", *body, ""]), "utf-8")
        one.expected, one.hint = "drifted", f"moved to {target.relative_to(root)}"
    elif one.fate == "deleted":
        del lines[one.line - 1 : one.end]
        one.expected, one.hint = "gone", ""
    elif one.fate == "file edited":
        lines.append("\nADDED_BY_A_BENCH = 1\n")
        one.expected, one.hint = "drifted", "has changed"
    path.write_text("\n".join(lines), "utf-8")
    if one.fate in {"file moved", "file renamed"}:
        target = (
            path.with_name(f"other_{path.name}")
            if one.fate == "file renamed"
            else root / "bench_moved_here" / path.name
        )
        target.parent.mkdir(exist_ok=True)
        git("mv", one.path, str(target.relative_to(root)))
        one.expected, one.hint = (
            "drifted",
            f"{'renamed' if one.fate == 'file renamed' else 'moved'} to {target.relative_to(root)}",
        )
    elif one.fate == "file deleted":
        path.unlink()
        one.expected = "gone"


def _renamed(line: str, old: str, new: str) -> str:
    import re

    return re.sub(rf"\b{re.escape(old)}\b", new, line)


def words_of(one: Subject) -> str:
    """Return a memory that names one subject."""
    return (
        f"`{one.path}` has what the team agreed on." if not one.name else f"The team agreed on what `{one.name}` does."
    )


def bring_about(repository: Path, each: int, rng: random.Random, work: Path) -> tuple[list[Told], list[float]]:
    """Copy, remember, refactor, recall; return subjects with verdicts, and warm milliseconds per hit."""
    root = work / repository.name
    shutil.copytree(
        repository,
        root,
        symlinks=True,
        ignore=shutil.ignore_patterns(".git", ".venv", "node_modules", ".lorelog", "__pycache__"),
    )
    environment = {
        **os.environ,
        **{f"GIT_{who}_{what}": "bench@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }

    def git(*args: str) -> None:
        subprocess.run(["git", *args], cwd=root, check=True, capture_output=True, env=environment)

    git("init", "-q")
    git("add", "-A", "-f")
    git("commit", "-q", "-m", "as it was")
    subjects = choose(root, each, rng)
    here = resolve_location(home=str(work / "home"), project=str(root))
    with open_engine(here, SETTINGS) as engine:
        index(engine)
        half = len(subjects) // 2
        for number, item in enumerate(subjects):
            item.said = engine.memories().add([NewMemory(words_of(item))])[0].id
            if number == half:
                engine.run_background_work()  # as the daemon does; of the others only history tells what they named
        for item in subjects:
            refactor(root, item, git)
        git("add", "-A")
        git("commit", "-q", "-m", "refactored")
        index(engine)
        engine.run_background_work()
        return recalled(engine, subjects)


def index(engine: Engine) -> None:
    """Update the code index."""
    place = engine.place
    index_code(engine.code().tables.path, CodeIndexJob(place.project.root, place.project.id))


def recalled(engine: Engine, subjects: list[Subject]) -> tuple[list[Told], list[float]]:
    """Search for each memory, and return its verdict."""
    told: list[Told] = []
    spent: list[float] = []
    for subject in subjects:
        for _ in range(3):  # what a search had no time for is looked at by the next one
            reply = engine.search(words_of(subject), replace(engine.defaults.search, k=3))
            hit = next((hit for hit in reply.hits if hit.id == subject.said), None)
            if hit is not None and hit.verdict.findings:
                break
        verdict = UNCHECKED_VERDICT if hit is None else hit.verdict
        told.append((subject, str(verdict.freshness), "; ".join(verdict.change_phrases)))
        claims = {hit.id: claim_of(hit, hit.project) for hit in reply.hits}
        checker = FreshnessChecker(engine.place, engine.code().tables)
        started = time.perf_counter()
        checker.verdicts(claims)
        spent.append((time.perf_counter() - started) * 1000 / max(1, len(claims)))
    return told, spent


def table(told: list[Told], spent: list[float], *, details: bool) -> bool:
    """Print the results; return True if the targets are met."""
    good = True
    print("| verdict | expected | precision | recall |")
    print("|---|--:|--:|--:|")
    for verdict in ("fresh", "drifted", "gone"):
        right = sum(item.expected == verdict == said for item, said, _ in told)
        expected = sum(item.expected == verdict for item, _, _ in told)
        said_so = sum(said == verdict for _, said, _ in told)
        precision, recall = right / max(1, said_so), right / max(1, expected)
        good &= precision >= ASKED and recall >= ASKED
        print(f"| {verdict} | {expected} | {precision:.3f} | {recall:.3f} |")
    print("\n| fate | memories | verdict right | told how |\n|---|--:|--:|--:|")
    for fate in (*SYMBOL_FATES, *FILE_FATES):
        mine = [each for each in told if each[0].fate == fate]
        if mine:
            right = sum(item.expected == said for item, said, _ in mine)
            told_how = sum(item.hint in how for item, _, how in mine if item.hint)
            of = sum(bool(item.hint) for item, _, _ in mine)
            print(f"| {fate} | {len(mine)} | {right / len(mine):.3f} | {f'{told_how / of:.3f}' if of else ''} |")
    if details:
        for item, said, how in told:
            if item.expected != said or item.hint not in how:
                print(
                    f"  {item.fate}: {item.path} {item.name}: expected {item.expected} ({item.hint}), said {said} ({how})"
                )
    spent.sort()
    median, worst = spent[len(spent) // 2], spent[int(len(spent) * 0.99)]
    good &= median <= ASKED_MS
    print(
        f"\n{len(told)} memories; a verdict takes {median:.2f} ms a hit (median, warm; 99th percentile {worst:.2f}; {ASKED_MS} asked)"
    )
    return good


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repositories", nargs="*", type=Path)
    parser.add_argument("--each", type=int, default=12, help="memories of each fate and repository")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--details", action="store_true", help="what was judged wrongly")
    parser.add_argument("--history", action="append", default=[], metavar="GIT@OLD..NEW", help="a real history")
    parser.add_argument(
        "--tools", type=Path, default=Path(".bench/code"), help="where `make bench-code` put go and typescript"
    )
    args = parser.parse_args(arguments)
    good = True
    if args.repositories:
        good = scripted(args.repositories, args.each, args.seed, details=args.details)
    results = []
    for spec in args.history:
        with tempfile.TemporaryDirectory() as work:
            results.append(measure_history(spec, args.each, args.seed, args.tools, Path(work)))
    if results:
        good &= report_histories(results, details=args.details)
    return 0 if good else 1


def scripted(repositories: list[Path], each: int, seed: int, *, details: bool) -> bool:
    """Measure scripted refactorings."""
    told: list[Told] = []
    spent: list[float] = []
    for repository in repositories:
        with tempfile.TemporaryDirectory() as work:
            some, took = bring_about(repository.resolve(), each, random.Random(seed), Path(work))
        told += some
        spent += took
    return table(told, spent, details=details)


if __name__ == "__main__":
    sys.exit(main())
