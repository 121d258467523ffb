"""docs/json.md describes the replies of `guard`, field by field and in both directions."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.test_json_debug import declared
from tests.docs.test_json_page import documented, fields
from tests.surfaces.conftest import Shell

from lorelog.operations import guard as guard_operations
from lorelog.services.guards.guard_log import GuardChange

CHANGES = "guard add, guard disable, guard dismiss, guard remove"


@pytest.mark.parametrize(
    ("section", "reply"),
    [
        ("guard list", guard_operations.GuardListReply),
        ("guard show", guard_operations.GuardDetails),
        ("guard propose", guard_operations.GuardProposalsReply),
        ("guard test", guard_operations.GuardReplay),
        (CHANGES, GuardChange),
        ("guard enable", guard_operations.GuardEnableReply),
    ],
)
def test_guards_are_documented(section: str, reply: type) -> None:
    """Every field that can be there is documented, and no other."""
    assert set(declared(reply)) == documented(section)


def test_printed_guards_have_the_documented_fields(shell: Shell, project: Path) -> None:
    """What is printed has those fields."""
    added = shell("guard", "add", "--path", "*.sql", "--message", "x", "--json").json

    assert set(fields(added)) == documented(CHANGES)
    assert set(fields(shell("guard", "list", "--json").json)) == documented("guard list")
    assert set(fields(shell("guard", "show", added["guard"]["id"], "--json").json)) == documented("guard show")
