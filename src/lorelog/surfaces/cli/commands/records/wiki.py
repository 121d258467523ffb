"""Build, serve and check browsable pages of a project's records.

'build' writes Markdown into .lorelog/wiki: a page for each task with all its records, decisions, failures, evidence,
highlights, pages written by agents, a brief and an index. Every sentence has a trust badge and a link to its record.
'serve' shows them on the page of 'lorelog ui', on this machine only, to whoever opens the printed link. 'lint' reports broken citations, pages that differ from what
'build' would write, and verified decisions that depend on superseded records; it exits with status 1 if it finds any.

The pages are generated and never indexed. To change the wiki, write a record.

examples:
  lorelog wiki build
  lorelog wiki build --output site/ --all-projects
  lorelog wiki serve --port 0
  lorelog wiki lint --json
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import to_builtins

from lorelog.surfaces.cli.arguments import MAX_PORT, add_project_option, add_tenant_option, expand_path, whole_number
from lorelog.surfaces.cli.render import one_line, plural, print_json, print_note, short_path, stylize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lorelog.services.records.record_scope import RecordScope
    from lorelog.services.records.wiki import LintFinding


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    build = verbs.add_parser("build", help="write the pages", allow_abbrev=False)
    serve = verbs.add_parser("serve", help="serve the pages to a browser on this machine", allow_abbrev=False)
    lint = verbs.add_parser("lint", help="check the pages and the records", allow_abbrev=False)
    serve.add_argument(
        "--port",
        type=whole_number(0, MAX_PORT),
        metavar="N",
        help="port; 0 chooses a free one (http.port)",
    )
    for verb in (build, lint):
        verb.add_argument(
            "--output", metavar="DIR", help="directory of the pages (default: .lorelog/wiki of the project)"
        )
        verb.add_argument("--json", action="store_true", help="print JSON instead of text (lorelog docs json)")
    for verb in (build, lint):
        verb.add_argument("--all-projects", action="store_true", help="include all projects of the tenant")
        add_tenant_option(verb)
    for verb in (build, serve, lint):
        add_project_option(verb)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    if args.verb == "serve":
        from lorelog.surfaces.cli.commands.programs.serve import serve_page

        return serve_page("lorelog wiki serve", "records/wiki", project=args.project, port=args.port)
    with _open_records(args) as records:
        return (_build if args.verb == "build" else _lint)(args, records)


@contextmanager
def _open_records(args: argparse.Namespace) -> Iterator[RecordScope]:
    from lorelog.wiring import open_engine, resolve_location

    location = resolve_location(project=args.project, tenant=args.tenant)
    with open_engine(location, {"scope.tenant": args.tenant}) as engine:
        yield engine.records()


def _output_folder(args: argparse.Namespace, records: RecordScope) -> Path:
    from lorelog.services.records.wiki import default_wiki_folder

    return Path(expand_path(args.output)).absolute() if args.output else default_wiki_folder(records.workspace)


def _build(args: argparse.Namespace, records: RecordScope) -> int:
    from lorelog.services.places.workspace import create_project_folder
    from lorelog.services.records.wiki import EDITED_SUFFIX, compile_wiki, write_pages

    wiki = compile_wiki(records, all_projects=args.all_projects)
    folder = _output_folder(args, records)
    if wiki.pages and not args.output:
        create_project_folder(
            records.workspace.project.id
        )  # it has a .gitignore, which keeps the pages out of the repository
    built = write_pages(wiki.pages, folder)
    if args.json:
        print_json(to_builtins(built))
        return 1 if built.left_alone else 0
    for name in built.put_aside:
        print_note(f"{name} was edited by hand; the edited version is now {name}{EDITED_SUFFIX}")
    for name in built.left_alone:
        print_note(f"{name} was not written by lorelog and was not changed")
    if not wiki.pages and not built.removed:
        print("Nothing is recorded here yet; use 'lorelog task start \"…\"'.")
        return 0
    counts = f"{len(built.written):,} written, {len(built.unchanged):,} unchanged, {len(built.removed):,} removed"
    print(f"{plural(len(wiki.pages), 'page')} in {short_path(str(folder))}: {counts}.")
    return 1 if built.left_alone else 0


def _lint(args: argparse.Namespace, records: RecordScope) -> int:
    from lorelog.services.records.wiki import compile_wiki, lint_wiki

    wiki = compile_wiki(records, all_projects=args.all_projects)
    folder = _output_folder(args, records)
    findings = lint_wiki(wiki, folder)
    if args.json:
        print_json(
            {
                "folder": str(folder),
                "pages": len(wiki.pages),
                "findings": [_finding_json(finding) for finding in findings],
            }
        )
    for finding in () if args.json else findings:
        _show_finding(finding)
    if not args.json and not findings:
        print(f"{plural(len(wiki.pages), 'page')}: no problems found.")
    return 1 if findings else 0


def _finding_json(finding: LintFinding) -> dict[str, object]:
    return {
        "kind": finding.kind,
        "page": finding.page,
        "message": finding.message,
        "hint": finding.hint,
        "artifact_ids": list(finding.records),
    }


def _show_finding(finding: LintFinding) -> None:
    print(f"{stylize(finding.kind.replace('_', ' '), 'yellow')}: {one_line(finding.message)}")
    if finding.page and finding.page not in finding.message:
        print(f"  page: {one_line(finding.page)}")
    print(f"  hint: {one_line(finding.hint)}")
