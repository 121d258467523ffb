"""Documentation histories: two versions of a repository's Markdown, some time apart, as notes of two dates.

Every statement of the older version is compared with every statement of the newer one that shares its subject, in all changed files together.
A pair is right if the older sentence is gone from its file and the newer one was not in it before; it is wrong if both sentences are in
one version, or in two files: then the older one still holds. What should be found is told by the lines of the
difference that differ in one value only.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from lorelog.core.options import ChunkOptions
from lorelog.ingest.markdown import chunk_markdown
from lorelog.retrieval.value_changes import DatedText, context_words, find_stated_values, find_value_pairs

MAX_FILES = 600
_VALUE = re.compile(r"`[^`]+`|\d[\w.,:%-]*")
_DATED = re.compile(
    r"(?i)change|release|history|whats.?new|blog|news|_posts|/zh|/ja|/ko|/fr|/de|/es|/pt|/id/|/vi|/ru|/uk|/pl|/hi|/it/|translat|test|fixture"
)
"""Logs and posts tell of one day and stay as they are; translations repeat; test data is made up."""
_FENCE = re.compile(r"^\s*(```|~~~)")


@dataclass
class HistoryResult:
    """Pairs that were recognised between versions of a repository, and changed lines."""

    name: str
    right: list[tuple[str, str, str]] = field(default_factory=list)
    wrong: list[tuple[str, str, str]] = field(default_factory=list)
    changed: int = 0
    """Lines of prose in which one value changed."""
    recognised: int = 0

    def add(self, other: HistoryResult) -> None:
        self.right += other.right
        self.wrong += other.wrong
        self.changed += other.changed
        self.recognised += other.recognised


@dataclass(frozen=True)
class _Version:
    texts: Sequence[DatedText]
    sentences: dict[str, str]
    """By file: its text with single spaces."""


def measure_repository(git: Path, *, days: int, steps: int) -> HistoryResult:
    """Compare versions that are `days` apart, newest first."""
    result = HistoryResult(git.parent.name if git.name == "repo" else git.name)
    newest = int(_git(git, "log", "-1", "--format=%ct", "HEAD"))
    commits = [
        _git(git, "rev-list", "-1", f"--before={newest - number * days * 86_400}", "HEAD")
        for number in range(steps + 1)
    ]
    for new, old in pairwise(commits):
        if old and new and old != new:
            result.add(_compare_commits(git, old, new))
    return result


def _compare_commits(git: Path, old: str, new: str) -> HistoryResult:
    names = _git(
        git, "diff", "--name-only", "--diff-filter=M", "--no-renames", old, new, "--", "*.md", "*.markdown"
    ).splitlines()
    names = [name for name in names if not _DATED.search(f"/{name}")]
    names = names[:: max(1, len(names) // MAX_FILES)]
    before = _read_files(git, old, names)
    after = _read_files(git, new, names)
    result = HistoryResult("")
    _compare_versions(_version(before, _day(git, old)), _version(after, _day(git, new)), result)
    for name in before.keys() & after.keys():
        _count_changed(before[name], after[name], name, result)
    return result


def _version(files: dict[str, str], day: str) -> _Version:
    texts = [
        DatedText(chunk.text, day, "repository", f"/{name}", chunk.heading_path, is_memory=False)
        for name, text in files.items()
        for chunk in chunk_markdown(text, f"/{name}", ChunkOptions()).chunks
    ]
    return _Version(
        texts, {f"/{name}": " ".join(text.replace("**", "").replace("__", "").split()) for name, text in files.items()}
    )


def _compare_versions(before: _Version, after: _Version, result: HistoryResult) -> None:
    subjects: dict[tuple[str, frozenset[str]], list[DatedText]] = {}
    for text in (*before.texts, *after.texts):
        for value in find_stated_values(text.text):
            subjects.setdefault((value.kind, value.key | context_words(text)), []).append(text)
    seen = set()
    for texts in subjects.values():
        for pair in find_value_pairs(texts) if len(texts) > 1 else ():
            old, new = texts[pair.older], texts[pair.newer]
            key = (old.source, new.source, pair.was_sentence, pair.now_sentence)
            if pair.is_settled and key not in seen:
                seen.add(key)
                is_right = _is_replaced(old.source, new.source, pair.was_sentence, pair.now_sentence, before, after)
                (result.right if is_right else result.wrong).append((old.source, pair.was_sentence, pair.now_sentence))


def _is_replaced(source: str, other: str, was: str, now: str, before: _Version, after: _Version) -> bool:
    was, now = " ".join(was.split()), " ".join(now.split())
    return source == other and was not in after.sentences[source] and now not in before.sentences[source]


def _count_changed(old: str, new: str, name: str, result: HistoryResult) -> None:
    """Count the lines of prose in which exactly one value changed, and those of them that are recognised."""
    lines, others = set(_prose(old)), set(_prose(new))
    added: dict[str, list[str]] = {}
    for line in others - lines:
        added.setdefault(_VALUE.sub("#", line), []).append(line)
    for line in lines - others:
        candidates = [other for other in added.get(_VALUE.sub("#", line), ()) if _differ_in_value(line, other)]
        if len(candidates) == 1:
            result.changed += 1
            texts = [
                DatedText(text, day, "", f"/{name}")
                for text, day in ((line, "2024-01-01"), (candidates[0], "2025-01-01"))
            ]
            result.recognised += bool(find_value_pairs(texts))


def _prose(text: str) -> list[str]:
    kept, is_code = [], False
    for line in text.split("\n"):
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code and line.strip() and not line.lstrip().startswith(("|", "#", "<", "{")):
            kept.append(line.strip())
    return kept


def _differ_in_value(line: str, changed_line: str) -> bool:
    values, others = _VALUE.findall(line), _VALUE.findall(changed_line)
    if _VALUE.sub("#", line) != _VALUE.sub("#", changed_line) or len(values) != len(others):
        return False
    changed = [value for value, other in zip(values, others, strict=True) if value != other]
    return len(changed) == 1


def _read_files(git: Path, commit: str, names: Sequence[str]) -> dict[str, str]:
    process = subprocess.Popen(
        ["git", f"--git-dir={git}", "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    wanted = "".join(f"{commit}:{name}\n" for name in names).encode()
    output, _ = process.communicate(wanted)
    files, at = {}, 0
    for name in names:
        end = output.index(b"\n", at)
        head = output[at:end].split()
        at = end + 1
        if head[-1] == b"missing" or len(head) < 3:
            continue
        size = int(head[2])
        files[name] = output[at : at + size].decode("utf-8", "replace")
        at += size + 1
    return files


def _day(git: Path, commit: str) -> str:
    return _git(git, "log", "-1", "--format=%cs", commit)


def _git(git: Path, *words: str) -> str:
    done = subprocess.run(["git", f"--git-dir={git}", *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def find_repositories(folder: Path) -> Iterator[Path]:
    """Yield the Git directories below a folder."""
    for head in sorted(folder.glob("*/HEAD")) + sorted(folder.glob("*/*/HEAD")):
        yield head.parent
