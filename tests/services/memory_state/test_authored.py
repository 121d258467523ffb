"""The registry of own memories knows exactly what was written here, however it is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.document import Anchor
from lorelog.core.memory import NewMemory
from lorelog.services.memory_state.append_log import AppendLog
from lorelog.services.memory_state.authored import AuthoredMemories

RULE = NewMemory("use pnpm, not npm", "correction", id="m1", cues=("command=npm *",), supersedes=("m0",))
ANCHOR = Anchor(memory="m1", type="correction", origin="user", supersedes="m0", cues=("command=npm *",))


def test_text_and_anchor_must_be_those_that_were_registered(tmp_path: Path) -> None:
    """Markup may change; words, type, origin, cues, expiry and replaced memories may not."""
    registry = AuthoredMemories(tmp_path)
    registry.record([RULE])

    assert registry.wrote(ANCHOR, "- **use** pnpm, not npm\n")
    assert registry.wrote_all(ANCHOR, "- use `pnpm`, not npm")
    assert not registry.wrote(ANCHOR, "use npm, not pnpm")
    assert not registry.wrote_all(ANCHOR, "use pnpm, not npm <!-- or yarn -->")
    for field, value in (
        ("type", "decision"), ("origin", "agent"), ("supersedes", "m0,m9"), ("cues", ()), ("expires", "2020-01-01"), ("memory", "m2"),
    ):  # fmt: skip
        changed = {name: getattr(ANCHOR, name) for name in ("memory", "type", "origin", "supersedes", "cues")}
        assert not registry.wrote(Anchor(**(changed | {field: value})), RULE.text)


def test_the_end_of_a_long_text_counts(tmp_path: Path) -> None:
    """The first chunk of a long memory is enough to recognise it, and its whole text is needed to show all of it."""
    registry = AuthoredMemories(tmp_path)
    text = "otters swim in rivers " * 100
    registry.record([NewMemory(text, id="m1")])
    anchor = Anchor(memory="m1", origin="user")

    assert registry.wrote(anchor, text[:1_500])
    assert registry.wrote_all(anchor, text)
    assert not registry.wrote_all(anchor, text[:1_500])
    assert not registry.wrote_all(anchor, text + "and zebras")


def test_a_process_keeps_the_registry_and_sees_what_others_append(tmp_path: Path) -> None:
    """Memories that another process registers are known at once."""
    kept = AuthoredMemories.of_tenant(tmp_path)
    assert AuthoredMemories.of_tenant(tmp_path) is kept
    for number in range(5):
        AuthoredMemories(tmp_path).record([NewMemory("x", id=f"m{number}")])
        assert [kept.knows(f"m{other}") for other in range(6)] == [other <= number for other in range(6)]


@given(
    steps=st.lists(st.tuples(st.sampled_from(["append", "replace", "truncate", "tear", "break"]), st.integers(0, 9)))
)
def test_reading_what_was_appended_equals_reading_all(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    """After any appends, replacements, torn and broken lines, a kept reader knows what a new one knows."""
    path = tmp_path_factory.mktemp("log") / "a.jsonl"
    kept = AppendLog(path, int, is_long=True)
    for step, number in steps:
        if step == "append":
            _append(path, f"{number}\n")
        elif step == "replace":
            path.unlink(missing_ok=True)
            _append(path, f"{number}\n" * (number + 1))
        elif step == "truncate":
            path.write_text("", "utf-8")
        else:
            _append(path, "7" if step == "tear" else "x\n")
        assert _lines(kept) == _lines(AppendLog(path, int))


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as stream:
        stream.write(text)


def _lines(log: AppendLog[int]) -> tuple[tuple[int, ...], list[int]]:
    return log.lines(), [number for number, _ in log.bad_lines()]
