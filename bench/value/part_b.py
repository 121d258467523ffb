"""B1: is a file that the repair of an issue changed named in what the agent is shown?

The past sessions of each repository are one memory, captured by `lorelog backfill`. Each related issue goes through the real hooks as a
prompt. Its gold files are those that the official patch changes, without tests and documentation; a file is named by its whole path, or by
folder and name. Part `b1` reads the issues of Lite, and `b1-held-out` the rest of Full. `issues with a past session` are those whose gold file an earlier session changed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from bench.result import Verdicts, format_table
from bench.value.intervals import mean, share
from bench.value.issues import Issue, Project, identifiers, load_projects, names_file
from bench.value.memory import Memory, Shown, fit, is_quoted, open_memory
from bench.value.sources import GitSource, SourceMissing, find_source

from lorelog.surfaces.hook import context as hook_context

_MAX_PROMPT_CHARS = 400
_OURS = ("lorelog prompt", "lorelog session start", "lorelog search")
_WHAT_IF = (
    "what if: prompts of any length",
    "what if: prompts of any length, any hit",
    "what if: our ranking, bare text",
    "what if: only the files of the five sessions found first",
)
_GREP_SECONDS = 60
_FOUND_FIRST = 5
"""Of more, the files of a small repository's sessions are simply all files that matter there."""


@dataclass(frozen=True)
class Naming:
    """Whether one arm named a gold file of an issue."""

    issue: str
    repository: str
    arm: str
    budget: int
    tokens: int
    named: bool
    has_past: bool
    """Whether a past session changed a gold file."""
    stage: str = ""


def run_part(sources: Path, keep: Path, deadline: float, *, held_out: bool = False) -> list[Naming]:
    """Measure every issue under every arm."""
    found: list[Naming] = []
    for project in load_projects(sources, held_out=held_out):
        with open_memory(keep, project.repository.replace("/", "+"), project.now, project.write) as memory:
            trial = _Trial(memory, project, _checkout_source(sources, project), keep)
            for issue in project.issues:
                if time.monotonic() > deadline:
                    break
                found += trial.namings(issue)
    (keep / f"outcomes_b1{'_held_out' if held_out else ''}.json").write_text(
        json.dumps([vars(one) for one in found], indent=1), "utf-8"
    )
    return found


def _checkout_source(sources: Path, project: Project) -> GitSource | None:
    try:
        return find_source(sources, project.repository)
    except SourceMissing:
        return None


class _Trial:
    """The memory of a repository, asked about its issues."""

    def __init__(self, memory: Memory, project: Project, code: GitSource | None, keep: Path) -> None:
        self._memory, self._project, self._code, self._keep = memory, project, code, keep
        self._notes: dict[str, str] = defaultdict(str)
        for entry in re.split(r"^(?=### )", memory.notes(), flags=re.MULTILINE):
            if found := re.search(r"session:([\w-]+)", entry):
                self._notes[found[1][:8]] += re.sub(r"<!--.*?-->", "", entry, flags=re.DOTALL)

    def namings(self, issue: Issue) -> Iterator[Naming]:
        """Yield what each arm named."""
        editors = self._project.editors(issue)
        for arm, budget, shown in self._shown(issue):
            named = names_file(shown.text, issue.gold)
            stage = "" if named or not editors or arm not in _OURS else self._stage(issue, arm, shown.text)
            tokens = shown.tokens if arm != "nothing" else 0
            yield Naming(issue.name, issue.repository, arm, budget, tokens, named, bool(editors), stage)

    def _shown(self, issue: Issue) -> Iterator[tuple[str, int, Shown]]:
        memory, lanes = self._memory, self._memory.lanes
        yield "nothing", 0, Shown("nothing", issue.text)
        for budget in (200, 700):
            if self._code is not None and self._code.has(issue.commit):
                yield "grep", budget, Shown("grep", fit(grep_files(self._code, issue, self._keep), budget))
            yield "BM25", budget, Shown("BM25", fit(_bare(lanes.bm25(issue.text)), budget))
            yield "memsearch", budget, Shown("memsearch", fit(_bare(lanes.memsearch(issue.text)), budget))
            yield "lorelog search", budget, memory.search(issue.text, budget)
            ranked = memory.ranked(issue.text)
            yield _WHAT_IF[2], budget, Shown("ranked", fit(_bare(ranked), budget))
            yield (
                _WHAT_IF[3],
                budget,
                Shown(
                    "files",
                    fit(
                        _files([self._notes[one[:8]] for one in memory.found_sessions(issue.text)[:_FOUND_FIRST]]),
                        budget,
                    ),
                ),
            )
        session = memory.run_session(issue.name, issue.text)
        for moment, arm, budget in (("session-start", _OURS[1], 600), ("prompt", _OURS[0], 200)):
            yield arm, budget, Shown(moment, "\n".join(part.text for part in session if part.moment == moment))
        for arm, relevance in zip(_WHAT_IF[:2], ("0.1", "0"), strict=True):
            with _any_length(relevance):
                shown = memory.run_session(f"{issue.name} {arm}", issue.text, start=0)
            yield arm, 200, Shown(arm, "\n".join(part.text for part in shown))

    def _stage(self, issue: Issue, arm: str, shown: str) -> str:
        own = [session.name[:8] for session in self._project.editors(issue)]
        notes = [self._notes[session] for session in own]
        others = "\n".join(text for session, text in self._notes.items() if session not in own)
        if not any(names_file(note, issue.gold) for note in notes):
            return "capture: no note of the sessions that changed it names it"
        if arm == "lorelog session start":
            return "start: sessions of other days are not shown on the default branch"
        if arm == "lorelog prompt":
            if len(issue.text.strip()) > _MAX_PROMPT_CHARS:
                return "prompt: longer than 400 characters, nothing is searched for"
            if not shown:
                return "prompt: no rare name of it is in a memory, nothing is searched for"
        if is_quoted(shown, "\n".join(notes), others):
            return "packing: the right memory is shown, cut before its list of files"
        return "search: other memories come first"


@contextmanager
def _any_length(relevance: str) -> Iterator[None]:
    """Run the hooks as if they took prompts of any length, with a minimum relevance: what a change would bring."""
    os.environ["LORELOG_SESSION_HITS_RELEVANCE"] = relevance
    try:
        with mock.patch.object(hook_context, "_MAX_PROMPT_CHARS", 1_000_000):
            yield
    finally:
        del os.environ["LORELOG_SESSION_HITS_RELEVANCE"]


def grep_files(code: GitSource, issue: Issue, keep: Path) -> list[str]:
    """Return the files that have most of the issue's identifiers, rare ones first; kept, because grep takes seconds."""
    file = keep / "grep" / f"{issue.name}.json"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(_grep(code, issue)), "utf-8")
    found: list[str] = json.loads(file.read_text("utf-8"))
    return found


def _grep(code: GitSource, issue: Issue) -> list[str]:
    names = identifiers(issue.text)
    if not names:
        return []
    words = ["git", "-C", str(code.folder), "grep", "-o", "-w", "-F", "--full-name", *(f"-e{name}" for name in names)]
    words += [issue.commit, "--", "*.py", "*.pyx", "*.c", "*.js", ":!*test*"]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, errors="replace", timeout=_GREP_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return []
    files: dict[str, set[str]] = defaultdict(set)
    for line in done.stdout.splitlines():
        _, path, name = line.split(":", 2)
        files[path].add(name)
    spread = Counter(name for found in files.values() for name in found)
    return sorted(files, key=lambda path: (-sum(1 / spread[name] for name in files[path]), path))[:200]


def _files(texts: Sequence[str]) -> list[str]:
    """Return the files in folders that memories list, each once."""
    lists = (found[1] for text in texts if (found := re.search(r"^- Files: (.+)$", text, re.MULTILINE)))
    return list(
        dict.fromkeys(path for files in lists for path in files.split(", ") if "/" in path and "output/" not in path)
    )


def _bare(texts: Sequence[str]) -> list[str]:
    return [re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL) for text in texts]


def report(found: Sequence[Naming], verdicts: Verdicts) -> Iterator[str]:
    """Yield the tables of the part."""
    arms = dict.fromkeys((one.arm, one.budget) for one in found)
    issues = {one.issue: one.has_past for one in found}
    yield f"{len(issues)} issues of {len({one.repository for one in found})} repositories; a past session changed a gold file of {sum(issues.values())}."
    yield "\n### A gold file is named, with 95 % intervals over issues\n"
    rows = []
    for arm, budget in sorted(
        arms, key=lambda key: (key[0].startswith("what"), key[0].startswith("lorelog"), key[0] != "nothing", key)
    ):
        here = [one for one in found if (one.arm, one.budget) == (arm, budget)]
        past = [one for one in here if one.has_past]
        label = "nothing: the issue names it itself" if arm == "nothing" else f"{arm}, {budget}"
        rows.append([label, share([one.named for one in past]), share([one.named for one in here if not one.has_past]), mean([float(one.tokens) for one in here])])  # fmt: skip
    yield format_table(["shown, tokens", "issues with a past session", "others", "tokens used"], rows)
    yield "\n### What lost the misses, issues with a past session\n"
    for arm in _OURS:
        here = [
            one
            for one in found
            if (one.arm == arm and one.stage and one.budget != 200) or (one.arm == arm == _OURS[0] and one.stage)
        ]
        stages = Counter(one.stage for one in here)
        yield f"- {arm}: " + "; ".join(f"{count} {stage}" for stage, count in stages.most_common())
    _judge(found, verdicts)


def _judge(found: Sequence[Naming], verdicts: Verdicts) -> None:
    def named(arm: str, budget: int) -> list[bool]:
        return [one.named for one in found if one.has_past and (one.arm, one.budget) == (arm, budget)]

    prompt = named("lorelog prompt", 200)
    verdicts.judge(
        "the file of a related issue named with its prompt, 200 tokens", share(prompt), "60 %",
        met=sum(prompt) >= 0.6 * len(prompt), headline=True,
    )  # fmt: skip
    for budget in (200, 700):
        ours, best = named("lorelog search", budget), max(sum(named("BM25", budget)), sum(named("memsearch", budget)))
        verdicts.judge(
            f"… by search, {budget} tokens", share(ours), f"at least BM25 and memsearch's ranking ({best})", met=sum(ours) >= best,
        )  # fmt: skip
