"""Accuracy of the code index: definitions of eight languages, and references and callers of Python.

    python -m bench.code --tools .bench/code [--python DIR …] [--sources DIR] [--each 15] [--seed 1] [--details]

`bench.code.fetch` fills the folder of tools and sources; `--python` names packages (default: some that this environment
has). Truth: `ast` for Python's definitions, jedi for its references and callers, the TypeScript compiler, `go/parser`,
universal-ctags for the others. ctags is wrong now and then: what it takes for a definition in macros and templates
counts against us here all the same; `--details` shows where we differ.
"""

import argparse
import random
import shutil
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from bench.code import truth
from bench.code.truth import Place, Tooling

from lorelog.code.extract import extract
from lorelog.code.languages.registry import detect_language
from lorelog.code.source import decode_source
from lorelog.core.code import Certainty, Symbol, SymbolKind
from lorelog.services.code.index_run import CodeIndexJob, index_code
from lorelog.services.code.navigation import CodeNavigator, CodeQueryOptions, SymbolQuery
from lorelog.wiring import Location, open_engine, resolve_location

PACKAGES = ("rich", "starlette", "hypothesis", "_pytest", "mcp", "httpx2")
DEFINITIONS, REFERENCES = 0.98, 0.90
MOST_FILES = 400
CLASSES = {SymbolKind.CLASS, SymbolKind.INTERFACE, SymbolKind.ENUM, SymbolKind.TYPE}
FUNCTIONS = {SymbolKind.FUNCTION, SymbolKind.METHOD}
VARIABLES = {SymbolKind.VARIABLE, SymbolKind.CONSTANT}
CTAGS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "rust": ("Rust", ("--kinds-Rust=-c-m-e-C",)),
    "java": ("Java", ("--kinds-Java=-p-f-e",)),
    "c": ("C", ("--kinds-C=+p+x-m-e",)),
    "cpp": ("C++", ("--kinds-C++=+p+x-m-e",)),
}
"""For each of our languages: the name ctags uses, and the kinds that count."""


@dataclass
class Tally:
    """Expected and found definitions."""

    right: int = 0
    wrong: int = 0
    missed: int = 0
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    """CPU seconds."""
    differences: Counter[str] = field(default_factory=Counter)

    def add(self, ours: set[object], theirs: set[object]) -> None:
        """Add one comparison."""
        self.right += len(ours & theirs)
        self.wrong += len(ours - theirs)
        self.missed += len(theirs - ours)

    @property
    def precision(self) -> float:
        """Share of the found definitions that are correct."""
        return self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        """Share of the expected definitions that were found."""
        return self.right / max(1, self.right + self.missed)


def files_of(below: Sequence[Path], language: str) -> list[Path]:
    """Return the files of a language, evenly sampled if there are many."""
    found = [
        path
        for folder in below
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not path.name.endswith((".d.ts", ".min.js"))
        and detect_language(str(path), path.open("rb").read(4096)) == language
    ]
    return found[:: max(1, len(found) // MOST_FILES)][:MOST_FILES]


def ours(path: Path, language: str) -> set[Place] | None:
    """Return our definitions of a file as names and lines; None if we do not read it."""
    reading = decode_source(path.read_bytes(), language)
    if reading.refusal:
        return None
    symbols = extract(reading.source, language).symbols
    if language == "python":
        return {(symbol.name, symbol.name_line) for symbol in symbols}
    classes = {symbol.name for symbol in symbols if symbol.kind in CLASSES}
    functions = {
        symbol.name for symbol in symbols if symbol.kind in FUNCTIONS
    } - classes  # constructors have their class's name

    def counts(item: Symbol) -> bool:
        """Say whether the tool would list such a thing, too: of fields each lists others; ctags does not look into Java's anonymous classes, and knows no constants of Rust."""
        around = item.container.split(".")
        if item.kind in VARIABLES and around[-1] in classes:
            return False
        if language == "java" and functions.intersection(around):
            return False
        return language != "rust" or item.kind is not SymbolKind.CONSTANT

    return {(symbol.name, symbol.name_line) for symbol in symbols if counts(symbol)}


def compare(paths: Sequence[Path], language: str, theirs: Mapping[str, set[Place]], *, details: bool) -> Tally:
    """Compare our definitions with a tool's."""
    tally = Tally()
    for path in paths:
        started = time.process_time()
        expected, found = theirs.get(str(path)), ours(path, language)
        tally.seconds += time.process_time() - started
        if expected is None or found is None:
            continue
        tally.files += 1
        tally.bytes += path.stat().st_size
        tally.add(set(found), set(expected))
        if details:
            for name, line in sorted(found ^ expected)[:3]:
                side = "ours only" if (name, line) in found else "theirs only"
                print(f"  {language} {side}: {name} {path}:{line}", file=sys.stderr)
    return tally


def definitions(
    packages: Sequence[Path], sources: Path, tools: Tooling, *, details: bool
) -> Iterator[tuple[str, str, Tally]]:
    """Yield language, tool and comparison."""
    paths = files_of(packages, "python")
    told = {str(path): found for path in paths if (found := truth.python_definitions(path)) is not None}
    yield "python", "ast", compare(paths, "python", told, details=details)
    if not sources.exists():
        return
    for language in ("typescript", "tsx", "javascript"):
        paths = files_of([sources], language)
        if tools.typescript and paths:
            known = truth.typescript_definitions(paths, tools.typescript)
            yield language, "typescript", compare(paths, language, known, details=details)
    paths = files_of([sources], "go")
    if tools.go and paths:
        yield "go", "go/parser", compare(paths, "go", truth.go_definitions(paths, tools.go), details=details)
    for language, (name, options) in CTAGS.items():
        paths = files_of([sources], language)
        if paths:
            by_file = truth.ctags_definitions(paths, name, options)
            # It takes the `str` of `&'static str` for the name of a static.
            tagged = {
                path: {item for item in found if (language, item[0]) != ("rust", "str")}
                for path, found in by_file.items()
            }
            yield language, "ctags", compare(paths, language, tagged, details=details)


def references(
    package: Path, tools: Tooling, each: int, seed: int, *, details: bool
) -> tuple[Tally, Tally, Counter[str]]:
    """Compare references and callers of a package's definitions with jedi's."""
    assert tools.jedi is not None
    calls: dict[str, set[tuple[int, int]]] = {}
    using, calling = Tally(), Tally()
    by_kind: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as work, open_engine(_beside(package, Path(work))) as engine:
        package = Path(engine.place.project.root) / package.name
        chosen = choose(truth.sample(package), each, seed)
        told = truth.jedi_references(package.parent, chosen, tools.jedi)
        index_code(engine.code().tables.path, CodeIndexJob(engine.place.project.root, engine.place.project.id))
        asker = CodeNavigator(engine.code())
        for item, places in zip(chosen, told, strict=True):
            if places is None:
                continue
            own = (item.path, item.line, item.column)
            expected = {place for place in places if place != own and place[0].startswith(str(package))}
            found = {place for place in referring(asker, item) if not _in_string(place)}
            # Another definition of the same name (an overload, a branch) is a reference to jedi, and a definition to us.
            expected = {place for place in expected if not _is_definition(place, item.name)}
            using.add(set(found), set(expected))
            by_kind[f"{item.kind} right"] += len(found & expected)
            by_kind[f"{item.kind} wrong"] += len(found - expected)
            by_kind[f"{item.kind} missed"] += len(expected - found)
            called = {
                place
                for place in expected
                if (place[1], place[2]) in calls.setdefault(place[0], truth.calls_in(place[0]))
            }
            if item.kind in {"function", "method", "class"}:
                calling.add(set(callers(asker, item)), {(path, line) for path, line, _ in called})
            if details and found != expected:
                print(
                    f"  {item.kind} {item.name} {item.path}:{item.line} wrong {sorted(found - expected)[:3]} missed {sorted(expected - found)[:3]}",
                    file=sys.stderr,
                )
    return using, calling, by_kind


def _beside(package: Path, work: Path) -> Location:
    """Copy a package to a separate folder: in place it may be ignored, or have other packages around it."""
    (work / "tree").mkdir()
    shutil.copytree(package, work / "tree" / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    return resolve_location(home=str(work / "home"), project=str(work / "tree"))


@cache
def _strings(path: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    return truth.strings_in(path)


def _in_string(place: tuple[str, int, int]) -> bool:
    return any(start <= place[1:] < end for start, end in _strings(place[0]))


def _is_definition(place: tuple[str, int, int], name: str) -> bool:
    line = Path(place[0]).read_text("utf-8").split("\n")[place[1] - 1]
    before, after = line[: place[2]].strip(), line[place[2] + len(name) :].lstrip()
    return before.endswith(("def", "class")) or (
        not before and after.startswith(("=", ":")) and not after.startswith("==")
    )


def choose(asked: Sequence[truth.Asked], each: int, seed: int) -> list[truth.Asked]:
    """Return a random sample of each kind."""
    rng = random.Random(seed)
    chosen = []
    for kind in ("function", "class", "method", "variable"):
        some = [item for item in asked if item.kind == kind]
        chosen += rng.sample(some, min(each, len(some)))
    return chosen


def referring(asker: CodeNavigator, one: truth.Asked) -> set[tuple[str, int, int]]:
    """Return our references to a definition."""
    wanted = SymbolQuery(one.name, path=str(Path(one.path).resolve()), line=one.line)
    reply = asker.find_references(wanted, CodeQueryOptions(limit=100_000, certainty=Certainty.LIKELY))
    return {
        (reference.file_path, reference.line, reference.col - 1)
        for reference in reply.references
        if not _is_definition((reference.file_path, reference.line, reference.col - 1), one.name)
    }


def callers(asker: CodeNavigator, one: truth.Asked) -> set[Place]:
    """Return the lines of our calls of a definition."""
    wanted = SymbolQuery(one.name, path=str(Path(one.path).resolve()), line=one.line)
    reply = asker.find_callers(wanted, CodeQueryOptions(limit=100_000, certainty=Certainty.LIKELY))
    return {(caller.caller_file, caller.call_line) for caller in reply.callers}


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", type=Path, default=Path(".bench/code"))
    parser.add_argument("--python", nargs="*", type=Path)
    parser.add_argument("--sources", type=Path)
    parser.add_argument(
        "--each", type=int, default=15, help="definitions of each kind and package that jedi is asked about"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--details", action="store_true")
    args = parser.parse_args(arguments)
    site = Path(sysconfig.get_path("purelib"))
    packages = [item.resolve() for item in args.python or (site / name for name in PACKAGES) if item.is_dir()]
    tools = Tooling.found(args.tools.resolve())
    good = True
    print(
        "| language | truth | files | MB | MB/s a core | definitions | precision | recall |\n|---|---|--:|--:|--:|--:|--:|--:|"
    )
    for language, tool, tally in definitions(
        packages, (args.sources or args.tools / "sources").resolve(), tools, details=args.details
    ):
        good &= tally.precision >= DEFINITIONS and tally.recall >= DEFINITIONS
        print(
            f"| {language} | {tool} | {tally.files} | {tally.bytes / 1e6:.1f} | {tally.bytes / 1e6 / max(tally.seconds, 1e-9):.1f} | {tally.right + tally.missed} | {tally.precision:.3f} | {tally.recall:.3f} |",
            flush=True,
        )
    if tools.jedi is None:
        print("\nno jedi: references are not measured (python -m bench.code.fetch .bench/code)")
        return 0 if good else 1
    print(
        "\n| package | references | precision | recall | callers | precision | recall |\n|---|--:|--:|--:|--:|--:|--:|"
    )
    using, calling, kinds = Tally(), Tally(), Counter[str]()
    for package in packages:
        some, called, by_kind = references(package, tools, args.each, args.seed, details=args.details)
        _print_row(package.name, some, called)
        for total, item in ((using, some), (calling, called)):
            total.right, total.wrong, total.missed = (
                total.right + item.right,
                total.wrong + item.wrong,
                total.missed + item.missed,
            )
        kinds += by_kind
    _print_row("all", using, calling)
    print()
    for kind in ("function", "class", "method", "variable"):
        right, wrong, missed = (kinds[f"{kind} {what}"] for what in ("right", "wrong", "missed"))
        print(
            f"{kind}: precision {right / max(1, right + wrong):.3f}, recall {right / max(1, right + missed):.3f} of {right + missed}"
        )
    good &= min(using.precision, using.recall, calling.precision, calling.recall) >= REFERENCES
    return 0 if good else 1


def _print_row(name: str, using: Tally, calling: Tally) -> None:
    cells = [(item.right + item.missed, item.precision, item.recall) for item in (using, calling)]
    print(
        f"| {name} | "
        + " | ".join(f"{count} | {precision:.3f} | {recall:.3f}" for count, precision, recall in cells)
        + " |",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
