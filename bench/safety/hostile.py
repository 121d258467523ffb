"""Hostile files, ignore patterns and queries: each is answered or refused within a limit of processor time.

Every case runs one command in a fresh process, home and project, without a model and without the daemon. It fails if the command
takes more than the limit (2 s) of processor time beyond what the same command takes with a trivial input, which is measured right
before it; if it crashes (exit status beyond 2, or "a fault of lorelog itself"); or if a harmless memory beside the hostile input is
not found afterwards. Processor time, because the wall clock measures the other programs of the machine, too; on a busy one even
processor time grows by half.

    python -m bench.safety.hostile [--limit 2.0] [--only TEXT]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MEGABYTE = 1_000_000
KILLED_AFTER_S = 30
"""Processor seconds after which the kernel ends a command."""
WORD, PRIVATE = "quokkanote", "walrusdiary"


@dataclass(frozen=True)
class Case:
    """A hostile input: how to plant it, and the command that meets it."""

    name: str
    plant: Callable[[Path], object]
    command: tuple[str, ...] = ("index", "notes")


@dataclass(frozen=True)
class Cost:
    """Exit status, output, processor seconds and peak memory of a command."""

    status: int
    output: str
    seconds: float
    megabytes: float


def run_command(words: Sequence[str], project: Path, home: Path) -> Cost:
    """Run lorelog in a process of its own."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("LORELOG_")},
        "HOME": str(home),
        "LORELOG_HOME": str(home / ".lorelog"),
        "LORELOG_DAEMON_WARM": "off",
        "LORELOG_EMBEDDING_PROVIDER": "none",
    }
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "lorelog", *words],
            cwd=project,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (KILLED_AFTER_S, KILLED_AFTER_S)),  # noqa: PLW1509
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    return Cost(process.returncode, text, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def _note(text: str) -> Callable[[Path], object]:
    """Return a plant for one Markdown file."""
    return lambda project: (project / "notes" / "hostile.md").write_text(text, "utf-8")


def _data(data: bytes) -> Callable[[Path], object]:
    return lambda project: (project / "notes" / "hostile.md").write_bytes(data)


def _fill(piece: str) -> str:
    return piece * (MEGABYTE // len(piece))


def _ignore(line: str, file: str = ".gitignore") -> Callable[[Path], object]:
    """Return a plant for an ignore file beside 50 files with long names."""

    def plant(project: Path) -> None:
        for number in range(50):
            (project / "notes" / f"{'a' * 200}{number}.md").write_text("x")
        (project / "notes" / file).write_text(line + "\n")

    return plant


def _setting(pattern: str) -> Callable[[Path], object]:
    def plant(project: Path) -> None:
        _ignore("")(project)
        (project / ".lorelog.toml").write_text(f'[index]\nexclude = ["{pattern}"]\n')

    return plant


def _link_cycle(project: Path) -> None:
    (project / "notes" / "a").mkdir()
    (project / "notes" / "a" / "b").symlink_to(project / "notes")
    (project / "notes" / "c.md").symlink_to(project / "notes" / "c.md")


def _link_out(project: Path) -> None:
    (project.parent / "private").mkdir()
    (project.parent / "private" / "diary.md").write_text(f"# diary\n\n{PRIVATE}\n")
    (project / ".lorelog").mkdir()
    (project / ".lorelog" / "memory").symlink_to(project.parent / "private")


def _import_out(project: Path) -> None:
    (project.parent / "private" / "rules").mkdir(parents=True)
    for name in ("diary.md", "rules/diary.md"):
        (project.parent / "private" / name).write_text(f"# diary\n\n{PRIVATE}\n")
    (project / "CLAUDE.md").symlink_to(project.parent / "private" / "diary.md")
    (project / ".claude").symlink_to(project.parent / "private")
    (project / ".memsearch").mkdir()
    (project / ".memsearch" / "memory").symlink_to(project.parent / "private")


def _exchange(files: Mapping[str, str], times: int = 1) -> Callable[[Path], object]:
    """Return a plant for a remote whose exchange somebody else wrote, with each text so many times."""

    def plant(project: Path) -> None:
        remote = project.parent / "remote.git"
        subprocess.run(["git", "init", "-q", "--bare", str(remote)], check=True)
        # The remote's own Git runs on this machine, too: let it stream large files.
        subprocess.run(["git", "-C", str(remote), "config", "core.bigFileThreshold", "1m"], check=True)
        name = "name:app"
        slug = f"projects/app-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        stream = ["commit refs/heads/lorelog\ncommitter m <m@example.org> 1700000000 +0000\ndata 1\nx\n"]
        for path, text in (
            ("lorelog-sync.json", '{"version": 1}'),
            (f"{slug}/project.json", json.dumps({"name": name})),
        ):
            stream.append(f"M 100644 inline {path}\ndata {len(text)}\n{text}\n")
        for path, text in files.items():
            head = f"M 100644 inline {path.replace('PROJECT', slug)}\ndata {len(text) * times}\n"
            stream += [head, *[text] * times, "\n"]  # piece by piece: a command's peak of memory begins with ours
        command = ["git", "-C", str(remote), "fast-import", "--quiet"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, encoding="ascii") as process:
            assert process.stdin is not None
            process.stdin.writelines(stream)

    return plant


def _odd_files(project: Path) -> None:
    os.mkfifo(project / "notes" / "pipe.md")
    (project / "notes" / "device.md").symlink_to("/dev/zero")
    (project / "notes" / "line\nbreak\x1b[31m.md").write_text("# odd\n\ntext\n")
    os.mkfifo(project / "notes" / ".lorelogignore")


def ignore_cases() -> Iterator[Case]:
    """Patterns over which a backtracking matcher never ends, and oversize ignore files."""
    patterns = {
        "*a x 11 + b": "*a" * 11 + "b",
        "*a x 16 + b": "*a" * 16 + "b",
        "a* x 10 + ?b": "a*" * 10 + "?b",
        "[a-z]* x 10 + !": "[a-z]*" * 10 + "!",
        "30 stars + b": "*" * 30 + "b",
        "*a x 480 + b": "*a" * 480 + "b",
        "**/*a*a/ x 100": "**/*a*a/" * 100 + "b",
        "a pattern of 1 MB": "*a" * (MEGABYTE // 2),
        "50,000 patterns": "\n".join(f"*a*{number}" for number in range(50_000)),
        "5,000 wild patterns": "\n".join(f"*a*a*{number}b" for number in range(5_000)),
    }
    for name, line in patterns.items():
        yield Case(f"ignore: {name}", _ignore(line))
    yield Case("ignore: .lorelogignore, *a x 16 + b", _ignore("*a" * 16 + "b", ".lorelogignore"))
    yield Case("ignore: index.exclude, *a x 16 + b", _setting("*a" * 16 + "b"))


def markdown_cases() -> Iterator[Case]:
    """Shapes of Markdown that some parsers need the square of."""
    many = ",".join(f"t{number}" for number in range(200_000))
    shapes = {
        "ordinary text": _fill("A plain sentence about nothing in particular.\n\n"),
        "one long line": "x" * MEGABYTE,
        "one long line of words": _fill("word "),
        "nested lists": "".join(f"{' ' * (number % 1000)}- a\n" for number in range(2_000)),
        "nested quotes": _fill("> " * 5_000 + "\n"),
        "open brackets": _fill("["),
        "links that never end": _fill("[a]("),
        "images in images": _fill("!["),
        "emphasis": _fill("*a **b "),
        "backticks of every length": " ".join("`" * length for length in range(1, 1_400)),
        "tables": _fill("|a|b|c|\n|-|-|-|\n"),
        "one row of 500,000 cells": "|a" * (MEGABYTE // 2),
        "open comments": _fill("<!-- "),
        "open comments on lines": _fill("<!--\n"),
        "closed comments": _fill("<!-- a -->"),
        "open fences": _fill("```\n"),
        "headings": _fill("# a\n"),
        "underlined headings": _fill("a\n-\n"),
        "nested headings": _fill("# a\n## b\n### c\n#### d\n##### e\n###### f\n\nx\n"),
        "HTML tags": _fill("<div><p>"),
        "entities": _fill("&amp;"),
        "blank lines": _fill("\n"),
        "combining marks": _fill("\u0301")[: MEGABYTE // 2],
        "dates": _fill("2026-01-01 "),
        "a front matter line of 200,000 tags": f"---\ntags: [{many}]\n---\n\n# a\n\ntext\n",
        "front matter with 200,000 dashes": "---\ntags:\n" + "- a\n" * 200_000 + "---\n",
        "front matter that never ends": "---\na: b\n" + _fill("k: v\n"),
        "a title of 1 MB": f"---\ntitle: {'x' * MEGABYTE}\n---\n\n" + "text\n\n" * 1_000,
        "YAML aliases": "---\na: &a [x]\n" + "b: &b [*a,*a,*a,*a]\n" * 10_000 + "---\n\ntext\n",
        "an anchor with 200,000 tags": f"### 10:00\n<!-- memory:m tags:{many} -->\n" + "text\n\n" * 1_000,
        "an anchor with 200,000 keys": f"### 10:00\n<!-- memory:m {'k:v ' * 200_000}-->\ntext\n",
        "20,000 anchors": "".join(f"### 10:00\n<!-- memory:m{number} -->\nx\n" for number in range(20_000)),
    }
    for name, text in shapes.items():
        yield Case(f"markdown: {name}", _note(text))
    journal = "# 2026-01-01\n\n### 10:00\n<!-- memory:m1 -->\nwombatnote 记忆".encode()
    bytes_of = {
        "torn character at the end": journal[:-1],
        "NUL bytes at the end": journal + b"\0" * 4096,
        "a Latin-1 byte": journal.replace(b" ", b" \xe9", 1),
        "UTF-16": journal.decode().encode("utf-16"),
        "random bytes": bytes(range(256)) * 4_000,
    }
    for name, data in bytes_of.items():
        yield Case(f"bytes: {name}", _data(data))


def other_cases() -> Iterator[Case]:
    """Queries, links, devices, names and archives."""
    harmless = _note("text\n")
    queries = {
        "a x 50,000": "a " * 50_000,
        "quotes x 60,000": '"' * 60_000,
        "wildcards": "*a" * 30_000,
        "CJK": "记忆" * 20_000,
    }
    for name, query in queries.items():
        yield Case(f"query: {name}", harmless, ("search", query))
    yield Case("query: 1 MB", _plant_call("a " * 499_000), ("batch", "--jsonl", "call.jsonl"))
    yield Case("files: link cycle", _link_cycle)
    yield Case("files: journals that lead out", _link_out, ("index",))
    for source in ("rules", "memsearch"):
        yield Case(f"files: import {source}, links that lead out", _import_out, ("import", source, "--yes"))
    yield Case("files: FIFO, device, newline in a name", _odd_files)


def peer_cases() -> Iterator[Case]:
    """What somebody who can push writes to an exchange."""
    entries = "".join(f"\n### 10:00\n<!-- memory:m{number} -->\n{PRIVATE}\n" for number in range(20_000))
    guard = {"event": "add", "id": "g1", "at": "2026-01-01", "by": "person", "command": "*", "message": "no"}
    line = json.dumps({"memory": "m1", "text": "x", "whole": "x", "kind": "x", "at": "2026-01-01"}) + "\n"
    files = {
        "20,000 entries in a journal": {"PROJECT/journals/2026-01-01.md": entries},
        "a day that is not one": {"PROJECT/journals/2026-13-99.md": entries[:1_000]},
        "a writer and a guard never seen": {
            "writers/deadbeef0000/guards.jsonl": json.dumps(guard) + "\n",
            "writers/deadbeef0000/authored.jsonl": line,
            "PROJECT/journals/2026-01-01.md": entries[:1_000],
        },
        "20,000 lines of a log": {"writers/deadbeef0000/authored.jsonl": line * 20_000},
        "a record nested 100,000 deep": {"writers/deadbeef0000/ledger.jsonl": '{"prev": ' + "[" * 100_000},
        "a signature nested 100,000 deep": {"writers/deadbeef0000/signature.json": '{"files": ' + "[" * 100_000},
    }
    command = ("sync", "../remote.git", "--as", "app")
    yield Case("peer: a journal of 150 MB", _exchange({"PROJECT/journals/2026-01-01.md": "x" * MEGABYTE}, 150), command)
    for name, content in files.items():
        yield Case(f"peer: {name}", _exchange(content), command)


def _plant_call(query: str) -> Callable[[Path], object]:
    line = json.dumps({"op": "memory.search", "arguments": {"query": query}})
    return lambda project: (project / "call.jsonl").write_text(line + "\n")


class World:
    """A project and a home with one harmless memory, made anew for each case at the same place."""

    def __init__(self, top: Path) -> None:
        self._fresh, self._used = top / "fresh", top / "used"
        self.project, self.home = self._used / "project", self._used / "home"
        (self.project / "notes").mkdir(parents=True)
        (self.project / "safe").mkdir()
        self.home.mkdir()
        (self.project / "safe" / "safe.md").write_text(f"# safe\n\n{WORD}\n")
        run_command(("index", "safe"), self.project, self.home)
        shutil.copytree(self._used, self._fresh)

    def run(self, case: Case) -> tuple[Cost, bool]:
        """Run a case; return its cost, and whether the harmless memory is found after it and nothing private is."""
        shutil.rmtree(self._used)
        shutil.copytree(self._fresh, self._used)
        case.plant(self.project)
        cost = run_command(case.command, self.project, self.home)
        found = run_command(("search", f"{WORD} {PRIVATE}", "--all-projects", "--json"), self.project, self.home)
        places = [hit["source"] for hit in json.loads(found.output)["hits"]]
        return cost, len(places) == 1 and places[0].endswith("safe.md")


def main() -> int:
    """Print a table of all cases; return 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--limit", type=float, default=2.0, help="processor seconds beyond the same command with a trivial input"
    )
    parser.add_argument("--only", default="", help="run the cases whose name contains this text")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as top:
        return _try_all(World(Path(top)), args.limit, args.only)


def _try_all(world: World, limit: float, only: str) -> int:
    print(f"limit: {limit:.1f} s of processor time beyond the same command with a trivial input\n")
    print(f"{'case':48} {'result':9} {'status':>6} {'trivial':>7} {'beyond':>7} {'MB':>6}")
    failures = 0
    for case in (*ignore_cases(), *markdown_cases(), *other_cases(), *peer_cases()):
        if only not in case.name:
            continue
        trivial = world.run(_trivial(case.command))[0].seconds
        cost, is_found = world.run(case)
        crashed = cost.status not in (0, 1, 2) or "fault of lorelog" in cost.output or "Traceback" in cost.output
        beyond = cost.seconds - trivial
        result = "CRASHED" if crashed else "LOST" if not is_found else "refused" if cost.status else "answered"
        result = "SLOW" if beyond > limit and not crashed else result
        failures += result.isupper()
        print(
            f"{case.name:48} {result:9} {cost.status:6} {trivial:7.2f} {beyond:7.2f} {cost.megabytes:6.0f}", flush=True
        )
        if crashed:
            print(cost.output[-1_000:])
    print(f"\n{failures} failed")
    return 1 if failures else 0


def _trivial(command: tuple[str, ...]) -> Case:
    """Return the same command with a trivial input."""
    if command[0] == "search":
        return Case("trivial", _note("text\n"), ("search", "text"))
    if command[0] == "sync":
        return Case("trivial", _exchange({}), command)
    if command[0] == "batch":
        return Case("trivial", _plant_call("text"), command)
    return Case("trivial", _note("text\n"), command)


if __name__ == "__main__":
    sys.exit(main())
