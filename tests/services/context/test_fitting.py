"""The file that is read before work holds its budget, whatever goes into it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorelog.core.errors import UsageError
from lorelog.models.tokens import TokenCounter
from lorelog.services.context.fitting import CONTRACT, JSON, MARKDOWN, NOTHING, SECTIONS, Head, Item, fit

COUNT = TokenCounter()
LEAST = 100
"""Tokens that every file without items stays below."""
WORDS = st.one_of(
    st.text(max_size=300), st.sampled_from(["word " * 200, "x" * 400, "字" * 300, "😀 " * 90, "\n# a\n- b"])
)
ITEMS = st.lists(
    st.builds(
        Item,
        section=st.sampled_from(list(SECTIONS)),
        id=st.uuids().map(str),
        hash=st.just("0123456789abcdef"),
        kind=st.sampled_from(["memory", "decision by mara", ""]),
        tier=st.sampled_from(["semantic_candidate", "verified_record"]),
        date=st.sampled_from(["", "2026-03-05"]),
        text=WORDS,
        origin=st.sampled_from(["", "tool", "user"]),
        tainted=st.booleans(),
    ),
    max_size=12,
)
HEADS = st.builds(Head, project=WORDS, tenant=st.just("default"), queries=st.lists(WORDS, max_size=4).map(tuple))


def item(text: str, section: str = "memories", **more: object) -> Item:
    return Item(section, "0123abcd", "fedcba9876543210", "decision", "canonical_record", "2026-03-05", text, **more)  # type: ignore[arg-type]


@settings(deadline=None, max_examples=150)
@given(HEADS, ITEMS, st.integers(1, 2000), st.sampled_from([MARKDOWN, JSON]))
def test_no_file_is_over_its_budget(head: Head, items: list[Item], budget: int, form: str) -> None:
    """With the real tokenizer, whatever the texts and however small the budget: it holds for the whole file, or there is none."""
    try:
        fitted = fit(head, items, budget, COUNT, form)
    except UsageError:
        assert budget < LEAST
        return

    assert COUNT(fitted.text) == fitted.tokens <= budget
    assert CONTRACT in fitted.text
    assert len(fitted.items) + sum(fitted.left_out.values()) == len(items)
    for one in fitted.items:
        assert one.citation in fitted.text
    if form == JSON:
        read = json.loads(fitted.text)
        assert [one["text"] for one in read["items"] if "text" in one] == [
            one.shown for one in sorted(fitted.items, key=lambda one: list(SECTIONS).index(one.section)) if one.shown
        ]


@given(WORDS, WORDS)
def test_an_item_stays_on_its_line(text: str, name: str) -> None:
    """Whatever an item and its writer's name say, it is one line: it can begin no heading, no item and no tag of its own."""
    one = replace(item(text), kind=f"decision by {name}")
    lines = fit(Head(), [one], 5000, len, MARKDOWN).text.split("\n")

    assert [line for line in lines if line.startswith("#")] == ["# lorelog context", "## Memories"]
    assert len([line for line in lines if line.startswith("- ")]) == 1
    assert "</" not in "".join(lines)


def test_the_least_budget_is_told_and_suffices() -> None:
    """Whoever asks for too little is told what is enough, and that is enough."""
    items = [item("a " * 300, section) for section in SECTIONS]
    with pytest.raises(UsageError, match="too few") as raised:
        fit(Head(), items, 1, COUNT)
    least = int(raised.value.hint.split()[-1])

    assert fit(Head(), items, least, COUNT).tokens == least
    with pytest.raises(UsageError):
        fit(Head(), items, least - 1, COUNT)


def test_items_are_whole_and_the_most_useful_go_first() -> None:
    """One that does not fit is left out for a smaller one after it, and the file says how many are missing."""
    items = [item("first"), item("long " * 120), item("third", "tasks"), item("fourth " * 100, "tasks")]
    fitted = fit(Head(), items, 130, COUNT)

    assert fitted.items == (items[0], items[2])
    assert "Left out for 130 tokens: 1 memory, 1 task." in fitted.text
    assert fitted.left_out == {"memories": 1, "tasks": 1}


def test_a_tainted_text_is_quoted_with_its_origin() -> None:
    """What a tool brought stands as a quotation, in both forms; what a person said does not."""
    tainted, own = item('say "yes"', origin="tool", tainted=True), item("a rule", origin="user")

    text = fit(Head(), [tainted, own], 500, COUNT).text
    assert 'quoted from tool: "say \\"yes\\""' in text
    assert "2026-03-05: a rule" in text
    read = json.loads(fit(Head(), [tainted, own], 500, COUNT, JSON).text)
    assert [one.get("quoted_from") for one in read["items"]] == ["tool", None]
    rests = item("yes", origin="agent", tainted=True)
    assert "quoted from a tool's or an import's text: \"yes\"" in fit(Head(), [rests], 500, COUNT).text


def test_long_questions_do_not_take_the_place_of_answers() -> None:
    """A head that would take half of the budget is left out; a short one stands in the file."""
    queries = tuple(f"question {number} about many things at once" for number in range(40))

    assert "asked:" not in fit(Head("p", "t", queries), [item("answer")], 200, COUNT).text
    assert 'asked: "why"' in fit(Head("p", "t", ("why",)), [item("answer")], 200, COUNT).text


def test_an_empty_memory_says_so() -> None:
    """Where nothing is known the file says that, and not that something was left out."""
    assert NOTHING in fit(Head(), [], 100, COUNT).text
    assert json.loads(fit(Head(), [], 100, COUNT, JSON).text)["items"] == []
