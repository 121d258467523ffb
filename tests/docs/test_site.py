"""The README, the table of contents, `lorelog docs` and the website have the same pages."""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, read, shell_lines
from tests.surfaces.conftest import Shell

from lorelog.config.schema import SETTINGS
from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.commands import COMMANDS
from lorelog.surfaces.cli.commands.guide import find_docs_folder, find_page, read_contents, terminal_markdown
from lorelog.surfaces.cli.parser import command_parser

DOCS = ROOT / "docs"
NAMES = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
LISTED = {name for name in NAMES - {"index.md"} if "/" not in name or name.endswith("/README.md")}
"""Pages of the table of contents. It leaves the pages of a folder to the folder's start page."""

NAV = re.compile(r"([\w/-]+\.md)$", re.MULTILINE)
FILE = re.compile(r"docs/\w+\.md")
WORDS_OF_MAIN = {"help", "version", "--help", "--version"}
"""What `lorelog` itself answers, besides its commands."""


def nav() -> list[str]:
    """Return the pages of the website in their order."""
    return NAV.findall(read("mkdocs.yml").partition("\nnav:\n")[2])


def test_the_readme_is_short_and_has_the_picture() -> None:
    """README.md has at most 150 lines, and its moving picture shows a held call, has no script and fetches nothing."""
    page = read("README.md")
    picture = read("docs/assets/moment.svg")

    assert page.count("\n") <= 150
    assert "(docs/assets/moment.svg)" in page
    assert "Held once. Repeat the call" in picture
    assert re.findall(r"<script|url\(|@import|<image|href=", picture.replace("url(#", "")) == []


def test_every_page_is_on_the_website_once() -> None:
    """Each page below docs/ is in the nav of mkdocs.yml, once; those of `project/` are made by the hook."""
    from scripts.site_hooks import PAGES

    assert sorted(nav()) == sorted([*NAMES, *PAGES.values()])


def test_the_table_of_contents_is_that_of_the_website() -> None:
    """docs/index.md lists the pages of the nav, in its order."""
    listed = [name for pages in read_contents(DOCS).values() for name in pages]

    assert listed == [name.removesuffix(".md").removesuffix("/README") for name in nav() if name in LISTED]


def test_every_command_named_in_a_block_exists() -> None:
    """Each `lorelog WORD` in a shell block of the README and of docs/ names a command."""
    pages = ["README.md", *(f"docs/{name}" for name in sorted(NAMES))]
    named = {(name, line.split()[1]) for name in pages for line in shell_lines(read(name))}

    assert [(page, word) for page, word in sorted(named) if word not in {*COMMANDS, *WORDS_OF_MAIN}] == []


def test_help_names_pages_by_their_command() -> None:
    """No help text and no setting names a file of docs/, which an installation does not have: `lorelog docs json` does."""
    texts = {name: command_parser(name) for name in COMMANDS}
    found = {name for name, parser in texts.items() if FILE.search(_all_help(parser))}

    assert sorted(found | {setting.key for setting in SETTINGS if FILE.search(setting.meaning)}) == []


def _all_help(parser: argparse.ArgumentParser) -> str:
    verbs = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return parser.format_help() + "".join(_all_help(verb) for choices in verbs for verb in choices.values())


def test_docs_lists_the_pages_by_group(shell: Shell) -> None:
    """`lorelog docs` prints each group with its pages and what they are about, in 80 columns."""
    done = shell("docs")

    assert done.status == 0
    assert done.out.startswith("Start here\n  quickstart ")
    assert "from nothing to the first answer" in done.out
    assert [line for line in done.out.splitlines() if len(line) > 80] == []
    assert [
        name for pages in read_contents(find_docs_folder()).values() for name in pages if f"  {name} " not in done.out
    ] == []


def test_docs_prints_a_page_and_its_path(shell: Shell) -> None:
    """In a pipe a page is printed as it is; `--path` prints where it is; the name may be spelled as a file."""
    path = shell("docs", "security", "--path").out.strip()

    assert shell("docs", "security").out == Path(path).read_text("utf-8")
    assert shell("docs", "docs/security.md", "--path").out.strip() == path
    assert shell("docs", "decisions", "--path").out.strip().endswith("docs/decisions/README.md")


def test_a_misspelt_page_is_suggested(shell: Shell) -> None:
    """A page that does not exist is a usage error with the nearest name."""
    done = shell("docs", "quickstat")

    assert (done.status, done.err) == (
        2,
        "lorelog: there is no page 'quickstat'\n  hint: did you mean 'lorelog docs quickstart'?\n",
    )
    with pytest.raises(UsageError, match="no page"):
        find_page(find_docs_folder(), "../README")


def test_a_page_at_a_terminal_names_commands_for_links() -> None:
    """At a terminal a link to a page is the command that shows it; comments and pictures are left out; code stays."""
    page = "<!-- mark -->\nSee [json.md](json.md#x), [the plan](a/README.md), [us](../X.md).\n![p](p.svg)\n```sh\n[x](y.md)\n```\n"

    assert terminal_markdown(page) == (
        "See `lorelog docs json`, the plan (`lorelog docs a`), us.\n\n```sh\n[x](y.md)\n```\n"
    )


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".bench/site/bin/mkdocs").exists(), reason="'make site' has not installed mkdocs")
def test_the_website_builds_and_fetches_nothing(tmp_path: Path) -> None:
    """`mkdocs build --strict` has no warning, and no page loads a script, style or picture from elsewhere."""
    command = [str(ROOT / ".bench/site/bin/mkdocs"), "build", "--strict", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)

    loaded = re.compile(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="?(https?:)')
    assert [path.name for path in tmp_path.rglob("*.html") if loaded.search(path.read_text("utf-8"))] == []
    assert (tmp_path / "search" / "search_index.js").stat().st_size > 100_000
