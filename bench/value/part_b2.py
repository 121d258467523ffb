"""B2: steps and bytes until a scripted explorer has opened every file that the repair of an issue changed, with and without memory.

Paired: the same explorer (there are two, see `explorer`), the same checkout at the issue's base commit, read from a bare clone of the repository itself. Issues whose
repository or commit is not in the folder of sources are left out and counted. Harm is measured on issues without a past session that changed a
gold file: there, steps should not rise.
"""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean

from bench.result import Verdicts, format_table, has_changes, head_commit
from bench.value.explorer import GitTree, explore
from bench.value.intervals import mean, share
from bench.value.issues import Issue, identifiers, load_projects
from bench.value.memory import Memory, fit, open_memory
from bench.value.sources import SourceMissing, find_source

ARMS = ("nothing", "BM25, 700", "memsearch, 700", "lorelog, unasked", "lorelog search, 700")
EXPLORERS = ("checking", "credulous")


@dataclass(frozen=True)
class Exploration:
    """One walk of the explorer."""

    issue: str
    repository: str
    arm: str
    explorer: str
    has_past: bool
    steps: int
    bytes: int
    found: bool


def run_part(sources: Path, keep: Path, deadline: float, *, held_out: bool = False) -> tuple[list[Exploration], int]:
    """Explore for every issue whose checkout can be had, and return the walks, and how many issues there are; those of the same commit are kept."""
    file = keep / f"outcomes_b2{'_held_out' if held_out else ''}.{head_commit()}.json"
    is_known = file.exists() and not has_changes(["src", "bench"])
    known = [Exploration(**row) for row in json.loads(file.read_text("utf-8"))] if is_known else []
    done = {one.issue for one in known}
    projects = load_projects(sources, held_out=held_out)
    for project in projects:
        try:
            code = find_source(sources, project.repository)
        except SourceMissing:
            continue
        issues = [issue for issue in project.issues if issue.name not in done and code.has(issue.commit)]
        if not issues or time.monotonic() > deadline:
            continue
        with open_memory(keep, project.repository.replace("/", "+"), project.now, project.write) as memory:
            for issue in issues:
                if time.monotonic() > deadline:
                    break
                tree, has_past = GitTree(code.at(issue.commit)), bool(project.editors(issue))
                told = {arm: tell() for arm, tell in _arms(memory, issue).items()}
                tree.find([name for text in (*told.values(), issue.text) for name in identifiers(text)])
                for (arm, text), who in product(told.items(), EXPLORERS):
                    walk = explore(tree, issue.text, issue.gold, text, int(arm == ARMS[4]), checks=who == EXPLORERS[0])
                    known.append(Exploration(issue.name, issue.repository, arm, who, has_past, **vars(walk)))
                file.write_text(json.dumps([vars(one) for one in known], indent=1), "utf-8")
    return known, sum(len(project.issues) for project in projects)


def _arms(memory: Memory, issue: Issue) -> dict[str, Callable[[], str]]:
    return {
        "nothing": lambda: "",
        "BM25, 700": lambda: fit([_bare(text) for text in memory.lanes.bm25(issue.text)], 700),
        "memsearch, 700": lambda: fit([_bare(text) for text in memory.lanes.memsearch(issue.text)], 700),
        "lorelog, unasked": lambda: "\n".join(
            _bare(part.text) for part in memory.run_session(f"b2 {issue.name}", issue.text)
        ),
        "lorelog search, 700": lambda: _bare(memory.search(issue.text, 700).text),
    }


def _bare(text: str) -> str:
    return re.sub(r"<!--.*?-->|\S*/\.lorelog/\S*", "", text, flags=re.DOTALL)


def report(walked: tuple[Sequence[Exploration], int], verdicts: Verdicts) -> Iterator[str]:
    """Yield the tables of the part."""
    found, total = walked
    issues = {one.issue: one.has_past for one in found}
    if not issues:
        yield "Not run: no checkout of the issues' repositories is in the folder of sources."
        return
    yield f"{len(issues)} of {total} issues (checkout here, and time enough); a past session changed a gold file of {sum(issues.values())}."
    for who in EXPLORERS:
        walks: dict[tuple[str, bool], dict[str, Exploration]] = defaultdict(dict)
        for one in found:
            if one.explorer == who:
                walks[one.arm, one.has_past][one.issue] = one
        for has_past, title in ((True, "issues with a past session"), (False, "harm: the others")):
            yield f"\n### The {who} explorer, {title}: {len(walks[ARMS[0], has_past])}\n"
            yield _table(walks, has_past=has_past)
        _judge(walks, who, verdicts)


def _table(walks: Mapping[tuple[str, bool], Mapping[str, Exploration]], *, has_past: bool) -> str:
    base, rows = walks[ARMS[0], has_past], []
    for arm in ARMS:
        here = walks[arm, has_past]
        steps = [float(here[name].steps - base[name].steps) for name in base]
        sizes = [(here[name].bytes - base[name].bytes) / 1_000 for name in base]
        rows.append([arm, share([one.found for one in here.values()]), mean([float(one.steps) for one in here.values()], 1), mean(steps, 1), mean(sizes)])  # fmt: skip
    return format_table(
        ["told by", "all gold files opened", "steps", "steps, paired difference", "thousand bytes, difference"], rows
    )


def _judge(walks: Mapping[tuple[str, bool], Mapping[str, Exploration]], who: str, verdicts: Verdicts) -> None:
    for arm in ARMS[3:]:
        base, here, label = walks[ARMS[0], True], walks[arm, True], f"{arm}, {who} explorer"
        before, after = fmean(one.steps for one in base.values()), fmean(one.steps for one in here.values())
        verdicts.judge(
            f"steps to the files of a related issue, {label}", f"{after:.1f} instead of {before:.1f}", "a third fewer",
            met=after <= before * 2 / 3, headline=(arm, who) == (ARMS[3], EXPLORERS[0]),
        )  # fmt: skip
        harm = [float(walks[arm, False][name].steps - one.steps) for name, one in walks[ARMS[0], False].items()]
        verdicts.judge(f"more steps where no past session helps, {label}", mean(harm, 1), "0 in the interval or below", met=not harm or _low(harm) <= 0)  # fmt: skip


def _low(values: Sequence[float]) -> float:
    from bench.value.intervals import bootstrap

    return bootstrap(values)[0]
