"""The section around a chunk, as `lorelog show` cuts it out, and the commands index, search, expand and transcript."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from lorelog.ingest.outline import section_bounds
from memsearch import transcript as conversations


def _extract_section(lines: list[str], start_line: int, heading_level: int) -> tuple[str, int, int]:
    start, end = section_bounds("\n".join(lines), "/a.md", start_line, heading_level)
    return "\n".join(lines[start - 1 : end]), start, end


@click.group()
def cli() -> None:
    pass


def _call(home: str, *words: str) -> Any:
    environment = os.environ | {"LORELOG_HOME": f"{home}.home", "LORELOG_EMBEDDING_PROVIDER": "fake"}
    command = [sys.executable, "-m", "lorelog", *words, "--json", "--daemon", "off"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(done.stderr)
    return json.loads(done.stdout)


_STORE = [click.option("--milvus-uri"), click.option("--collection")]


def _with_store(function: Any) -> Any:
    for option in _STORE:
        function = option(function)
    return function


@cli.command()
@click.argument("path")
@_with_store
def index(path: str, milvus_uri: str, collection: str) -> None:
    _call(milvus_uri, "index", path)


@cli.command()
@click.argument("query")
@click.option("--top-k")
@click.option("--json-output", is_flag=True)
@_with_store
def search(query: str, top_k: str, milvus_uri: str, collection: str, *, json_output: bool) -> None:
    hits = _call(milvus_uri, "search", query, "--top-k", top_k)["hits"]
    click.echo(json.dumps([{"chunk_hash": hit["id"], **hit} for hit in hits]))


@cli.command()
@click.argument("chunk")
@click.option("--json-output", is_flag=True)
@_with_store
def expand(chunk: str, milvus_uri: str, collection: str, *, json_output: bool) -> None:
    shown = _call(milvus_uri, "show", chunk)
    for note in shown["notes"]:
        click.echo(note, err=True)
    anchor = {name: (shown["anchor"] or {}).get(name, "") for name in ("session", "turn", "transcript")}
    click.echo(json.dumps(shown | ({"anchor": anchor} if anchor["session"] else {})))


@cli.command()
@click.argument("path")
@click.option("--turn")
@click.option("--context", type=int)
@click.option("--json-output", is_flag=True)
def transcript(path: str, turn: str, context: int, *, json_output: bool) -> None:
    turns = conversations.select_turns(conversations.parse_transcript(Path(path)), turn, context)
    click.echo(json.dumps([{"uuid": each.uuid, "text": each.text} for each in turns]))
