"""`lorelog deliveries`: what agents were shown, and what nobody used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.conftest import Shell

from lorelog.core.atomic_file import append_line
from lorelog.light.delivery_log import append_delivery, session_log
from lorelog.services.places.workspace import find_project
from lorelog.services.usage.history import used_file


class Deliveries:
    def __init__(self, home: Path, project: Path) -> None:
        self.folder, self.project = str(home / "data" / "default" / "deliveries"), find_project(str(project)).id

    def add(self, session: str, memory: str, how: str = "", **more: Any) -> None:
        """Log a delivery, and how it was used."""
        line = {
            "project": self.project,
            "moment": "tool-before",
            "kind": "cue",
            "memories": [memory],
            "tokens": 20,
            "cue": "command=npm *",
            **more,
        }
        append_delivery(self.folder, "claude", session, line)
        if how:
            used = {"turn": "t", "how": how, "memories": [memory]}
            append_line(str(used_file(Path(session_log(self.folder, "claude", session)))), json.dumps(used).encode())


@pytest.fixture
def deliveries(home: Path, project: Path, shell: Shell) -> Deliveries:
    return Deliveries(home, project)


def add_memory(shell: Shell, text: str) -> str:
    memory: str = shell("add", text, "--json").json["memory"]
    return memory


def test_deliveries_are_shown_as_a_table(shell: Shell, deliveries: Deliveries) -> None:
    """Each delivery is a row with its moment, the memory's first words, its cue, its tokens and whether it was used."""
    memory = add_memory(shell, "Use pnpm here, not npm")
    deliveries.add("session-one", memory, "changed")
    deliveries.add("session-two", memory, guard="g1", kind="guard", cue="")

    lines = shell("deliveries").out.splitlines()

    assert lines[0].split() == ["when", "host", "session", "moment", "memory", "cue", "tokens", "used"]
    assert len(lines) == 3
    row = next(line for line in lines if "npm *" in line)
    shown = row.partition(" Use pnpm here, not npm")[0].split()[-1]
    assert memory.startswith(shown)
    assert shell("show", shown).status == 0
    assert row.endswith("20  changed")
    assert "guard g1" in shell("deliveries", "--session", "session-t").out
    assert shell("deliveries").err == "note: 2 deliveries, 40 tokens\n"
    assert "use -n to show more" in shell("deliveries", "-n", "1").err


def test_unused_memories_are_listed_for_review(shell: Shell, deliveries: Deliveries) -> None:
    """A memory that was delivered five times without use is listed with the commands for it, others are not."""
    unused, used, gone = (add_memory(shell, f"{name} rule for the harbour") for name in ("first", "second", "third"))
    for number in range(5):
        for memory in (unused, used, gone):
            deliveries.add(f"{memory} {number}", memory, "none")
    deliveries.add("good", used, "id")
    assert shell("delete", gone).status == 0

    reply = shell("deliveries", "--unused", "--json").json
    shown = shell("deliveries", "--unused")

    assert [(memory["id"], memory["unused"]) for memory in reply["memories"]] == [(unused, 5)]
    assert "first rule" in shown.out
    assert "lorelog supersede ID" in shown.err
    assert "lorelog delete ID" in shown.err
    assert shell("deliveries", "--unused", "--min", "6").out.startswith("No memory was delivered")


def test_the_balance_says_what_each_memory_cost(shell: Shell, deliveries: Deliveries) -> None:
    """Memories are listed by their tokens with signs of use and contradictions; those that sink are named, also by status."""
    said = (
        "- useful rule for the quay\n- About: said on 2026-03-05 in a prompt, approved by you: “mind the quay, always”"
    )
    useful = shell("add", said, "--type", "correction", "--json").json["memory"]
    idle = add_memory(shell, "idle rule for the quay")
    for number in range(6):
        deliveries.add(f"idle {number}", idle, "none", tokens=100)
    deliveries.add("one", useful, "changed")
    deliveries.add("two", useful, "contradicted")
    deliveries.add("start", useful, kind="standing", moment="session-start", tokens=590)
    guard = shell("guard", "add", "--command", "npm *", "--memory", useful, "--json").json["guard"]["id"]
    for verb in ("enable", "dismiss"):
        assert shell("guard", verb, guard).status == 0

    first, second = shell("deliveries", "--balance", "--json").json["memories"]

    assert (first["id"], first["tokens"], first["unused"], first["sinks"]) == (idle, 600, 6, True)
    text_tokens = -(-len("useful rule for the quay") // 4)
    assert (second["id"], second["tokens"], second["sinks"]) == (useful, 40 + text_tokens, False)
    assert (second["used"], second["signs"], second["contradicted"]) == (1, {"changed": 1}, 2)
    assert "(sinks)" in shell("deliveries", "--balance").out
    assert "1 memory shown 6 times and never used: lorelog deliveries --balance" in " ".join(
        shell("status").out.split()
    )


def test_a_deleted_memory_is_listed_without_its_text(shell: Shell, deliveries: Deliveries) -> None:
    """The log holds no text: a memory that was deleted is an id."""
    memory = add_memory(shell, "the password of the harbour is otter")
    deliveries.add("one", memory)
    shell("delete", memory)

    assert "otter" not in shell("deliveries", "--json").out
    assert memory in shell("deliveries", "--json").out


def test_stats_sum_the_tokens_of_a_day(shell: Shell, deliveries: Deliveries) -> None:
    """`stats` shows the tokens of the last 7 and 30 days, and of each day."""
    assert "delivered" not in shell("status", "index").out
    deliveries.add("one", "m1", tokens=1_500)
    deliveries.add("two", "m1", tokens=500, project="/elsewhere")

    reply = shell("status", "index", "--json").json["deliveries"]

    assert (reply["tokens_7_days"], reply["tokens_30_days"]) == (2_000, 2_000)
    assert [(day["deliveries"], day["tokens"]) for day in reply["days"]] == [(2, 2_000)]
    assert "delivered     2,000 tokens of memories in 7 days, 2,000 in 30" in shell("status", "index").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--balance", "--session", "s"], "--balance cannot be combined with filters"),
        (["--min", "3"], "--min requires --unused"),
        (["--unused", "--min", "0"], "must be at least 1"),
        (["-n", "0"], "-n must be at least 1"),
        (["--since", "lately"], "'lately' is not a day"),
        (["--kind", "bird"], "there is no kind 'bird'; there are: "),
    ],
)
def test_invalid_options_are_explained(shell: Shell, words: list[str], message: str) -> None:
    """An invalid option is a usage error that says what is wrong."""
    done = shell("deliveries", *words)

    assert (done.status, message in done.err) == (2, True)


def test_a_damaged_log_is_shown_as_far_as_it_can_be_read(shell: Shell, deliveries: Deliveries) -> None:
    """Lines with missing, odd or hostile fields neither fail nor reach the terminal unescaped."""
    deliveries.add("one", "m1")
    log = session_log(deliveries.folder, "claude", "one")
    for line in (
        b'{"memories": []}',
        b'{"memories": ["\\u001b[31mx"], "at": 3, "tokens": -4, "cue": "\\u0007"}',
        b"{",
        b"\xff",
    ):
        append_line(log, line)

    done = shell("deliveries", "--all-projects")

    assert done.status == 0
    assert len(done.out.splitlines()) == 4
    assert "\x1b" not in done.out
    assert shell("deliveries", "--all-projects", "--json").json["total_tokens"] == 20
