"""Carry out many operations, one a line, in order.

Each line is {"op": "memory.search", "arguments": {…}}. One row is printed for each: {"ok", "index", "line", "op", "elapsed_ms",
"result" or "error"}. The first failure ends the batch, after the rows done so far, with exit status 1; with
--continue-on-error the rest is carried out too, and the status is 1 all the same.

examples:
  lorelog batch --jsonl requests.jsonl
  lorelog batch --jsonl - --continue-on-error < requests.jsonl
  generate | lorelog batch --jsonl - --stream | consume
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing

from lorelog.core.errors import LorelogError, UsageError
from lorelog.surfaces.cli.arguments import add_asking
from lorelog.surfaces.cli.asking import Asker

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import IO, Any

LONGEST_LINE = 16 * 1024 * 1024


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("--jsonl", required=True, metavar="PATH", help="the requests; '-' reads standard input")
    parser.add_argument(
        "--stream", action="store_true", help="answer each line as it comes, for a program that goes on asking"
    )
    parser.add_argument("--continue-on-error", action="store_true", help="carry out the rest after a failure")
    parser.add_argument("--project", metavar="DIR", help="stand in another project than the current directory's")
    add_asking(parser)


def run(args: argparse.Namespace) -> int:
    """Carry out line after line; return 1 when any failed."""
    failed = False
    with _opened(args.jsonl) as file, closing(Asker(args.warm, starts=True, many=True)) as asker:
        for index, (number, line) in enumerate(_lines(file)):
            row = _row(asker, line, index, number, args)
            print(json.dumps(row, ensure_ascii=False), flush=args.stream)
            failed = failed or not row["ok"]
            if failed and not args.continue_on_error:
                break
    return 1 if failed else 0


def _opened(path: str) -> IO[bytes]:
    return sys.stdin.buffer if path == "-" else open(path, "rb")  # noqa: PTH123  (closed by the caller)


def _lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that hold something, with their numbers; one that is too long comes cut off."""
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        while len(line) > LONGEST_LINE and not line.endswith(b"\n"):
            rest = file.readline(LONGEST_LINE)
            if not rest or rest.endswith(b"\n"):
                break
        if line.strip():
            yield number, line


def _row(asker: Asker, line: bytes, index: int, number: int, args: argparse.Namespace) -> dict[str, Any]:
    started = time.perf_counter()
    row: dict[str, Any] = {"ok": False, "index": index, "line": number, "op": ""}
    outcome: dict[str, Any]
    try:
        row["op"], arguments = _read(line)
        for name in ("project", "tenant"):
            if arguments.get(name) is None and getattr(args, name) is not None:
                arguments[name] = getattr(args, name)
        outcome = {"result": asker.ask(row["op"], arguments)}
        row["ok"] = True
    except LorelogError as error:
        outcome = {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
    row["elapsed_ms"] = round((time.perf_counter() - started) * 1000, 3)
    return row | outcome


def _read(line: bytes) -> tuple[str, dict[str, Any]]:
    if len(line) > LONGEST_LINE:
        raise UsageError(f"the line is longer than {LONGEST_LINE:,} bytes")
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the line is not valid JSON: {error}") from None
    # memd calls it a tool; its users' batches go on working.
    op = entry.get("op", entry.get("tool")) if isinstance(entry, dict) else None
    if not isinstance(op, str):
        raise UsageError("the line names no operation", hint="""{"op": "memory.search", "arguments": {"query": "…"}}""")
    unknown = sorted(set(entry) - {"op", "tool", "arguments"})
    if unknown:
        raise UsageError(f"the line has a field {unknown[0]!r} that nothing reads", hint="only op and arguments")
    arguments = entry.get("arguments")
    if arguments is not None and not isinstance(arguments, dict):
        raise UsageError("the arguments must be a JSON object")
    return op, dict(arguments or {})
