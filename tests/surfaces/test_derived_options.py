"""Options of commands that are derived from the requests of operations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta
from scripts.derive_options import LIMIT_NAMES, describe_command, render_options
from tests.surfaces.conftest import Shell

from lorelog.operations.catalogue import all_operations
from lorelog.operations.operation import Operation, OperationReply, ShellCommand
from lorelog.operations.requests import OperationRequest
from lorelog.surfaces.cli import commands
from lorelog.surfaces.cli.parser import command_parser


class CountRequest(OperationRequest, frozen=True, kw_only=True):
    """Animals to count."""

    animals: Annotated[Sequence[str], Meta(description="Which animals.")]
    place: Annotated[Literal["river", "wood"], Meta(description="Where.")] = "river"
    limit: Annotated[int, Meta(ge=1, description="At most this many.")] = 5
    by_night: Annotated[bool, Meta(description="Count in the dark.")] = False
    seen_by: Annotated[Sequence[str], Meta(description="Only those that this person saw.")] = []
    secret: str = ""


class CountReply(OperationReply, frozen=True, kw_only=True):
    """How many there are."""

    count: int


def count_animals(engine: object, request: CountRequest, call: object) -> CountReply:
    """Count animals."""
    return CountReply(count=len(request.animals))


COUNT: Operation[Any, Any] = Operation(
    "made.count",
    CountRequest,
    CountReply,
    count_animals,
    commands=(ShellCommand("count", ("animals",), {"seen_by": "-s --seen-by"}, hidden=("secret",)),),
)


def test_a_new_operation_is_a_command_with_typed_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, types, choices, defaults, flags and help of a command are those of the request; nothing else declares them."""
    options = tmp_path / "options.jsonl"
    options.write_text(render_options([COUNT]), "utf-8")
    monkeypatch.setattr(commands, "OPTIONS_FILE", str(options))
    parser = command_parser("count")
    shown = parser.format_help()
    args = parser.parse_args(["otter", "heron", "-n", "3", "--by-night", "-s", "mara", "--seen-by", "otto"])

    assert (args.animals, args.limit, args.by_night, args.seen_by) == (["otter", "heron"], 3, True, ["mara", "otto"])
    assert parser.description == "count animals"
    assert "{river,wood}" in shown
    assert all(text in shown for text in ("which animals", "at most this many (default 5)", "(repeatable)"))
    assert "--secret" not in shown


def test_an_unknown_field_is_refused() -> None:
    """A declaration that names a field that the request does not have is an error, not a missing option."""
    with pytest.raises(ValueError, match="has no field colour"):
        describe_command(COUNT, ShellCommand("count", options={"colour": "--colour"}))


def test_a_number_of_results_has_the_same_names_everywhere() -> None:
    """-k, -n, --limit and --top-k are one option of every command that lists or searches."""
    described = [
        argument
        for operation in all_operations().values()
        for shell in operation.commands
        for argument in describe_command(operation, shell)["arguments"]
        if argument["field"] in {"k", "limit"}
    ]

    assert len(described) > 15
    assert all(set(argument["names"]) >= set(LIMIT_NAMES) for argument in described)


@pytest.mark.parametrize(
    ("bare", "full"),
    [
        *(("task", "task list"), ("guard", "guard list"), ("code", "code status"), ("identity", "identity list")),
        *(
            ("config", "config list"),
            ("daemon", "daemon status"),
            ("debug", "debug errors"),
            ("ledger", "ledger check"),
        ),
    ],
)
def test_a_command_without_its_verb_lists(shell: Shell, project: Path, bare: str, full: str) -> None:
    """A bare group shows what its verb `list`, `status` or the like shows, with its options."""
    done, whole = shell(*bare.split(), "--json"), shell(*full.split(), "--json")

    assert (done.status, done.json, done.err) == (whole.status, whole.json, "")
