"""Ask what is in the code: who defines, uses, calls and imports what. 'lorelog code index' reads it first, once.

Names may bring along what is around them: parse, Engine.search, src/engine.py for a file. Several definitions of one name are all
shown, nearest first; --in, --line, --of and --kind tell one from the others. Questions in words are answered by 'lorelog search'.

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

from lorelog.surfaces.cli import code_index
from lorelog.surfaces.cli.arguments import add_common, add_verb, own_path
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.code_paper import (
    show_callers,
    show_definitions,
    show_files,
    show_imports,
    show_references,
)
from lorelog.surfaces.cli.paper import note, print_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

KINDS = ("function", "method", "class", "interface", "type", "enum", "variable", "constant", "module")
USES = ("call", "read", "write", "type", "import")
CERTAINTIES = ("exact", "likely", "name")
_VERBS = {
    "def": "show where a symbol is defined",
    "refs": "show where a symbol is used",
    "callers": "show who calls a function, a method or a class",
    "imports": "show which files import a module",
    "outline": "list what a file or the files of a folder define",
    "search": "find symbols by a part of their name",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, says in code_index.VERBS.items():
        code_index.configure(add_verb(parser, verbs, name, says), name)
    for name, says in _VERBS.items():
        verb = add_verb(parser, verbs, name, says)
        if name in {"def", "refs", "callers"}:
            _add_symbol(verb)
        elif name == "imports":
            verb.add_argument(
                "module", metavar="MODULE", help="a module, a package, a file, or a name that is imported"
            )
        elif name == "outline":
            verb.add_argument(
                "path", metavar="PATH", nargs="?", default=".", help="a file or a folder; this one if not given"
            )
            verb.add_argument("--depth", type=int, metavar="N", help="so many levels of symbols")
        else:
            verb.add_argument("query", metavar="QUERY", help="part of a name, its initials, or a misspelling")
            _add_kind(verb)
        if name in {"refs", "callers"}:
            verb.add_argument(
                "--certainty",
                choices=CERTAINTIES,
                default="likely",
                help="the least that must speak for a use (likely)",
            )
        if name == "refs":
            verb.add_argument("--use", action="append", default=[], choices=USES, help="only these uses (repeatable)")
        if name == "callers":
            verb.add_argument("--depth", type=int, default=1, metavar="N", help="callers of callers: 2 or 3 (1)")
        if name not in {"def", "outline"}:
            verb.add_argument("--below", metavar="PATH", help="only in this file, or below this folder")
        verb.add_argument("--limit", type=int, metavar="N", help="at most so many")
        verb.add_argument("--all-projects", action="store_true", help="look at every working tree that is indexed")
        add_common(verb)


def _add_symbol(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("name", metavar="NAME", help="a symbol: parse, Engine.search")
    verb.add_argument(
        "--in", dest="path", metavar="PATH", help="only the one defined in this file, or below this folder"
    )
    verb.add_argument("--line", type=int, metavar="N", help="with --in: only the one whose definition has this line")
    verb.add_argument("--of", dest="container", default="", metavar="NAME", help="only of this class")
    _add_kind(verb)


def _add_kind(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--kind", choices=KINDS, help="only symbols of this kind")
    verb.add_argument("--language", default="", metavar="NAME", help="only code in this language")


def run(args: argparse.Namespace) -> int:
    """Ask and show; finding nothing is not a failure."""
    if args.verb in code_index.VERBS:
        return code_index.run(args)
    op, request = _asked(args)
    if args.limit is not None:
        request["limit"] = args.limit
    reply = ask(args, op, {**request, "all_projects": args.all_projects})
    if args.json:
        print_json(reply)
    else:
        _show(args.verb, reply)
    return 0


def _asked(args: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """Return the operation and its request."""
    below = {"below": own_path(args.below)} if getattr(args, "below", None) else {}
    if args.verb == "imports":
        return "code.find_imports", {"module": args.module, **below}
    if args.verb == "outline":
        return "code.outline", {"path": own_path(args.path), "depth": args.depth}
    kind = {"kind": args.kind, "language": args.language}
    if args.verb == "search":
        return "code.search", {"query": args.query, **kind, **below}
    symbol = {
        "name": args.name,
        "path": args.path and own_path(args.path),
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
        show_files(reply["files"])
    answer = {"refs": "references", "callers": "callers", "imports": "imports", "outline": "files"}
    shown = len(reply[answer.get(verb, "definitions")])
    if reply["total"] > shown:
        note(f"{shown:,} of {reply['total']:,}: --limit shows more")
    if reply.get("doubtful"):
        note(f"{reply['doubtful']:,} more have the same name, and nothing else speaks for them: --certainty name")
    for text in reply["notes"]:
        note(text)
