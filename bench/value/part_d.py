"""D: LongMemCode's scenarios about the structure of code, answered by `lorelog code`.

A scenario asks for symbols by name, their callers, members, subclasses, or the symbols of a file; its gold answers are ids of a SCIP indexer.
Ids and our answers are compared as file, package or crate and full name. Scores are the benchmark's own. A scenario is applicable if it names a
symbol or a file and `lorelog code` has a verb for it; the others count as 0 in the score of all. A local variable (`local 12`) is not
named: the id says neither its file nor its name. The benchmark's callers of a file are the symbols defined in it, which an outline lists.

Corpora whose ids are not those of a compiler's indexer are left out: the ids of leveldb nest functions in the variable above them.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
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
    indexed: str = ""
    """The folder that was indexed, if it is another one."""
    held_out: bool = True
    """Whether nothing of `lorelog code` was developed on it."""


CORPORA = (
    # The benchmark names 0.117.0, but its answers have symbols that came with 0.135; this is the newest release before its results.
    Corpus("fastapi", "fastapi/fastapi", "0.136.0", "fastapi", "fastapi", held_out=False),
    Corpus("gin", "gin-gonic/gin", "v1.11.0", held_out=False),
    Corpus("fastify", "fastify/fastify", "v5.6.1"),
    # Of the next two, the ids name these versions, and the benchmark others.
    Corpus("trpc", "trpc/trpc", "v11.16.0", "packages/server", "packages/server"),
    Corpus("clap", "clap-rs/clap", "v4.6.1", held_out=False),
    Corpus("commons-lang", "apache/commons-lang", "rel/commons-lang-3.14.0", "src/main/java", "src/main/java"),
    Corpus("rack", "rack/rack", "v3.1.8", "lib", "lib"),
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
    for corpus in CORPORA:
        if time.monotonic() > deadline:
            break
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
        source.check_out(root, corpus.indexed)
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


_DESCRIPTOR = re.compile(
    r"\[(?:`([^`]+)`|([^\]]+))\]|\((?:`[^`]+`|[^()+]+)\)(?!\.)|(?:`([^`]+)`|([^\s/#.:!()\[\]`]+))(\((?:\+\d+)?\)\.|[/#.:!])"
)
"""A part of a SCIP symbol: a type parameter, a parameter, or a name with the suffix that says what it is."""
_SCHEMES = re.compile(r"(?:scip-\w+|rust-analyzer|semanticdb) \S+ (\S+) \S+ ")
_RUST_FOLDERS = re.compile(
    r"^(?:(.*?)/)?(?:src|(?:tests|benches)(?:/[^/]+(?=/))?|examples(?:/[^/]+(?=/))?)/(?:bin/)?(.*)$"
)


class _Code:
    """Answers queries of the benchmark with the verbs of `lorelog code`."""

    def __init__(self, api: Lorelog, corpus: Corpus, root: Path) -> None:
        self._api, self._corpus, self._root = api, corpus, root
        self._outlines: dict[str, dict[str, Any]] = {}
        for file in api.call("code.outline", {"path": ".", "depth": 1, "limit": _LIMIT})["files"]:
            whole = api.call("code.outline", {"path": str(root / file["path"])})["files"]
            self._outlines |= {one["path"]: one for one in whole}
        self._functions = {
            (path, _full(one["container"], one["name"]))
            for path, file in self._outlines.items()
            for one in file["symbols"]
            if one["kind"] in {"function", "method"}
        }
        self._paths: dict[str, list[str]] = defaultdict(list)
        """Paths of the files that define a key."""
        for path in self._outlines:
            for key in (self.place_key(path, ""), *self._keys_of(path)):
                self._paths[key].append(path)

    def answer(self, query: dict[str, Any]) -> list[str] | None:
        """Return the keys of the answer; None if no verb answers the query."""
        verb, target = query["op"], str(query.get("sym_stable_id") or query.get("name") or "")
        if target.startswith("local "):
            return None
        if verb == "lookup":
            return self._lookup(query)
        if verb == "file_symbols" or (verb == "callers" and target.startswith("file:")):
            path = self._path(query.get("file_path") or target[5:])
            return [f"file:{path}", self.place_key(path, ""), *self._keys_of(path)]
        return self._related(verb, self.key(target))

    def _related(self, verb: str, key: str) -> list[str]:
        """Return what stands in a relation to a symbol, or what nothing uses."""
        if verb == "contained_by":
            prefix = key if key.endswith(":") else f"{key}."
            return [one for one in self._paths if one.startswith(prefix) and one != key]
        if verb == "callers":
            return self._users(key)
        if verb == "callees" and key.endswith(":"):
            return [one for path in self._paths.get(key, ()) for one in self._keys_of(path)]
        if verb == "orphans":
            reply = self._api.call("code.outline", {"path": ".", "depth": 40, "limit": _LIMIT, "unused": True})
            found = [(file, one) for file in reply["files"] for one in file["symbols"]]
            found = [(file, one) for file, one in found if one["kind"] in {"function", "method"}]
        else:
            operation = {"callees": "code.find_callers", "implementors": "code.find_definition"}[verb]
            reply = self._api.call(operation, {**self._symbol(key), verb: True})
            found = [(one, one) for one in reply["definitions"]]
        return [self.place_key(file["path"], _full(one["container"], one["name"])) for file, one in found]

    def _lookup(self, query: dict[str, Any]) -> list[str]:
        name = str(query["name"])
        if query.get("bare_name", True):
            plain = re.sub(r"<Class:(.*?)>", r"\1", name.replace("`", "")).replace("<constructor>", "constructor")
            return self._definitions(plain.replace("#", ".").removesuffix("="))
        if name.startswith("file:"):
            return [self.key(name)] if self.key(name)[5:] in self._outlines else []
        key = self.key(name)
        if key == ":":
            return []
        if key.endswith(":"):  # the module itself
            return [key] if key in self._paths else []
        last = re.split(r"[.:]+", key)[-1]
        return [one for one in self._definitions(last) if one == key][:1] if last else []

    def _definitions(self, name: str) -> list[str]:
        reply = self._api.call("code.find_definition", {"name": name, "limit": _LIMIT})
        return [self.place_key(one["path"], _full(one["container"], one["name"])) for one in reply["definitions"]]

    def _users(self, key: str) -> list[str]:
        if key.endswith(":"):
            return self._importers(key)
        reply = self._api.call("code.find_references", self._symbol(key))
        return [self.place_key(one["path"], one["container"]) for one in reply["references"]]

    def _importers(self, key: str) -> list[str]:
        """Return the files that import a module, and the symbols of these that use its name."""
        found: dict[str, None] = {}
        for path in self._paths.get(key, ())[:1]:
            module = key[:-1] if path.endswith(".go") else path
            reply = self._api.call("code.find_imports", {"module": module, "limit": _LIMIT})
            paths = {one["path"] for one in reply["imports"]}
            found |= dict.fromkeys(self.place_key(one, "") for one in sorted(paths))
            uses = self._api.call(
                "code.find_references", {"name": module.rpartition("/")[2].split(".")[0], "limit": _LIMIT}
            )
            found |= {
                self.place_key(one["path"], one["container"]): None
                for one in uses["references"]
                if one["path"] in paths
            }
        return list(found)

    def _symbol(self, key: str) -> dict[str, Any]:
        """Return the arguments that name a symbol."""
        full = key.split(":", 1)[1]
        arguments: dict[str, Any] = {"name": full, "limit": _LIMIT}
        path = next(iter(self._paths.get(key, ())), "")
        if path:
            of_file = self._outlines[path]["symbols"]
            names = (_full(one["container"], one["name"]) for one in of_file)
            arguments |= {
                "name": next((name for name in names if self.place_key(path, name) == key), full),
                "path": str(self._root / path),
            }
        return arguments

    def _keys_of(self, path: str) -> list[str]:
        symbols = self._outlines.get(path, {}).get("symbols", ())
        return [self.place_key(path, _full(one["container"], one["name"])) for one in symbols]

    def place_key(self, path: str, name: str) -> str:
        """Return the key of a full name in a file: of Rust with its crate and module, of Ruby the name alone."""
        folder, _, file = path.rpartition("/")
        suffix = file.rpartition(".")[2]
        if suffix == "rs":
            found = _RUST_FOLDERS.match(path)
            crate, module = (found[1] or "", found[2]) if found else ("", path)
            parts = [part for part in module.removesuffix(".rs").split("/") if part not in {"mod", "lib", "main"}]
            if found and re.match(r"(?:examples|benches)/|tests/[^/]+$", path.removeprefix(crate).strip("/")):
                parts = []
            # An id does not name the functions around a symbol.
            names = name.split(".") if name else []
            around = [".".join(names[: count + 1]) for count in range(len(names) - 1)]
            kept = [one for one, full in zip(names, around, strict=False) if (path, full) not in self._functions]
            return f"crate {crate.rpartition('/')[2] or self._corpus.name}:{'.'.join((*parts, *kept, *names[-1:]))}"
        part = {"py": re.sub(r"/__init__$", "", path.removesuffix(".py")), "go": folder, "rb": ""}.get(suffix, path)
        if suffix == "java":
            part = self._below(folder)
        elif suffix in {"js", "ts"}:
            part = self._below(path)
        return f"{part}:{name}"

    def _below(self, path: str) -> str:
        return path.removeprefix(f"{self._corpus.folder}/")

    def _path(self, path: str) -> str:
        return f"{self._corpus.folder}/{path}" if self._corpus.folder else path

    def key(self, stable_id: str) -> str:
        """Return file, package or crate and full name of the benchmark's id of a symbol."""
        if stable_id.startswith("file:"):
            return f"file:{self._path(stable_id[5:])}"
        scheme = _SCHEMES.match(stable_id)
        package = scheme[1] if scheme else ""
        namespaces: list[str] = []
        names: list[str] = []
        for found in _DESCRIPTOR.finditer(stable_id, scheme.end() if scheme else 0):
            name = found[3] or found[4] or ""
            if found[1] or found[2]:  # of `impl#[Type][Trait]` the type is the container
                if names[-1:] == ["impl"]:
                    names[-1] = re.split(r"[<&]", found[1] or found[2])[0].rpartition("::")[2]
                elif not stable_id.startswith("rust-analyzer"):
                    names.append(f"[{found[1] or found[2]}]")
            elif found[5] == "/" and not names and not (namespaces and re.search(r"\.[jt]sx?$", namespaces[-1])):
                namespaces.append(name)
            elif name in {"<init>", "<constructor>"}:
                names.append(names[-1] if name == "<init>" and names else "constructor")
            elif name:
                names.append(re.sub(r"^<Class:(.*)>$", r"\1", name).removesuffix("="))
        if stable_id.startswith("rust-analyzer"):
            modules = [part for part in namespaces if part != "crate"]
            return f"crate {package}:{'.'.join((*modules, *names))}"
        if "scip-go" in stable_id:
            namespaces = (
                [namespaces[0].removeprefix(f"github.com/{self._corpus.repository}").strip("/")] if namespaces else []
            )
        elif not scheme:
            namespaces = [part.replace(".", "/") for part in namespaces]
        return f"{'/'.join(namespaces)}:{'.'.join(names)}"


def _full(container: str, name: str) -> str:
    return f"{container}.{name}" if container else name


def report(found: Sequence[Answer], verdicts: Verdicts) -> Iterator[str]:
    """Yield the tables of the part."""
    rows = []
    held_out = {corpus.name for corpus in CORPORA if corpus.held_out}
    for corpus in dict.fromkeys(one.corpus for one in found):
        here = [one for one in found if one.corpus == corpus]
        fit = [one for one in here if one.applicable]
        rows.append([
            f"{corpus}, held out" if corpus in held_out else corpus, str(len(here)), share([one.applicable for one in here]), _mean([one.score for one in fit]),
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
