"""Compile what the records of a project say into pages that a person can browse.

'build' writes Markdown into .lorelog/wiki: a page for each task with every record of it, decisions, failures, evidence,
highlights, pages that agents wrote, a brief and an index. Every sentence has a badge and a link to its record. 'serve' shows the
same in a browser, on this machine only. 'lint' reports broken citations, pages that differ from what 'build' would write, and
verified decisions that rest on superseded records; it exits with status 1 when it finds something.

The pages are compiled and never indexed, wherever they lie. What should stay in the wiki is written as a record.

examples:
  lorelog wiki build
  lorelog wiki build --output site/ --all-projects
  lorelog wiki serve --port 0
  lorelog wiki lint --json
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from lorelog.surfaces.cli.arguments import own_path
from lorelog.surfaces.cli.paper import note, one_line, plural, print_json, short_path, styled

if TYPE_CHECKING:
    from lorelog.services.records.archive import Archive
    from lorelog.services.records.wiki_lint import Finding

PORT = 8223


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    build = verbs.add_parser("build", help="write the pages", allow_abbrev=False)
    serve = verbs.add_parser("serve", help="show the pages in a browser, on this machine only", allow_abbrev=False)
    lint = verbs.add_parser("lint", help="look for what is wrong with the pages or the records", allow_abbrev=False)
    serve.add_argument(
        "--port", type=int, default=PORT, metavar="N", help=f"the port to serve on; 0 takes a free one (default {PORT})"
    )
    for verb in (build, lint):
        verb.add_argument(
            "--output", metavar="DIR", help="where the pages lie; .lorelog/wiki of the project if not given"
        )
        verb.add_argument("--json", action="store_true", help="print JSON (docs/json.md) instead of text")
    for verb in (build, serve, lint):
        verb.add_argument("--all-projects", action="store_true", help="all projects of the tenant, not this one only")
        verb.add_argument("--project", metavar="DIR", help="stand in another project than the current directory's")
        verb.add_argument("--tenant", metavar="NAME", help="whose records (scope.tenant); nothing crosses tenants")


def run(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    with _archive(args) as archive:
        return {"build": _build, "serve": _serve, "lint": _lint}[args.verb](args, archive)


@contextmanager
def _archive(args: argparse.Namespace) -> Iterator[Archive]:
    from lorelog.wiring import open_engine, standpoint

    here = standpoint(project=args.project, tenant=args.tenant)
    with open_engine(here, {"scope.tenant": args.tenant}) as engine:
        yield engine.records()


def _folder(args: argparse.Namespace, archive: Archive) -> Path:
    from lorelog.services.records.wiki_files import usual_folder

    return Path(own_path(args.output)).absolute() if args.output else usual_folder(archive.place)


def _build(args: argparse.Namespace, archive: Archive) -> int:
    from lorelog.services.records.wiki import compile_wiki
    from lorelog.services.records.wiki_files import EDITED, write_pages
    from lorelog.services.session.placing import found_journals

    wiki = compile_wiki(archive, all_projects=args.all_projects)
    folder = _folder(args, archive)
    if wiki.pages and not args.output:
        found_journals(archive.place)  # keeps the folder out of the repository
    built = write_pages(wiki.pages, folder)
    if args.json:
        print_json(asdict(built))
        return 1 if built.left_alone else 0
    for name in built.put_aside:
        note(f"{name} had been changed by hand; what was there is in {name}{EDITED}")
    for name in built.left_alone:
        note(f"{name} is not a page of ours and was left alone")
    if not wiki.pages and not built.removed:
        print("Nothing is recorded here yet. 'lorelog task start \"…\"' begins.")
        return 0
    done = f"{len(built.written):,} written, {len(built.unchanged):,} unchanged, {len(built.removed):,} removed"
    print(f"{plural(len(wiki.pages), 'page')} in {short_path(str(folder))}: {done}.")
    return 1 if built.left_alone else 0


def _lint(args: argparse.Namespace, archive: Archive) -> int:
    from lorelog.services.records.wiki import compile_wiki
    from lorelog.services.records.wiki_lint import lint

    wiki = compile_wiki(archive, all_projects=args.all_projects)
    folder = _folder(args, archive)
    findings = lint(wiki, folder)
    if args.json:
        print_json(
            {"folder": str(folder), "pages": len(wiki.pages), "findings": [_finding_shape(one) for one in findings]}
        )
    for finding in () if args.json else findings:
        _show(finding)
    if not args.json and not findings:
        print(f"{plural(len(wiki.pages), 'page')}: nothing found.")
    return 1 if findings else 0


def _finding_shape(finding: Finding) -> dict[str, object]:
    return {
        "kind": finding.kind,
        "page": finding.page,
        "message": finding.message,
        "hint": finding.hint,
        "artifact_ids": list(finding.records),
    }


def _show(finding: Finding) -> None:
    print(f"{styled(finding.kind.replace('_', ' '), 'yellow')}: {one_line(finding.message)}")
    if finding.page and finding.page not in finding.message:
        print(f"  page: {one_line(finding.page)}")
    print(f"  hint: {one_line(finding.hint)}")


def _serve(args: argparse.Namespace, archive: Archive) -> int:
    from lorelog.core.options import HttpOptions
    from lorelog.surfaces.http.server import serve_app
    from lorelog.surfaces.http.wiki import WikiApp

    options = HttpOptions(host="127.0.0.1", port=args.port)
    pages = LivePages(archive, all_projects=args.all_projects)
    pages()
    serve_app(WikiApp(pages, options), options, started=_tell)
    return 0


def _tell(url: str) -> None:
    print(f"Serving {url} (Ctrl-C ends it)", flush=True)


class LivePages:
    """The pages as they are now: compiled again when the ledger has grown since."""

    def __init__(self, archive: Archive, *, all_projects: bool) -> None:
        self._archive = archive
        self._all_projects = all_projects
        self._at: object = None
        self._pages: Mapping[str, str] = {}

    def __call__(self) -> Mapping[str, str]:
        """Return them without their marks."""
        from lorelog.services.records.wiki import compile_wiki

        tables = self._archive.book.tables()
        at = (tables.generation(), tables.position())
        if at != self._at:
            wiki = compile_wiki(self._archive, all_projects=self._all_projects)
            self._pages = {name: text.partition("\n")[2] for name, text in wiki.pages.items()} or {"index.md": _NOTHING}
            self._at = at
        return self._pages


_NOTHING = "# Nothing is recorded here yet\n\n`lorelog task start` begins.\n"
