"""Lists and counts in the pages are those of the code."""

from __future__ import annotations

import re

from tests.docs.pages import PAGES, ROOT, read, rows, spans

from lorelog.code.languages.registry import LANGUAGES
from lorelog.config.schema import SETTINGS
from lorelog.core.extras import EXTRAS
from lorelog.hosts import HOST_TITLES, HOSTS
from lorelog.ingest.importers.source import SOURCE_MODULES
from lorelog.operations.catalogue import all_operations

NAMES = [str(page.relative_to(ROOT)) for page in PAGES if page.name != "CHANGELOG.md"]
TITLES = tuple(HOST_TITLES.values())
NUMBERS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
)
AGENTS_LIST = re.compile(rf"{TITLES[0]}, {TITLES[1]}, {TITLES[2]}.*?{TITLES[-1]}|{TITLES[0]}, {TITLES[1]}, {TITLES[2]}")
IDS_LIST = re.compile(r"`claude`, `codex`, `opencode`[^.;|]*")
EXTRA = re.compile(r"lorelog\[([\w,]+)\]")


def test_lists_of_agents_name_all_that_are_supported() -> None:
    """A page that lists the supported agents lists all of `HOSTS`, in their order."""
    found = [(name, text) for name in NAMES for text in AGENTS_LIST.findall(" ".join(read(name).split()))]

    assert {name for name, _ in found} >= {"README.md", "docs/comparison.md", "docs/index.md", "docs/quickstart.md"}
    assert [(name, text) for name, text in found if tuple(re.split(r", | and | or ", text)) != TITLES] == []
    assert {tuple(spans(ids)) for name in NAMES for ids in IDS_LIST.findall(read(name))} == {tuple(HOSTS)}


def test_pages_give_the_number_of_agents_languages_and_tools() -> None:
    """Where README.md gives the number of agents, languages, tools, operations and idle minutes, the code has the same."""
    page = " ".join(read("README.md").split())
    idle_s = next(float(str(setting.default)) for setting in SETTINGS if setting.key == "daemon.idle_s")
    claims = f"The {NUMBERS[len(HOSTS)]} agents above|{len(LANGUAGES)} languages|{len(SOURCE_MODULES)} tools|"
    claims += f"{len(all_operations())} operations, each|exits after {idle_s / 60:.0f} idle minutes"

    assert [claim for claim in claims.split("|") if claim not in page] == []


def test_pages_give_the_size_of_the_built_in_model() -> None:
    """Pages that give the size of the built-in model give that of its file."""
    (model,) = (ROOT / "encoder" / "src").glob("*/model.onnx")
    megabytes = model.stat().st_size / 1e6

    assert f"int8, {megabytes:.1f} MB" in read("docs/providers.md")
    assert f"{megabytes:.1f} MB |" in read("docs/decisions/models.md")
    assert f"small ({megabytes:.0f} MB)" in read("docs/troubleshooting.md")


def test_hosts_page_has_a_row_for_each_agent() -> None:
    """docs/hosts.md says how to install into each supported agent, and docs/import.md has a row for each source."""
    installs = [row[1] for row in rows(read("docs/hosts.md")) if len(row) == 3 and "hosts install" in row[1]]

    assert [cell.split("install ")[1].split()[0].strip("`") for cell in installs] == list(HOSTS)
    sources = read("docs/import.md").split("## Sources")[1].split("\n## ")[0]
    assert {spans(row[0])[0] for row in rows(sources) if len(row) == 4 and spans(row[0])} == set(SOURCE_MODULES)


def test_quickstart_lists_the_extras() -> None:
    """docs/quickstart.md has each extra of the package and no other, and pages name only extras that exist."""
    section = read("docs/quickstart.md").split("## Extras")[1].split("\n## ")[0]

    assert {name for row in rows(section) for name in spans(row[0])} == {*EXTRAS, "all"}
    named = {extra for name in NAMES for found in EXTRA.findall(read(name)) for extra in found.split(",")}
    assert named - {*EXTRAS, "all", "dev"} == set()


def test_changes_touch_the_files_that_contributing_names() -> None:
    """The example of each change is named in the listed files and in no other module: a new one costs as much."""
    table = rows(read("CONTRIBUTING.md").partition("## What to touch")[2].partition("## ")[0])
    package = ROOT / "src" / "lorelog"

    assert len(table) == 3
    for change, example, files, shown in table:
        name = spans(example)[0]
        listed = {span for span in spans(f"{files} {shown}") if span.endswith(".py")}
        named = {str(path.relative_to(package)) for path in package.rglob("*.py") if name in path.read_text("utf-8")}
        assert named - listed == set(), change
        assert {file for file in spans(files) if file.endswith(".py")} <= named, change
        assert f"({len([span for span in spans(files) if span.endswith('.py')])}" in change
