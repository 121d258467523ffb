"""The command that measures search quality."""

from __future__ import annotations

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.client import call_command, print_reply
from lorelog.surfaces.cli.render import (
    plural,
    print_note,
    print_notes,
    print_problem,
    print_table,
    progress_bar,
    short_path,
    stylize,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import Any

    from lorelog.operations.operation import Json

_ALL_LANES = "all"
_MAX_UNKNOWN_SHOWN = 10


def configure_eval(parser: argparse.ArgumentParser) -> None:
    """Declare the choice of a lane."""
    lanes = (_ALL_LANES, "hybrid", "lexical", "dense")
    parser.add_argument("--lane", choices=lanes, default=_ALL_LANES, help="only this lane (default all)")


def run_eval(args: argparse.Namespace) -> int:
    """Measure search quality with your own queries.

    Runs each query by keywords, by vectors, by both with reciprocal rank fusion (rrf), and like 'lorelog search' (ours), and
    compares the results with the documents you judged relevant. Nothing is changed, and nothing is sent that a search would
    not send.

    Queries are JSON lines, {"id": "q1", "text": "why redis?"}; judgements are lines of query, document and gain, separated by tabs.
    A document is a path or its end (notes/a.md), lines of it (notes/a.md:10-20 or notes/a.md#L10), a chunk id or a memory id.

    examples:
      lorelog eval --queries queries.jsonl --qrels judged.tsv
      lorelog eval --feedback
      lorelog eval --queries q.jsonl.gz --qrels judged.tsv --lane lexical --json
      lorelog eval --queries q.jsonl --qrels judged.tsv --all-projects --k 5
    """
    if not args.feedback and not (args.queries and args.qrels):
        raise UsageError("--queries and --qrels, or --feedback, are required", hint="lorelog eval --help")
    with progress_bar() as progress:
        reply = call_command(args, progress=progress, lane=None if args.lane == _ALL_LANES else args.lane)
    return print_reply(args, reply, _show)


def _show(reply: Json, args: argparse.Namespace) -> None:
    for problem in reply["problems"]:
        print_problem(problem["path"], problem["message"], problem["hint"])
    print_notes(reply)
    unknown = reply["unknown"]
    for document in unknown[:_MAX_UNKNOWN_SHOWN]:
        print_note(f"counts as not found: {short_path(document['document'])} {document['reason']}")
    if len(unknown) > _MAX_UNKNOWN_SHOWN:
        print_note(f"and {len(unknown) - _MAX_UNKNOWN_SHOWN:,} more; --json lists them all")
    judged = f"{plural(reply['judged'], 'judged query')} of {reply['questions']:,}"
    failed = f" {plural(reply['failed'], 'line')} could not be read." if reply["failed"] else ""
    print(f"{judged}, {plural(reply['documents'], 'relevant document')}, {len(unknown):,} of them unknown.{failed}\n")
    names = [measure["name"] for measure in reply["rankings"][0]["measures"]]
    compared = any(ranking["ours_ahead"] for ranking in reply["rankings"])
    head = ["", *names, f"nDCG@{reply['k']} (95 % interval)", *(["lead of ours"] if compared else [])]
    rows = [head, *(_format_row(ranking, names, reply["k"], compared=compared) for ranking in reply["rankings"])]
    print_table(rows, right=range(1, len(head)), head="bold")
    for line in _format_legend(reply["k"]):
        print(stylize(line, "dim"))


def _format_legend(k: int) -> Iterator[str]:
    yield ""
    yield f"R@{k}: share of the relevant documents among the first {k}; all@{k}: share of queries with all of them there"
    yield f"nDCG@{k}: 1 if the relevant ones come first, in the best order; MRR: 1 / rank of the first one; 1 is best"
    yield "lead of ours: nDCG of 'ours' (lorelog search) minus that of the row, with its 95 % interval"


def _format_row(ranking: Json, names: list[str], k: int, *, compared: bool) -> list[str]:
    measures = {measure["name"]: measure for measure in ranking["measures"]}
    ndcg = measures[f"nDCG@{k}"]
    row = [
        ranking["name"],
        *(f"{measures[name]['mean']:.3f}" for name in names),
        f"{ndcg['low']:.3f} to {ndcg['high']:.3f}",
    ]
    return [*row, *([_format_lead(ranking["ours_ahead"])] if compared else [])]


def _format_lead(value: dict[str, Any] | None) -> str:
    return f"{value['mean']:+.3f} ({value['low']:+.3f} to {value['high']:+.3f})" if value else ""
