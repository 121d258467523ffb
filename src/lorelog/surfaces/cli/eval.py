"""Measure how well your own questions are answered.

Asks each question by words, by vectors, by both with plain reciprocal ranks (rrf), and as a search does (ours), and
compares what comes back with the documents you judged relevant. Nothing is changed, and nothing leaves the machine but
what a search sends.

Questions are JSON lines, {"id": "q1", "text": "why redis?"}; judgements are lines of question, document and gain, separated by
tabs. A document is a path or its end (notes/a.md), lines of it (notes/a.md:10-20 or notes/a.md#L10), a chunk id or a memory id.

examples:
  lorelog eval --queries questions.jsonl --qrels judged.tsv
  lorelog eval --feedback
  lorelog eval --queries questions.jsonl.gz --qrels judged.tsv --lane lexical --json
  lorelog eval --queries questions.jsonl --qrels judged.tsv --all-projects --k 5
"""

from __future__ import annotations

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import LANES, add_common, add_filters, filters_of, own_path
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import note, plural, print_json, problem, progress_bar, short_path, styled

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import Any

    from lorelog.operations.replies import EvaluateShape, Shape

_ALL = "all"
_NAMED = 10


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("--queries", metavar="PATH", help="questions, JSON lines with id and text, plain or gzip")
    parser.add_argument("--qrels", metavar="PATH", help="judgements, tab-separated: question, document, gain")
    parser.add_argument(
        "--feedback", action="store_true", help="measure by what was said with 'lorelog feedback' in their place"
    )
    parser.add_argument(
        "-k", "--k", dest="k", type=int, default=10, metavar="N", help="how deep a document counts (default 10)"
    )
    parser.add_argument(
        "--lane",
        choices=[_ALL, *LANES],
        default=_ALL,
        help="only the rankings of this lane (default all)",
    )
    add_filters(parser)
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Measure, and fail when a line of the files could not be read."""
    if not args.feedback and not (args.queries and args.qrels):
        raise UsageError("which questions, judged how?", hint="give --queries and --qrels, or --feedback")
    request = {
        "queries": args.queries and own_path(args.queries),
        "qrels": args.qrels and own_path(args.qrels),
        "feedback": args.feedback,
        "k": args.k,
        "lane": None if args.lane == _ALL else args.lane,
        **filters_of(args),
    }
    with progress_bar() as progress:
        reply = ask(args, "memory.evaluate", request, progress=progress)
    if args.json:
        print_json(reply)
    else:
        _show(reply)
    return 1 if reply["problems"] else 0


def _show(reply: EvaluateShape) -> None:
    for one in reply["problems"]:
        problem(one["path"], one["message"], one["hint"])
    for text in reply["notes"]:
        note(text)
    unknown = reply["unknown"]
    for each in unknown[:_NAMED]:
        note(f"counts as not found: {short_path(each['document'])} {each['reason']}")
    if len(unknown) > _NAMED:
        note(f"and {len(unknown) - _NAMED:,} more; --json names them all")
    judged = f"{plural(reply['judged'], 'judged question')} of {reply['questions']:,}"
    failed = f" {plural(reply['failed'], 'line')} could not be read." if reply["failed"] else ""
    print(f"{judged}, {plural(reply['documents'], 'relevant document')}, {len(unknown):,} of them unknown.{failed}\n")
    for line in _table(reply):
        print(line)


def _table(reply: EvaluateShape) -> Iterator[str]:
    names = [measure["name"] for measure in reply["rankings"][0]["measures"]]
    compared = any(one["ours_ahead"] for one in reply["rankings"])
    head = ["", *names, f"95 % of nDCG@{reply['k']}", *(["ours is ahead by"] if compared else [])]
    rows = [head, *(_row(one, names, reply["k"], compared=compared) for one in reply["rankings"])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for number, row in enumerate(rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        line = "  ".join(cells).rstrip()
        yield styled(line, "bold") if not number else line


def _row(one: Shape, names: list[str], k: int, *, compared: bool) -> list[str]:
    measures = {measure["name"]: measure for measure in one["measures"]}
    ndcg = measures[f"nDCG@{k}"]
    row = [
        one["name"],
        *(f"{measures[name]['mean']:.3f}" for name in names),
        f"{ndcg['low']:.3f} to {ndcg['high']:.3f}",
    ]
    return [*row, *([_ahead(one["ours_ahead"])] if compared else [])]


def _ahead(value: dict[str, Any] | None) -> str:
    return f"{value['mean']:+.3f} ({value['low']:+.3f} to {value['high']:+.3f})" if value else ""
