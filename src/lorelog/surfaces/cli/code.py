"""Find definitions, references, callers and imports in code. Run 'lorelog code index' once first.

NAME may include its context: parse, Engine.search, or src/engine.py for a file. If a name has several definitions, all are shown,
nearest first; --in, --line, --of and --kind select one. 'lorelog search' also answers questions about code.

examples:
  lorelog code index
  lorelog code def Engine.search
  lorelog code refs parse_config --use write
  lorelog code callers parse_config --depth 2
  lorelog code imports requests
  lorelog code outline src/engine.py
  lorelog code search prscnf
"""

from __future__ import annotations

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common, add_verb, expand_path
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import plural, print_json, print_note, print_problem, progress_bar, short_path
from lorelog.surfaces.cli.render.code import (
    show_callers,
    show_definitions,
    show_imports,
    show_outlines,
    show_references,
)

TYPE_CHECKING = False

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from lorelog.operations.replies import Json


_INDEX_VERBS = {
    "index": "index a working tree's code; the daemon keeps it up to date",
    "status": "list the indexed working trees",
}
_MAX_SKIPPED = 10
"""Skipped files listed per tree."""


def _configure_index(parser: argparse.ArgumentParser, verb: str) -> None:
    """Declare the arguments of `index` or `status`."""
    if verb == "index":
        parser.add_argument(
            "path",
            nargs="?",
            metavar="PATH",
            help="only this directory (default: the whole current working tree)",
        )
        parser.add_argument("--force", action="store_true", help="parse every file again")
        parser.add_argument(
            "--forget",
            action="store_true",
            help="remove the working tree from the code index",
        )
    add_common(parser)


def _run_index(args: argparse.Namespace) -> int:
    """Index, or show the status; fail if a file could not be indexed."""
    if args.verb == "status":
        reply = call_operation(args, "code.status", {})
        if args.json:
            print_json(reply)
        else:
            _show_status(reply)
        return 0
    target = {} if args.path is None else {"path": expand_path(args.path)}
    if args.forget:
        return _forget(args, target)
    with progress_bar() as progress:
        report = call_operation(
            args, "code.index", {**target, "force": args.force}, progress=progress, start_daemon=True
        )
    if args.json:
        print_json(report)
    else:
        _show_report(report)
    return 1 if report["problems"] else 0


def _forget(args: argparse.Namespace, target: dict[str, str]) -> int:
    if args.force:
        raise UsageError("use either --forget or --force, not both")
    reply = call_operation(args, "code.forget", target)
    if args.json:
        print_json(reply)
    else:
        print(f"Forgot {short_path(reply['root'])}: {plural(reply['files'], 'file')}. Your files are unchanged.")
    return 0


def _show_report(report: Json) -> None:
    for problem in report["problems"]:
        print_problem(problem["path"], problem["message"], problem["hint"])
    for text in report["notes"]:
        print_note(text)
    counts = [f"{report['changed']:,} changed", f"{report['unchanged'] + report['touched']:,} unchanged"]
    if report["removed"]:
        counts.append(f"{report['removed']:,} removed")
    if report["problems"]:
        counts.append(f"{len({problem['path'] for problem in report['problems']}):,} failed")
    languages = ", ".join(f"{count:,} {name}" for name, count in list(report["languages"].items())[:4])
    more = len(report["languages"]) - 4
    languages = f" ({languages}{f' and {more} more' if more > 0 else ''})" if languages else ""
    print(f"Indexed {plural(report['files'], 'file')}: {', '.join(counts)}{languages}.", end=" ")
    print(f"{plural(report['symbols'], 'symbol')}, {report['seconds']:.1f} s.")
    if report["left_out"]:
        kinds = ", ".join(f"{count:,} {reason}" for reason, count in report["left_out"].items())
        print_note(f"skipped: {kinds}; 'lorelog code status' lists them")
    if report["broken"]:
        print_note(f"{plural(report['broken'], 'file')} could only be parsed in part; the parsed parts are indexed")


def _show_status(status: Json) -> None:
    if not status["trees"]:
        print("No code is indexed; run 'lorelog code index' in a working tree.")
    for tree in status["trees"]:
        _show_tree(tree)
    if status["trees"]:
        print(f"code.db: {status['bytes'] / 1e6:,.1f} MB")


def _show_tree(tree: Json) -> None:
    state = "" if tree["exists"] else "  (missing)"
    parts = f"  only {', '.join(tree['parts'])}" if tree["parts"] else ""
    print(f"{short_path(tree['path'])}{parts}{state}")
    languages = ", ".join(f"{count:,} {name}" for name, count in tree["languages"].items())
    print(
        f"  {plural(tree['files'], 'file')}, {plural(tree['symbols'], 'symbol')}"
        + (f": {languages}" if languages else "")
    )
    commit = f" at {tree['commit'][:12]}" if tree["commit"] else ""
    print(f"  indexed {tree['indexed_at']}{commit}" if tree["indexed_at"] else "  not completely indexed yet")
    for file in tree["left_out"][:_MAX_SKIPPED]:
        print(f"  skipped: {short_path(file['path'])} ({file['reason']})")
    if tree["left_out_total"] > _MAX_SKIPPED:
        print(f"  and {tree['left_out_total'] - _MAX_SKIPPED:,} more")


KINDS = ("function", "method", "class", "interface", "type", "enum", "variable", "constant", "module")
USES = ("call", "read", "write", "type", "import")
CERTAINTIES = ("exact", "likely", "name")
_VERBS = {
    "def": "show where a symbol is defined",
    "refs": "show where a symbol is used",
    "callers": "show callers of a function, method or class",
    "imports": "show files that import a module",
    "outline": "list the symbols of a file or directory",
    "search": "find symbols by part of their name",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, help_text in _INDEX_VERBS.items():
        _configure_index(add_verb(parser, verbs, name, help_text), name)
    for name, help_text in _VERBS.items():
        verb = add_verb(parser, verbs, name, help_text)
        if name in {"def", "refs", "callers"}:
            _add_symbol(verb)
        elif name == "imports":
            verb.add_argument("module", metavar="MODULE", help="a module, package, file, or imported name")
        elif name == "outline":
            verb.add_argument(
                "path",
                metavar="PATH",
                nargs="?",
                default=".",
                help="file or directory (default: the current directory)",
            )
            verb.add_argument("--depth", type=int, metavar="N", help="maximum nesting of symbols")
        else:
            verb.add_argument("query", metavar="QUERY", help="part of a name, its initials, or a misspelling")
            _add_kind(verb)
        if name in {"refs", "callers"}:
            verb.add_argument(
                "--certainty",
                choices=CERTAINTIES,
                default="likely",
                help="minimum certainty of a match (default likely)",
            )
        if name == "refs":
            verb.add_argument("--use", action="append", default=[], choices=USES, help="only these uses (repeatable)")
        if name == "callers":
            verb.add_argument(
                "--depth", type=int, default=1, metavar="N", help="2 or 3: also callers of callers (default 1)"
            )
        if name not in {"def", "outline"}:
            verb.add_argument("--below", metavar="PATH", help="only in this file or directory")
        verb.add_argument("--limit", type=int, metavar="N", help="maximum number of results")
        verb.add_argument("--all-projects", action="store_true", help="search every indexed working tree")
        add_common(verb)


def _add_symbol(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("name", metavar="NAME", help="a symbol: parse, Engine.search")
    verb.add_argument("--in", dest="path", metavar="PATH", help="only the symbol defined in this file or directory")
    verb.add_argument("--line", type=int, metavar="N", help="with --in: only the symbol defined at this line")
    verb.add_argument("--of", dest="container", default="", metavar="NAME", help="only members of this class")
    _add_kind(verb)


def _add_kind(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--kind", choices=KINDS, metavar="KIND", help=f"only this kind: {', '.join(KINDS)}")
    verb.add_argument("--language", default="", metavar="NAME", help="only code in this language")


def run(args: argparse.Namespace) -> int:
    """Run the verb; finding nothing is not a failure."""
    if args.verb in _INDEX_VERBS:
        return _run_index(args)
    op, request = _build_request(args)
    if args.limit is not None:
        request["limit"] = args.limit
    reply = call_operation(args, op, {**request, "all_projects": args.all_projects})
    if args.json:
        print_json(reply)
    else:
        _show(args.verb, reply)
    return 0


def _build_request(args: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """Return the operation and its arguments."""
    below = {"below": expand_path(args.below)} if getattr(args, "below", None) else {}
    if args.verb == "imports":
        return "code.find_imports", {"module": args.module, **below}
    if args.verb == "outline":
        return "code.outline", {"path": expand_path(args.path), "depth": args.depth}
    kind = {"kind": args.kind, "language": args.language}
    if args.verb == "search":
        return "code.search", {"query": args.query, **kind, **below}
    symbol = {
        "name": args.name,
        "path": args.path and expand_path(args.path),
        "line": args.line,
        "container": args.container,
        **kind,
    }
    if args.verb == "def":
        return "code.find_definition", symbol
    symbol |= {"certainty": args.certainty, **below}
    if args.verb == "refs":
        return "code.find_references", {**symbol, "uses": args.use}
    return "code.find_callers", {**symbol, "depth": args.depth}


def _show(verb: str, reply: dict[str, Any]) -> None:
    if verb in {"def", "search"}:
        show_definitions(reply["definitions"], docs=verb == "def")
    elif verb == "refs":
        show_references(reply["definitions"], reply["references"])
    elif verb == "callers":
        show_callers(reply["definitions"], reply["callers"])
    elif verb == "imports":
        show_imports(reply["imports"])
    else:
        show_outlines(reply["files"])
    fields = {"refs": "references", "callers": "callers", "imports": "imports", "outline": "files"}
    shown = len(reply[fields.get(verb, "definitions")])
    if reply["total"] > shown:
        print_note(f"{shown:,} of {reply['total']:,}: use --limit to show more")
    if reply.get("doubtful"):
        print_note(f"{reply['doubtful']:,} more uses match only by name; --certainty name shows them")
    for text in reply["notes"]:
        print_note(text)
