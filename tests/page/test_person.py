"""Who acts in the page, what the server wants confirmed, what a forgotten memory says, and the editor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.page.conftest import PageWorld
from tests.page.test_access import HTML, JSON, log_in, send
from tests.surfaces.http.conftest import Reply

from lorelog.core.editor import windowed_editor
from lorelog.surfaces.http.tickets import issue_ticket


def ask(world: PageWorld, cookie: Mapping[str, str], op: str, arguments: dict[str, Any], typed: str = "") -> Reply:
    """Call an operation as the page does, confirmed with an id."""
    headers = {**cookie, **JSON} | ({"X-Lorelog-Confirm": typed} if typed else {})
    return send(world, "POST", f"/api/page/call/{op}", headers, json.dumps(arguments))


def shown_id(world: PageWorld, name: str) -> str:
    identity: str = world.call("memory.get", {"id": world.ids[name]})["memory"]["id"][:8]
    return identity


def test_the_server_wants_the_typed_id_before_it_forgets(served: PageWorld) -> None:
    """Forgetting without the id, with another memory's id or with too few characters changes nothing; with it, it forgets."""
    cookie, wanted = log_in(served), {"ids": [served.ids["pnpm"]], "confirm": True}
    right, other = shown_id(served, "pnpm"), shown_id(served, "review")
    for typed in ("", other, right[:4], "x" * 8, served.ids["pnpm"][:8]):
        for op in ("memory.forget", "forget"):
            reply = ask(served, cookie, op, wanted, typed)
            assert (reply.status, reply.json["error"]["code"]) == (400, "confirmation"), (op, typed)
    assert served.call("memory.get", {"id": served.ids["pnpm"]})["memory"]
    assert ask(served, cookie, "memory.forget", {**wanted, "dry_run": True}).status == 200
    assert served.call("memory.get", {"id": served.ids["pnpm"]})["memory"]
    assert ask(served, cookie, "memory.forget", wanted, right).json["ok"]
    assert served.call("memory.get", {"id": served.ids["pnpm"]})["forgotten"]


def test_the_page_forgets_one_memory_at_a_time(served: PageWorld) -> None:
    """A request with several ids or with a condition is refused, whatever it was confirmed with."""
    cookie, right = log_in(served), shown_id(served, "pnpm")
    first, second = served.ids["pnpm"], served.ids["review"]
    for wanted in ({"ids": [first, second]}, {"ids": [first], "match": "review"}, {"match": "pnpm"}, {"since": "1d"}):
        for op in ("memory.forget", "forget"):
            assert ask(served, cookie, op, {**wanted, "confirm": True}, right).status == 400, (op, wanted)
    assert served.call("memory.get", {"id": first})["memory"]
    assert served.call("memory.get", {"id": second})["memory"]


def test_the_server_wants_the_id_before_it_deletes(served: PageWorld) -> None:
    """Deleting needs the id of the memory that the page shows; another one's does not do."""
    cookie, identity = log_in(served), served.ids["pnpm"]
    for typed in ("", shown_id(served, "review")):
        for op in ("memory.delete", "delete"):
            assert ask(served, cookie, op, {"id": identity}, typed).status == 400
    assert not served.call("memory.get", {"id": identity})["deleted"]
    assert ask(served, cookie, "memory.delete", {"id": identity}, identity).status == 200
    assert served.call("memory.get", {"id": identity})["deleted"]


def test_a_ticket_of_an_agent_logs_in_an_agent(served: PageWorld) -> None:
    """What is written through an agent's ticket counts as an agent's text, and it neither edits nor forgets nor opens."""
    ticket = issue_ticket(str(served.home), served.server.port, "Codex")
    reply = send(served, "GET", f"/?ticket={ticket}", HTML)
    cookie = {"Cookie": reply.headers["set-cookie"].partition(";")[0]}
    assert send(served, "GET", "/api/page/session", cookie).json["agent"] == "Codex"
    assert ask(served, cookie, "memory.add", {"text": "Tea at five."}).json["origin"] == "agent"
    wanted = {"ids": [served.ids["pnpm"]], "confirm": True}
    assert ask(served, cookie, "memory.forget", wanted, shown_id(served, "pnpm")).status == 403
    assert (
        send(served, "POST", "/api/page/open", {**cookie, **JSON}, json.dumps({"id": served.ids["pnpm"]})).status == 403
    )
    assert send(served, "GET", "/api/page/session", log_in(served)).json["agent"] == ""


def test_a_person_is_a_person_also_at_a_server_that_an_agent_started(
    served: PageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's own environment does not decide whose word it is: the ticket does."""
    from msgspec.structs import replace

    from lorelog.surfaces.page.app import identify_caller

    server = replace(served.person, environment={**served.person.environment, "CLAUDECODE": "1"}, own=False)
    assert identify_caller(server, "").detect_agent() == ""
    assert identify_caller(server, "Codex").detect_agent() == "Codex"
    assert identify_caller(server, "an unknown one").detect_agent() == "an agent"


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"EDITOR": "code --wait", "DISPLAY": ":0"}, "code"),
        ({"VISUAL": "/opt/x/gvim", "EDITOR": "nano", "WAYLAND_DISPLAY": "w"}, "gvim"),
        ({"EDITOR": "code"}, ""),
        ({"EDITOR": "vim", "DISPLAY": ":0"}, ""),
        ({"EDITOR": "hx", "DISPLAY": ":0"}, ""),
        ({"EDITOR": "code '", "DISPLAY": ":0"}, ""),
        ({"DISPLAY": ":0"}, ""),
    ],
)
def test_only_an_editor_with_a_window_is_opened(environment: dict[str, str], name: str) -> None:
    """An editor that needs a terminal, or that has no display, is not started by a server."""
    assert windowed_editor(environment) == name


def test_the_editor_opens_the_file_of_an_id_and_nothing_else(
    served: PageWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The editor gets the file and line of the memory with the id; a path is refused, and without an editor a command is told."""
    said = tmp_path / "said"
    editor = tmp_path / "code"
    editor.write_text(f'#!/bin/sh\necho "$@" > "{said}.new"; mv "{said}.new" "{said}"\n', "utf-8")
    editor.chmod(0o755)
    cookie = {**log_in(served), **JSON}

    def open_editor(identity: str) -> Reply:
        return send(served, "POST", "/api/page/open", cookie, json.dumps({"id": identity}))

    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "nano")
    reply = open_editor(served.ids["pnpm"]).json
    assert (reply["opened"], reply["command"]) == (False, f"lorelog open {shown_id(served, 'pnpm')}")
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.setenv("DISPLAY", ":0")
    assert send(served, "GET", "/api/page/session", cookie).json["editor"] == "code"
    assert open_editor(served.ids["pnpm"]).json["opened"]
    section = served.call("memory.expand", {"id": served.ids["pnpm"]})
    _wait_for(said)
    assert said.read_text("utf-8") == f"-g {section['source']}:{section['start_line']}\n"
    for wrong in ("/etc/passwd", str(served.project), "../x", ""):
        assert open_editor(wrong).status in {400, 404}, wrong


def _wait_for(path: Path) -> None:
    import time

    deadline = time.monotonic() + 30
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)


@pytest.mark.slow
def test_a_forgotten_memory_offers_no_restore(page: PageWorld) -> None:
    """The address of a forgotten memory says that its text was taken out, and offers no restoring; a deleted one's does."""
    page.call("memory.forget", {"ids": [page.ids["pnpm"]], "confirm": True})
    page.call("memory.delete", {"id": page.ids["review"]})
    tab = page.open(f"#/memory/{page.ids['pnpm']}")
    tab.wait_text("This memory was forgotten")
    assert "still in its file" not in tab.text()
    assert not tab.run("[...document.querySelectorAll('main button')].some(e => e.innerText.includes('Restore'))")
    tab.go(page.address(f"#/memory/{page.ids['review']}"))
    tab.wait_text("This memory is deleted")
    tab.wait("[...document.querySelectorAll('main button')].some(e => e.innerText.includes('Restore'))")


def test_the_command_line_offers_no_restore_either(
    served: PageWorld, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """`lorelog show` of a forgotten memory does not offer to restore it."""
    from lorelog.surfaces.cli.main import main

    served.call("memory.forget", {"ids": [served.ids["pnpm"]], "confirm": True})
    monkeypatch.setenv("LORELOG_HOME", str(served.home))
    monkeypatch.chdir(served.project)
    assert main(["--daemon", "off", "show", served.ids["pnpm"]]) == 1
    said = capsys.readouterr().err
    assert "forgotten for good" in said
    assert "restore" not in said


def test_derived_cues_are_shown_beside_written_cues(served: PageWorld) -> None:
    """A rule without cues of its own has those that are derived from its text; one with written cues has only these."""
    rule = served.call("memory.add", {"text": "Never run `npm install`; use pnpm.", "type": "preference"})["memory"]
    cookie = log_in(served)
    derived = ask(served, cookie, "memory.expand", {"id": rule, "cues": True}).json["derived_cues"]
    assert any(cue.startswith("command=") and "npm" in cue for cue in derived)
    assert ask(served, cookie, "memory.expand", {"id": rule}).json["derived_cues"] == []
    written = ask(served, cookie, "memory.expand", {"id": served.ids["migrations"], "cues": True}).json
    assert written["anchor"]["cues"]
    assert written["derived_cues"] == []
