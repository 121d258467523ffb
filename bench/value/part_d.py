"""D: LongMemCode's scenarios about the structure of code, answered by `lorelog code`.

A scenario asks for symbols by name, their callers, members, subclasses, or the symbols of a file; its gold answers are ids of a SCIP indexer.
Ids and our answers are compared as file or package and full name. Scores are the benchmark's own. A scenario is applicable if it names a
symbol or a file and `lorelog code` has a verb for it; the others count as 0 in the score of all.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.delivery.hook_calls import Bench
from bench.result import Verdicts, format_table
from bench.value.intervals import bootstrap, share
from bench.value.sources import GitSource, find_source

from lorelog import Lorelog

_SOURCE = "CataDef/LongMemCode"
_LIMIT = 10_000


@dataclass(frozen=True)
class Corpus:
    """A repository of the benchmark: which commit, and which part of it was indexed."""

    name: str
    repository: str
    commit: str
    folder: str = ""
    """Paths of the scenarios are relative to it."""


CORPORA = (
    # The benchmark names 0.117.0, but its answers have symbols that came with 0.135; this is the newest release before its results.
    Corpus("fastapi", "fastapi/fastapi", "0.136.0", "fastapi"),
    Corpus("gin", "gin-gonic/gin", "v1.11.0"),
)


@dataclass(frozen=True)
class Answer:
    """One scenario with our score and grep's published one."""

    corpus: str
    kind: str
    """The benchmark's subtype."""
    verb: str
    applicable: bool
    score: float
    grep: float
    missing: str = ""


def run_part(sources: Path, keep: Path, deadline: float) -> list[Answer]:
    """Answer the scenarios of all corpora."""
    benchmark = find_source(sources, _SOURCE)
    found: list[Answer] = []
    for corpus in CORPORA if time.monotonic() < deadline else ():
        source = find_source(sources, corpus.repository).at(corpus.commit)
        found += _answer_corpus(benchmark, corpus, source, keep)
    (keep / "outcomes_d.json").write_text(json.dumps([vars(one) for one in found], indent=1), "utf-8")
    return found


def _answer_corpus(benchmark: GitSource, corpus: Corpus, source: GitSource, keep: Path) -> Iterator[Answer]:
    path = next(path for path in benchmark.paths("results") if re.search(rf"/grep-{corpus.name}-.*\.jsonl$", path))
    rows = (json.loads(line) for line in benchmark.text(path).splitlines())
    grep = {row["id"]: float(row["score"]) for row in rows}
    bench = Bench((keep / f"code-{corpus.name}").resolve())
    root = bench.root / "projects" / "project"
    is_new = not root.exists()
    if is_new:
        bench.make_project("project")
        source.check_out(root, corpus.folder)
    with bench.active():
        before = Path.cwd()
        os.chdir(root)
        try:
            with Lorelog(project=root, daemon="off") as api:
                if is_new:
                    api.call("code.index", {})
                code = _Code(api, corpus, root)
                for scenario in benchmark.json(f"scenarios/{corpus.name}.json"):
                    returned = code.answer(scenario["query"])
                    score, missing = _score(scenario["expected"], returned, code)
                    yield Answer(
                        corpus.name, scenario["sub_type"], scenario["query"]["op"], returned is not None, score,
                        grep.get(scenario["id"], 0.0), missing,
                    )  # fmt: skip
        finally:
            os.chdir(before)


def _score(expected: dict[str, Any], returned: list[str] | None, code: _Code) -> tuple[float, str]:
    """Return the benchmark's score, and the first id that is missing."""
    if returned is None:
        return 0.0, ""
    if expected["kind"] == "exact_symbol":
        wanted = code.key(expected["stable_id"])
        return float(returned[:1] == [wanted]), "" if returned[:1] == [wanted] else expected["stable_id"]
    wanted_all = [code.key(name) for name in expected.get("required") or expected.get("stable_ids") or []]
    hits = sum(name in returned for name in wanted_all)
    missing = next((name for name in wanted_all if name not in returned), "")
    if expected["kind"] == "contains":
        return hits / len(wanted_all) if wanted_all else 1.0, missing
    if not wanted_all and not returned:
        return 1.0, ""
    precision, recall = hits / max(1, len(set(returned))), hits / max(1, len(wanted_all))
    return 2 * precision * recall / (precision + recall) if hits else 0.0, missing or f"returned {returned[:2]}"


class _Code:
    """Answers queries of the benchmark with the verbs of `lorelog code`."""

    def __init__(self, api: Lorelog, corpus: Corpus, root: Path) -> None:
        self._api, self._corpus, self._root = api, corpus, root
        self._outlines: dict[str, dict[str, Any]] = {}
        for file in api.call("code.outline", {"path": ".", "depth": 1, "limit": _LIMIT})["files"]:
            whole = api.call("code.outline", {"path": str(root / file["path"])})["files"]
            self._outlines |= {one["path"]: one for one in whole}

    def answer(self, query: dict[str, Any]) -> list[str] | None:
        """Return the keys of the answer; None if no verb answers the query."""
        verb, target = query["op"], str(query.get("sym_stable_id") or "")
        if verb == "lookup":
            return self._lookup(query)
        if verb == "file_symbols":
            path = self._path(query["file_path"])
            return [
                f"file:{path}",
                *(self._symbol_key(path, one) for one in self._outlines.get(path, {}).get("symbols", ())),
            ]
        if (
            target.startswith("file:")
            or "/" not in target
            or self.key(target).endswith(":")
            or verb in {"callees", "orphans", "implementors"}
        ):
            return None
        path_part, name = self.key(target).split(":", 1)
        if verb == "contained_by":
            return [key for key in self._keys_in(path_part) if key.startswith(f"{path_part}:{name}.")]
        return self._users(path_part, name)

    def _lookup(self, query: dict[str, Any]) -> list[str]:
        name = str(query["name"])
        if not query.get("bare_name", True):
            if name.startswith("file:"):
                return [self.key(name)] if self.key(name)[5:] in self._outlines else []
            if "`" not in name:
                return self._definitions(re.split(r"::", name)[-1].replace("#", ".").rstrip("()."))
            part, full = self.key(name).split(":", 1)
            if not full:  # the module itself
                return [f"{part}:"] if any(self._part(path) == part for path in self._outlines) else []
            return [key for key in self._definitions(full) if key == f"{part}:{full}"]
        return self._definitions(name.replace("#", "."))

    def _definitions(self, name: str) -> list[str]:
        if not name:
            return []
        reply = self._api.call("code.find_definition", {"name": name, "limit": _LIMIT})
        return [self._place_key(one["path"], _full(one["container"], one["name"])) for one in reply["definitions"]]

    def _users(self, part: str, name: str) -> list[str]:
        arguments: dict[str, Any] = {"name": name, "limit": _LIMIT}
        path = next(
            (path for path in self._outlines if self._part(path) == part and f"{part}:{name}" in self._keys_of(path)),
            "",
        )
        if path:
            arguments["path"] = str(self._root / path)
        reply = self._api.call("code.find_references", arguments)
        return [self._place_key(one["path"], one["container"]) for one in reply["references"]]

    def _keys_in(self, part: str) -> Iterable[str]:
        return (key for path in self._outlines if self._part(path) == part for key in self._keys_of(path))

    def _keys_of(self, path: str) -> list[str]:
        return [self._symbol_key(path, one) for one in self._outlines[path]["symbols"]]

    def _symbol_key(self, path: str, symbol: dict[str, Any]) -> str:
        return self._place_key(path, _full(symbol["container"], symbol["name"]))

    def _place_key(self, path: str, name: str) -> str:
        return f"{self._part(path)}:{name}"

    def _part(self, path: str) -> str:
        """Return the module of a file, or in Go its package's folder."""
        if path.endswith(".go"):
            return path.rpartition("/")[0]
        return re.sub(r"/__init__$", "", path.removesuffix(".py"))

    def _path(self, path: str) -> str:
        return f"{self._corpus.folder}/{path}" if self._corpus.folder else path

    def key(self, stable_id: str) -> str:
        """Return file or package and full name of the benchmark's id of a symbol."""
        if stable_id.startswith("file:"):
            return f"file:{self._path(stable_id[5:])}"
        found = re.search(r"`([^`]+)`/(.*)$", stable_id)
        if not found:
            return stable_id
        module, name = found.groups()
        part = (
            module.removeprefix(f"github.com/{self._corpus.repository}").strip("/")
            if "github.com" in module
            else module.replace(".", "/")
        )
        names = [word for word in re.split(r"[#/]|\(\)\.|(?<!\()\.", name) if word]
        return f"{part}:{'.'.join(names)}"


def _full(container: str, name: str) -> str:
    return f"{container}.{name}" if container else name


def report(found: Sequence[Answer], verdicts: Verdicts) -> Iterator[str]:
    """Yield the tables of the part."""
    rows = []
    for corpus in dict.fromkeys(one.corpus for one in found):
        here = [one for one in found if one.corpus == corpus]
        fit = [one for one in here if one.applicable]
        rows.append([
            corpus, str(len(here)), share([one.applicable for one in here]), _mean([one.score for one in fit]),
            _mean([one.grep for one in fit]), _mean([one.score for one in here]), _mean([one.grep for one in here]),
        ])  # fmt: skip
        verdicts.judge(
            f"LongMemCode {corpus}, score of all scenarios", _mean([one.score for one in here]),
            f"above grep's published {_mean([one.grep for one in here])}",
            met=fmean(one.score for one in here) > fmean(one.grep for one in here), headline=corpus == "fastapi",
        )  # fmt: skip
    head = ["corpus", "scenarios", "applicable", "lorelog, applicable", "grep, applicable", "lorelog, all", "grep, all"]
    yield format_table(head, rows)
    yield "\n### By verb and kind of question\n"
    groups: dict[tuple[str, str], list[Answer]] = defaultdict(list)
    for one in found:
        groups[one.verb, one.kind].append(one)
    body = []
    for (verb, kind), here in sorted(groups.items(), key=lambda item: fmean(one.score for one in item[1])):
        body.append([f"{verb}: {kind.replace('_', ' ')}", str(len(here)), str(sum(one.applicable for one in here)), f"{fmean(one.score for one in here):.2f}", f"{fmean(one.grep for one in here):.2f}"])  # fmt: skip
    yield format_table(["question", "scenarios", "applicable", "lorelog", "grep"], body)


def _mean(values: Sequence[float]) -> str:
    if not values:
        return "none"
    low, high = bootstrap(values)
    return f"{fmean(values):.3f} ({low:.3f}-{high:.3f})"
