"""SWE-ContextBench: past sessions of public repositories, and issues with the files that their repair changed."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.value.sources import GitSource, find_source

_SOURCE = "jiayuanz3/SWEContextBench"
_PAST, _LITE, _FULL = (f"cases/SWEContextBench {name}" for name in ("Lite Past Experience", "Lite", "Full"))
_CHECKOUT = re.compile(r"\./swebench\w*(?:/testbed(?:/[A-Za-z0-9_-]+__[A-Za-z0-9_-]+)?)?(?=[/\"\\\s'`:;,)\]]|$)")
"""Where the sessions had their checkout: a folder of their own, or a folder in it."""
_TEST = re.compile(r"(?:^|/)(?:tests?|testing)/|(?:^|/)test_[^/]*$|_test\.py$|(?:^|/)conftest\.py$")
_CODE = re.compile(r"\.(?:py|pyx|pyi|c|h|cpp|js)$")
_WRITES = frozenset({"Edit", "Write", "MultiEdit"})


@dataclass(frozen=True)
class Issue:
    """An issue with the files of code of its gold patch that are not tests."""

    name: str
    repository: str
    commit: str
    text: str
    gold: tuple[str, ...]


@dataclass
class PastSession:
    """A transcript, with the paths of the repository that it changed."""

    name: str
    lines: list[str]
    edited: set[str] = field(default_factory=set)
    ended: datetime = datetime(2025, 12, 1, tzinfo=UTC)


@dataclass
class Project:
    """A repository: its past sessions and its issues."""

    repository: str
    sessions: list[PastSession] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)

    @property
    def now(self) -> datetime:
        return max(session.ended for session in self.sessions) + timedelta(days=1)

    def editors(self, issue: Issue) -> list[PastSession]:
        """Return the sessions that changed a gold file."""
        return [session for session in self.sessions if session.edited & set(issue.gold)]

    def write(self, folder: Path, directory: Path) -> None:
        """Write the transcripts, as recorded in a directory."""
        folder.mkdir(parents=True, exist_ok=True)
        for session in self.sessions:
            placed = (_CHECKOUT.sub(str(directory), line) for line in session.lines)
            (folder / f"{session.name}.jsonl").write_text("\n".join(placed) + "\n", "utf-8")


def load_projects(sources: Path, *, held_out: bool = False) -> list[Project]:
    """Return the repositories with the issues of Lite; held out are those of Full that are not in Lite, read after the ranking was frozen."""
    source = find_source(sources, _SOURCE)
    found: dict[str, Project] = {}
    for path, text in source.files(_PAST):
        session, repository = _read_session(Path(path).stem, text)
        if repository:
            found.setdefault(repository, Project(repository)).sessions.append(session)
    lite = {issue.name for issue in _read_issues(source, _LITE)}
    for issue in _read_issues(source, _FULL if held_out else _LITE):
        if issue.gold and (issue.name in lite) != held_out:
            found.setdefault(issue.repository, Project(issue.repository)).issues.append(issue)
    return [project for _, project in sorted(found.items()) if project.issues and project.sessions]


def _read_issues(source: GitSource, folder: str) -> Iterator[Issue]:
    for path, text in source.files(folder):
        if path.endswith(".json") and path.startswith(f"{folder}/"):
            given = json.loads(text)
            yield _read_issue(given[0] if isinstance(given, list) else given)


def _read_issue(given: dict[str, Any]) -> Issue:
    paths = re.findall(r"^\+\+\+ b/(.+)$", given["patch"], re.MULTILINE)
    changed = re.findall(r"^--- a/(.+)$", given["patch"], re.MULTILINE)
    gold = tuple(path for path in dict.fromkeys([*changed, *paths]) if _CODE.search(path) and not _TEST.search(path))
    return Issue(given["instance_id"], given["repo"], given["base_commit"], given["problem_statement"], gold)


def _read_session(name: str, text: str) -> tuple[PastSession, str]:
    session, repository = PastSession(name, text.splitlines()), ""
    for line in session.lines:
        record = _parse(line)
        repository = repository or next(iter(re.findall(r"repo: ([\w.-]+/[\w.-]+)", _said(record))), "")
        for part in _parts(record):
            if part.get("type") == "tool_use" and part.get("name") in _WRITES:
                path = str((part.get("input") or {}).get("file_path") or "")
                session.edited.add(_CHECKOUT.sub("", path).lstrip("/"))
        if stamp := str(record.get("timestamp") or ""):
            session.ended = max(session.ended, datetime.fromisoformat(stamp))
    return session, repository


def _said(record: dict[str, Any]) -> str:
    content = (record.get("message") or {}).get("content")
    return content if isinstance(content, str) and record.get("type") == "user" else ""


def _parts(record: dict[str, Any]) -> Iterable[dict[str, Any]]:
    content = (record.get("message") or {}).get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _parse(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def names_file(text: str, paths: Iterable[str]) -> bool:
    """Return whether a text names one of the files: its whole path, or its folder and name."""
    for path in paths:
        tail = "/".join(path.split("/")[-2:]) if not path.endswith("__init__.py") else path
        if re.search(rf"(?<![\w-]){re.escape(tail)}\b", text):
            return True
    return False


def identifiers(text: str, limit: int = 12) -> list[str]:
    """Return what looks like names of code in an issue, the most telling first: paths, calls, names with humps or underscores."""
    scores: dict[str, int] = defaultdict(int)
    for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]{2,}(?:\.[A-Za-z_][A-Za-z0-9_]*)*", text):
        for name in word.split("."):
            is_name = "_" in name.strip("_") or re.search(r"[a-z][A-Z]", name) or (name[:1] == "_" and len(name) > 3)
            if len(name) > 3 and (is_name or "." in word):
                scores[name] += 2 if is_name else 1
    return sorted(scores, key=lambda name: (-scores[name], -len(name), name))[:limit]
