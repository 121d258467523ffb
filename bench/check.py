"""What `lorelog check` would have said about past commits of real repositories, what became of these, and how fast it answers.

    python -m bench.check --data DIR [--changes N] [--read FILE]

--data holds bare snapshots of repositories that keep their agents' sessions on the branch `entire/checkpoints/v1` (see `bench.why`). The
sessions of each are captured in a temporary home, and every statement of the user in them is filed as what it was captured as, which is
more than a person would keep. Then commits from the time of the sessions are checked, one by one, checked out: memories, errors and reverts that are younger do not count.

A comment was to the point, as far as history tells, if within two weeks a later commit that says fix or revert changed the file that it is
about. The same share is taken of as many random comments: a random file of a random commit of the same repository, drawn 500 times. --read
writes every comment to a file, to be read. It quotes other people's words: do not commit it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.result import Verdicts
from bench.why import BRANCH, Team, capture, git, read_team

from lorelog import Lorelog
from lorelog.core.caller import AGENT_MARKERS
from lorelog.core.errors import LorelogError

MAX_MEAN, MAX_CPU_S, LINES = 0.2, 2.0, 500
_TWO_WEEKS_S, _DRAWS, _TIMED, _FILED_AT_ONCE = 14 * 86_400, 500, 8, 100
_FIX = re.compile(r"\b(fix(e[sd])?|hotfix|revert(s|ed)?)\b", re.IGNORECASE)
_FILED_AS = {"correction": "rule", "preference": "rule", "decision": "decision"}


@dataclass(frozen=True)
class Commit:
    """A commit of a repository's default branch."""

    id: str
    at: int
    is_fix: bool
    files: tuple[str, ...]


@dataclass(frozen=True)
class Comment:
    """A finding about a commit."""

    commit: int
    path: str
    kind: str


def read_commits(checkout: Path) -> list[Commit]:
    """Return the commits of the default branch without merges, oldest first."""
    commits = []
    words = ("log", "--no-merges", "--name-only", "--no-renames", "--format=%x01%H%x00%ct%x00%B%x00", "origin/HEAD")
    for entry in git(checkout, *words).decode("utf-8", "replace").split("\x01")[1:]:
        id_, at, message, names = entry.split("\0")
        is_fix = bool(_FIX.search(message.partition("\n")[0])) or "\nThis reverts commit" in message
        commits.append(Commit(id_, int(at), is_fix, tuple(filter(None, names.splitlines()))))
    return sorted(commits, key=lambda commit: commit.at)


def count_lines(checkout: Path, commit: str) -> int:
    """Return the lines that a commit adds and removes; 0 if the snapshot lacks one of its files."""
    rows = git(checkout, "show", "--numstat", "--format=", commit, ok=(0, 128)).decode("utf-8", "replace").splitlines()
    return sum(int(count) for row in rows for count in row.split("\t")[:2] if count.isdigit())


def is_followed(commits: Sequence[Commit], number: int, path: str) -> bool:
    """Return whether a file of a commit was fixed or reverted within two weeks."""
    begun = commits[number]
    later = (commit for commit in commits[number + 1 :] if commit.at <= begun.at + _TWO_WEEKS_S)
    return any(commit.is_fix and path in commit.files for commit in later)


def file_statements(client: Lorelog) -> int:
    """File every statement as what it was captured as; return how many became memories."""
    filed, tried = 0, set[str]()
    while True:
        items = client.call("review.list", {"kind": "statement", "limit": _FILED_AT_ONCE})["items"]
        new = [item for item in items if item["id"] not in tried]
        if not new:
            return filed
        tried |= {item["id"] for item in new}
        verdicts = [
            {"id": item["id"], "kind": "statement", "label": _FILED_AS.get(item["type"], "rule")} for item in new
        ]
        for some in (verdicts, *([verdict] for verdict in verdicts)):  # one by one only if one of them is refused
            try:
                done = client.call("review.decide", {"verdicts": some})["decisions"]
            except LorelogError as error:
                print(f"   not filed: {error.message}", file=sys.stderr)
                continue
            filed += sum(decision["outcome"] == "filed" for decision in done)
            if len(some) == len(verdicts):
                break


def replay(
    team: Team, client: Lorelog, numbers: Sequence[int], commits: Sequence[Commit], read: Path | None
) -> list[Comment]:
    """Check commits, and return the comments."""
    comments = []
    for number in numbers:
        commit = commits[number].id
        git(team.checkout, "checkout", "-q", "-f", commit, ok=(0, 1, 128))  # a snapshot may lack its largest files
        reply = client.call("code.check", {"diff": f"{commit}^..{commit}"})
        comments += [Comment(number, found["path"], found["kind"]) for found in reply["findings"]]
        if read is not None and reply["findings"]:
            with read.open("a", encoding="utf-8") as file:
                file.writelines(
                    json.dumps({"team": team.name, "commit": commit} | found) + "\n" for found in reply["findings"]
                )
    return comments


def time_cold(team: Team, home: Path, commits: Sequence[Commit]) -> list[float]:
    """Return the CPU seconds of the command, and the Git processes that it ran, for the changes that are nearest to 500 lines."""
    spent = []
    sizes = {commit: count_lines(team.checkout, commit.id) for commit in commits}
    for commit in sorted(commits, key=lambda commit: abs(sizes[commit] - LINES))[:_TIMED]:
        git(team.checkout, "checkout", "-q", "-f", commit.id, ok=(0, 1, 128))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        words = [
            sys.executable,
            "-m",
            "lorelog",
            "--daemon",
            "off",
            "check",
            f"--diff={commit.id}^..{commit.id}",
            "--json",
        ]
        environment = os.environ | {"LORELOG_HOME": str(home), "LORELOG_EMBEDDING_PROVIDER": "none"}
        subprocess.run(words, cwd=team.checkout, env=environment, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return spent


def measure_team(
    source: Path, count: int, read: Path | None, verdicts: Verdicts
) -> tuple[list[bool], list[list[bool]], int]:
    """Return of each comment whether a fix followed, the same of each draw of random comments, and the number of changes."""
    chance = random.Random(7)
    with tempfile.TemporaryDirectory(prefix="lorelog-check-") as folder:
        team, home = read_team(source, Path(folder)), Path(folder, "home")
        settings: dict[str, Any] = {"embedding.provider": "none"}
        with Lorelog(team.checkout, home=home, daemon="off", settings=settings) as client:
            capture(team, client)
            filed = file_statements(client)
            commits = read_commits(team.checkout)
            first = min(commit.at for commit in commits if team.truth.get(commit.id))
            eligible = [number for number, commit in enumerate(commits) if commit.at >= first and commit.files]
            numbers = sorted(chance.sample(eligible, min(count, len(eligible))))
            comments = replay(team, client, numbers, commits, read)
        spent = sorted(time_cold(team, home, [commits[number] for number in numbers]))
    followed = [is_followed(commits, comment.commit, comment.path) for comment in comments]
    draws = [
        [
            is_followed(commits, number, chance.choice(commits[number].files))
            for number in chance.choices(numbers, k=len(comments))
        ]
        for _ in range(_DRAWS)
    ]
    kinds = Counter(comment.kind for comment in comments)
    print(
        f"\n{team.name}: {len(team.sessions)} sessions, {filed} statements filed, {len(numbers)} of {len(eligible)} changes"
    )
    for kind, number in kinds.items():
        fixed = sum(yes for yes, comment in zip(followed, comments, strict=True) if comment.kind == kind)
        print(f"   {number:6,}  {kind}, of which {fixed} were followed by a fix of the file")
    mean = len(comments) / max(1, len(numbers))
    verdicts.judge(f"{team.name}: comments per change", f"{mean:.3f}", f"≤ {MAX_MEAN}", met=mean <= MAX_MEAN)
    verdicts.judge(
        f"{team.name}: CPU of a change of {LINES} lines, cold",
        f"{spent[-1]:.2f} s",
        f"≤ {MAX_CPU_S} s",
        met=spent[-1] <= MAX_CPU_S,
    )
    return followed, draws, len(numbers)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with bare snapshots of repositories")
    parser.add_argument("--changes", type=int, default=150, help="commits of each repository")
    parser.add_argument("--read", type=Path, help="where to write the comments to read")
    args = parser.parse_args()
    for variable in AGENT_MARKERS:
        os.environ.pop(variable, None)
    sources = [source / "repo" if (source / "repo").is_dir() else source for source in sorted(args.data.iterdir())]
    sources = [
        source for source in sources if BRANCH in git(source, "for-each-ref", ok=(0, 128)).decode("utf-8", "replace")
    ]
    verdicts = Verdicts()
    results = [measure_team(source, args.changes, args.read, verdicts) for source in sources]
    followed = [yes for result in results for yes in result[0]]
    shares = sorted(sum(sum(result[1][draw]) for result in results) / max(1, len(followed)) for draw in range(_DRAWS))
    share, middle, high = sum(followed) / max(1, len(followed)), shares[_DRAWS // 2], shares[int(_DRAWS * 0.95)]
    changes = sum(result[2] for result in results)
    verdicts.judge("changes that were checked", f"{changes:,}", "≥ 300", met=changes >= 300)
    verdicts.judge(
        f"of {len(followed)} comments, followed by a fix",
        f"{share:.3f}",
        f"> {middle:.3f} (random; 95 %: {high:.3f})",
        met=share > middle,
    )
    print(f"\n{verdicts.table()}")
    return 1 if verdicts.missed else 0


if __name__ == "__main__":
    sys.exit(main())
