"""docs/http.md: every endpoint has an example, and every example works as it stands."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from tests.docs.pages import blocks, read, rows, spans
from tests.surfaces.http.conftest import Client, Reply, ServedNotes

from lorelog.surfaces.http.calls import STATUS_BY_CODE
from lorelog.surfaces.http.openapi import describe_api

PAGE = read("docs/http.md")
TOKEN = "a-token-for-the-page"


def examples() -> Iterator[list[str]]:
    """Yield the words of every curl command on the page."""
    for block in blocks(PAGE, "sh"):
        yield from (shlex.split(line) for line in block.splitlines() if line.startswith("curl "))


def _replace_all(word: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(name, value)
    return word


def typed(client: Client, words: list[str], world: ServedNotes) -> Reply:
    """Send what curl would send."""
    method, url, body, headers = "", "", None, {}
    shell = {"/home/mara/app": world.here, "$LORELOG_TOKEN": TOKEN, "$AUTH": f"Authorization: Bearer {TOKEN}"}
    rest = iter(_replace_all(word, shell) for word in words[1:])
    for word in rest:
        if word in {"-d", "--data-binary"}:
            body = next(rest)
        elif word == "-X":
            method = next(rest)
        elif word == "-H":
            name, _, value = next(rest).partition(": ")
            headers[name] = value
        elif not word.startswith("-"):
            url = word
    parts = urlsplit(url)
    assert parts.netloc == "127.0.0.1:8222"
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    return client.send(method or ("GET" if body is None else "POST"), path, body, headers)


@pytest.mark.slow
def test_every_example_works(world: ServedNotes) -> None:
    """Each curl command of the page, sent as it stands, is answered with 200."""
    world.note.write_text("# Cache\n\nWhy redis: it runs already.\n", "utf-8")
    client = world.serve(token=TOKEN)
    bearing = Client(client.port, {"Authorization": f"Bearer {TOKEN}"})
    replies = [
        (
            shlex.join(words),
            typed(bearing if not {"Bearer", "$AUTH"} & set(" ".join(words).split()) else client, words, world),
        )
        for words in examples()
    ]

    assert [line for line, reply in replies if reply.status != 200] == []
    assert len(replies) > 12


def test_every_endpoint_has_an_example() -> None:
    """Each path and method of the OpenAPI document is in the table of paths and in an example."""
    shown = set()
    for words in examples():
        url = next(word for word in words if word.startswith("http"))
        method = words[words.index("-X") + 1] if "-X" in words else "POST" if "-d" in words else "GET"
        shown.add(f"{method} {re.sub('/api/call/.*', '/api/call/{op}', urlsplit(url).path)}")
    table = {span for row in rows(PAGE) for span in spans(row[0]) if span.startswith(("GET", "POST", "PUT"))}
    offered = {
        f"{method.upper()} {re.sub('/api/call/.*', '/api/call/{op}', path)}"
        for path, methods in describe_api(secured=False)["paths"].items()
        for method in methods
    }

    assert shown == offered
    assert table == offered


def test_every_status_stands_on_the_page() -> None:
    """The page names each code under the status that it is answered with."""
    table = {(code, int(row[0])) for row in rows(PAGE) if row[0].isdigit() for code in spans(row[1])}

    assert set(STATUS_BY_CODE.items()) <= table


def test_the_page_uses_no_path_of_this_machine() -> None:
    """The examples stand in a made-up project."""
    assert os.path.expanduser("~") not in PAGE  # noqa: PTH111
