"""How many lines of real repositories `lorelog why FILE:LINE` attributes to the right session, and how fast it answers.

    python -m bench.why [--data DIR] [--lines N] [--commits N] [--wrong FILE]

--data holds bare snapshots of repositories (`NAME/repo`, or `NAME`) that keep their agents' sessions on the branch
`entire/checkpoints/v1`. The sessions of each are captured in a temporary home, and lines of its default branch are drawn
and asked about. Trailers never decide an answer, so they are the truth here: the `Entire-Checkpoint` of a commit names
sessions, and the files that each touched. A line is labelled if such a session is captured and touched its file. Lines of
commits without a trailer are people's, as far as the trailers tell. Commits of bots must never be attributed.

Of the labelled lines many are of files that a command wrote: lock files, generated code, copies. A line counts as written by a call if its text
stands in what a call of such a session was to write or to run, which is read here from the raw transcript, without our reader: not in what an edit
replaces. Such lines are drawn a second time by themselves. A snapshot may lack its largest files; a session of which it lacks a transcript counts as not captured.

A trailer names the sessions that were open when somebody committed. If none of them wrote a line, but another captured
session did before the commit, the trailer is incomplete: such answers are counted as wrong, and named apart. --wrong writes
every answer that differs to a file, to be read. It quotes other people's code: do not commit it.

Without --data, only the time is measured: in a repository with --commits made-up commits.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bench.result import Verdicts

from lorelog import Lorelog
from lorelog.core.errors import LorelogError
from lorelog.core.options import TraceOptions
from lorelog.ingest.transcripts.conversation import open_conversation
from lorelog.services.lines.attribution import MAX_FILE_BYTES, is_same_file
from lorelog.services.traces.tables import DIGEST_BYTES, TraceTables, line_digest

BRANCH = "entire/checkpoints/v1"
PRECISION, COVERAGE, P95_MS = 0.98, 0.5, 300
_CHECKPOINT = re.compile(r"^Entire-Checkpoint: ([0-9a-f]{12})\s*$", re.MULTILINE)
_DAY = re.compile(r"^\d{4}-\d\d-\d\d-(?=[0-9a-f]{8}-)")
_MAX_FILES = 400
_LABELLED = ("labelled", "written")


def git(directory: Path, *words: str, ok: Sequence[int] = (0,)) -> bytes:
    done = subprocess.run(["git", "-C", str(directory), *words], capture_output=True, check=False)
    if done.returncode not in ok:
        raise RuntimeError(f"git {' '.join(words)}: {done.stderr.decode('utf-8', 'replace')}")
    return done.stdout


@dataclass
class Team:
    """A repository, checked out, and what its trailers say."""

    name: str
    checkout: Path
    sessions: dict[str, Path] = field(default_factory=dict)
    """Transcripts by session: of each the largest checkpoint."""
    calls: dict[str, set[str]] = field(default_factory=dict)
    """The lines that stand in the calls of each session."""
    trailed: set[str] = field(default_factory=set)
    """The commits with a trailer, also of a session that is not on the branch."""
    truth: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    """The sessions of each commit with the files that they touched; none for one without a trailer."""

    def sessions_of(self, commit: str, path: str) -> set[str]:
        """Return the captured sessions that a commit's trailer gives for a file."""
        said = self.truth.get(commit, {})
        return {session for session, files in said.items() if path in files and session in self.sessions}

    def is_written(self, sessions: Iterable[str], text: str) -> bool:
        """Return whether a line stands in a call of one of the sessions."""
        for session in sessions:
            if session not in self.calls:
                self.calls[session] = set(_called(self.sessions[session].read_text("utf-8", "replace")))
        return any(" ".join(text.split()) in self.calls[session] for session in sessions)


def _called(transcript: str) -> Iterator[str]:
    """Yield the lines of what calls were to write or to run, whatever the host; not of what an edit replaces."""
    records: list[Any] = []
    for text in (transcript, *transcript.split("\n")):  # a document, or a record a line
        with suppress(ValueError):
            records.append(json.loads(text))
    for arguments in _arguments(records):
        texts = dict(_texts(arguments))
        old = {line for key, text in texts.items() if "old" in key for line in _lines_of(text)}
        yield from (
            line for key, text in texts.items() if "old" not in key for line in _lines_of(text) if line not in old
        )


def _arguments(value: Any) -> Iterator[Any]:
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict):
            given = [item[key] for key in ("input", "arguments") if key in item]
            yield from given if {"name", "tool", "toolName"} & {*item} or "status" in item else ()
            yield from _arguments(list(item.values()))
        elif isinstance(item, list):
            yield from _arguments(item)


def _texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str) and value[:1] in ("{", "["):
        with suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, str):
        yield key, value
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        yield from _texts(part, f"{key}.{name}")


def _lines_of(text: str) -> Iterator[str]:
    is_patch = "*** Begin Patch" in text or "\n+++ " in text
    for line in text.splitlines():
        if not is_patch or line.startswith("+"):
            yield " ".join(line.removeprefix("+" if is_patch else "").split())


def read_team(source: Path, folder: Path) -> Team:
    """Check out a repository, and write its sessions to a folder."""
    team = Team(source.parent.name if source.name == "repo" else source.name, folder / "checkout")
    git(folder, "clone", "-q", "--shared", "--no-checkout", str(source), str(team.checkout))
    git(team.checkout, "reset", "-q")
    git(team.checkout, "checkout-index", "-a", "-f", "-q", ok=(0, 1, 128))  # a snapshot may lack its largest files
    refs = git(source, "for-each-ref", "--format=%(refname)").decode().split()
    listing = git(source, "ls-tree", "-r", "-l", "-z", next(ref for ref in refs if ref.endswith(f"/{BRANCH}")))
    folders: dict[str, dict[str, tuple[str, int]]] = defaultdict(dict)
    for entry in filter(None, listing.decode("utf-8", "replace").split("\0")):
        head, _, path = entry.partition("\t")
        _, _, blob, length = head.split()
        place, _, name = path.rpartition("/")
        folders[place][name] = (blob, int(length) if length.isdigit() else 0)
    touched: dict[str, dict[str, set[str]]] = defaultdict(dict)
    largest: dict[str, tuple[int, str]] = {}
    lacking: set[str] = set()
    for place, files in folders.items():
        about = (
            json.loads(git(source, "cat-file", "blob", files["metadata.json"][0])) if "metadata.json" in files else {}
        )
        if session := _DAY.sub("", about.get("session_id") or ""):  # a session that went on for days has several ids
            known = touched["".join(place.split("/")[:2])].setdefault(session, set())
            known.update(about.get("files_touched") or ())
            blob, size = files.get("full.jsonl", ("", 0))
            if blob and not size:
                lacking.add(session)
            if size > largest.get(session, (0, ""))[0]:
                largest[session] = (size, blob)
    (folder / "sessions").mkdir()
    complete = {session: blob for session, (_, blob) in largest.items() if session not in lacking}
    print(
        f"   {team.name}: the snapshot lacks transcripts of {len(lacking)} of {len(largest | dict.fromkeys(lacking))} sessions"
    )
    for number, (session, blob) in enumerate(complete.items()):
        data = git(source, "cat-file", "blob", blob, ok=(0, 128))
        suffix = "json" if data.lstrip().startswith(b"{\n") else "jsonl"  # a document, or a record a line
        file = folder / "sessions" / f"{number}.{suffix}"
        file.write_bytes(data)
        team.sessions[session] = file
    for entry in git(team.checkout, "log", "--format=%H%x00%B%x01").decode("utf-8", "replace").split("\x01"):
        commit, _, message = entry.strip().partition("\0")
        said = team.truth.setdefault(commit, {})
        for checkpoint in _CHECKPOINT.findall(message):
            team.trailed.add(commit)
            for session, names in touched[checkpoint].items():
                said[session] = said.get(session, set()) | names
    return team


def capture(team: Team, client: Lorelog) -> None:
    """Capture all sessions of a team; one that cannot be read counts as not captured."""
    for session, file in list(team.sessions.items()):
        try:
            about = {"host": open_conversation(str(file), "").host, "session": session, "transcript": str(file)}
            client.call("session.capture", about | {"directory": str(team.checkout), "everything": True})
        except LorelogError as error:
            print(f"   not captured: {error.message}", file=sys.stderr)
            del team.sessions[session]


class Spent(NamedTuple):
    """Seconds of one answer."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Line:
    """A line of the checkout, and the commit that plain blame names."""

    file: str
    number: int
    kind: str


def draw_lines(team: Team, count: int, chance: random.Random) -> list[Line]:
    """Return lines to ask about: labelled ones, people's, and bots'."""
    names = git(team.checkout, "ls-files", "-z").decode("utf-8", "replace").split("\0")
    files = [name for name in names if name and not name.startswith(".entire/") and _is_text(team.checkout / name)]
    chance.shuffle(files)
    touched = set().union(*(names for said in team.truth.values() for names in said.values()))
    files.sort(key=lambda name: name not in touched)
    pools: dict[str, list[Line]] = defaultdict(list)
    for name in files[: _MAX_FILES // 2] + files[-_MAX_FILES // 2 :]:
        for commit, author, number, text in _blame(team.checkout, name):
            labelled, has_trailer = team.sessions_of(commit, name), commit in team.trailed
            kind = "bot" if "[bot]" in author else "labelled" if labelled else "" if has_trailer else "people"
            pools[kind].append(Line(name, number, kind))
            if kind == "labelled" and team.is_written(labelled, text):
                pools["written"].append(Line(name, number, "written"))
    wanted = {"labelled": count, "written": count, "people": count // 2, "bot": count // 2}
    return [line for kind, most in wanted.items() for line in chance.sample(pools[kind], min(most, len(pools[kind])))]


def _is_text(path: Path) -> bool:
    if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_FILE_BYTES:
        return False
    return b"\0" not in path.read_bytes()


def _blame(checkout: Path, name: str) -> Iterator[tuple[str, str, int, str]]:
    """Yield commit, author, number and text of each line of a file that is not blank."""
    authors: dict[str, str] = {}
    commit, number = "", 0
    output = git(checkout, "blame", "-w", "--porcelain", "--", name, ok=(0, 128)).decode("utf-8", "replace")
    for line in output.split("\n"):
        words = line.split(" ")
        if line.startswith("\t"):
            if line.strip():
                yield commit, authors.get(commit, ""), number, line[1:]
        elif len(words[0]) == 40 and len(words) > 2:
            commit, number = words[0], int(words[2])
        elif words[0] in ("author", "author-mail"):
            authors[commit] = authors.get(commit, "") + line


def ask(
    team: Team, lines: Sequence[Line], client: Lorelog, tables: TraceTables
) -> tuple[Counter[str], list[Spent], list[str]]:
    """Ask about lines; return counts by kind and outcome, seconds, and what to read."""
    counts: Counter[str] = Counter()
    seconds: list[Spent] = []
    to_read: list[str] = []
    for line in lines:
        reply, spent = timed_answer(client, f"{line.file}:{line.number}")
        seconds.append(spent)
        session, commit = reply["session"], reply["commit"]
        truth = team.sessions_of(commit["id"], commit["path"]) if commit else set()
        kind = line.kind
        if kind in _LABELLED and not truth:
            kind = "moved"  # blame with moves names another commit
        outcome = "unknown" if not session else "right" if session["session"] in truth else "other"
        if kind in _LABELLED and outcome == "unknown":
            outcome = (
                "unknown, edited"
                if any(_edits(tables, session_id, commit["path"]) for session_id in truth)
                else outcome
            )
        if kind in _LABELLED and outcome == "other":
            text = (team.checkout / line.file).read_text("utf-8", "replace").split("\n")[line.number - 1]
            wrote = any(line_digest(text) in _lines(tables, session_id, commit["path"]) for session_id in truth)
            outcome = "other, both wrote it" if wrote else "other, only it wrote it"
        counts[f"{kind}: {outcome}"] += 1
        if session and outcome != "right":
            to_read.append(
                json.dumps({"team": team.name, "kind": kind, "outcome": outcome, "truth": sorted(truth)} | reply)
            )
    return counts, seconds, to_read


def timed_answer(client: Lorelog, place: str) -> tuple[dict[str, Any], Spent]:
    began, before = time.perf_counter(), _cpu_s()
    reply = client.call("code.why", {"place": place})
    return reply, Spent(time.perf_counter() - began, _cpu_s() - before)


def _cpu_s() -> float:
    """Return the CPU time of this process and of the Git processes that it ran."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _edits(tables: TraceTables, session: str, path: str) -> list[bytes]:
    edits = tables.edits(Path(path).name, None, 0)
    return [edit.lines for edit in edits if edit.session == session and is_same_file(edit.file, path)]


def _lines(tables: TraceTables, session: str, path: str) -> set[bytes]:
    size = DIGEST_BYTES
    return {edit[at : at + size] for edit in _edits(tables, session, path) for at in range(0, len(edit), size)}


def measure_team(source: Path, count: int, wrong: Path | None) -> tuple[Counter[str], list[Spent]]:
    with tempfile.TemporaryDirectory(prefix="lorelog-why-") as folder:
        team = read_team(source, Path(folder))
        with Lorelog(team.checkout, home=Path(folder, "home"), daemon="off") as client:
            began = time.process_time()
            capture(team, client)
            spent = time.process_time() - began
            database = next(Path(folder, "home").rglob("traces.db"))
            tables = TraceTables(database, TraceOptions())
            lines = draw_lines(team, count, random.Random(7))
            ask(team, lines[:20], client, tables)  # warm
            counts, seconds, to_read = ask(team, lines, client, tables)
            tables.close()
        if wrong is not None:
            with wrong.open("a", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in to_read)
        print(f"\n{team.name}: {len(team.sessions)} sessions captured in {spent:.0f} s of CPU time")
        for outcome, number in sorted(counts.items()):
            print(f"   {number:6,}  {outcome}")
    return counts, seconds


def time_grown_repository(commits: int, folder: Path) -> list[Spent]:
    """Return the seconds of answers in a repository with many commits, each of which changes some lines of one file."""
    chance, checkout = random.Random(7), folder / "grown"
    files = {
        f"src/module_{number}.py": [f"value_{number}_{line} = compute(0)" for line in range(200)]
        for number in range(40)
    }
    stream: list[str] = []
    for commit in range(commits):
        name = chance.choice(sorted(files))
        for at in chance.sample(range(200), 5):
            files[name][at] = f"value_{at} = compute({commit}, depth={at})"
        message = f"change {commit}"
        stream.append(f"commit refs/heads/main\ncommitter A <a@example.org> {1_700_000_000 + 60 * commit} +0000\n")
        stream.append(f"data {len(message)}\n{message}\n")
        for path in sorted(files) if not commit else [name]:
            text = "\n".join(files[path]) + "\n"
            stream.append(f"M 644 inline {path}\ndata {len(text)}\n{text}\n")
    git(folder, "init", "-q", "-b", "main", str(checkout))
    subprocess.run(["git", "-C", str(checkout), "fast-import", "--quiet"], input="".join(stream).encode(), check=True)
    git(checkout, "reset", "-q", "--hard")
    with Lorelog(checkout, home=folder / "grown-home", daemon="off") as client:
        places = [f"{chance.choice(sorted(files))}:{chance.randrange(1, 200)}" for _ in range(120)]
        return [timed_answer(client, place)[1] for place in places][20:]


def _judge_time(verdicts: Verdicts, where: str, spent: Sequence[Spent]) -> None:
    at = int(0.95 * len(spent))
    wall, cpu = (sorted(times)[at] * 1000 for times in zip(*spent, strict=True))
    verdicts.judge(f"{where}: 95 % of answers", f"{wall:.0f} ms", f"≤ {P95_MS} ms", met=wall <= P95_MS)
    verdicts.judge(f"{where}: CPU time of 95 % of answers", f"{cpu:.0f} ms", "", met=None)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with bare snapshots of repositories")
    parser.add_argument("--lines", type=int, default=400, help="labelled lines of each repository")
    parser.add_argument("--commits", type=int, default=5_000)
    parser.add_argument("--wrong", type=Path, help="where to write the answers to read")
    args = parser.parse_args()
    sources = [] if args.data is None else sorted(args.data.iterdir())
    sources = [source / "repo" if (source / "repo").is_dir() else source for source in sources]
    sources = [source for source in sources if (source / "HEAD").is_file()]
    teams = [
        source for source in sources if BRANCH in git(source, "for-each-ref", ok=(0, 128)).decode("utf-8", "replace")
    ]
    verdicts = Verdicts()
    for source in teams:
        _judge(
            verdicts,
            source.parent.name if source.name == "repo" else source.name,
            *measure_team(source, args.lines, args.wrong),
        )
    with tempfile.TemporaryDirectory(prefix="lorelog-why-") as folder:
        grown = time_grown_repository(args.commits, Path(folder))
    _judge_time(verdicts, f"a repository of {args.commits:,} commits", grown)
    print(f"\n{verdicts.table()}")
    return 1 if verdicts.missed else 0


def _judge(verdicts: Verdicts, name: str, counts: Counter[str], seconds: Sequence[Spent]) -> None:
    labelled = {outcome: number for outcome, number in counts.items() if outcome.startswith(_LABELLED)}
    right = sum(number for key, number in labelled.items() if key.endswith(": right"))
    other = sum(number for key, number in labelled.items() if ": other" in key)
    both = sum(number for key, number in labelled.items() if "both wrote it" in key)
    precision = right / max(1, right + other)
    verdicts.judge(
        f"{name}: attributed to a session of the trailer",
        f"{precision:.3f}",
        f"≥ {PRECISION}",
        met=precision >= PRECISION,
    )
    read = (right + other - both) / max(1, right + other)
    verdicts.judge(
        f"{name}: the same, where the trailer's session wrote the line",
        f"{read:.3f}",
        f"≥ {PRECISION}",
        met=read >= PRECISION,
    )
    for kind, what in zip(_LABELLED, ("labelled lines", "of them, lines written by a call,"), strict=True):
        asked = sum(number for key, number in labelled.items() if key.startswith(kind))
        coverage = labelled.get(f"{kind}: right", 0) / max(1, asked)
        verdicts.judge(
            f"{name}: {what} attributed rightly, of {asked}",
            f"{coverage:.3f}",
            f"≥ {COVERAGE}",
            met=coverage >= COVERAGE,
        )
    bots = sum(number for key, number in counts.items() if key.startswith("bot") and "unknown" not in key)
    asked = sum(number for key, number in counts.items() if key.startswith("bot"))
    verdicts.judge(f"{name}: lines of bots attributed, of {asked}", str(bots), "0", met=bots == 0)
    _judge_time(verdicts, name, seconds)


if __name__ == "__main__":
    sys.exit(main())
