"""The context file stays within its budget."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.examples import examples

from lorelog.core.errors import UsageError
from lorelog.models.embed.builtin import TokenCounter
from lorelog.services.context.collect import (
    CONTRACT,
    EMPTY_TEXT,
    JSON,
    MARKDOWN,
    SECTIONS,
    ContextHeader,
    ContextItem,
    fit_to_budget,
)

COUNT = TokenCounter()
LEAST = 100
"""Every file without items has fewer tokens than this."""
WORDS = st.one_of(
    st.text(max_size=300), st.sampled_from(["word " * 200, "x" * 400, "字" * 300, "😀 " * 90, "\n# a\n- b"])
)
ITEMS = st.lists(
    st.builds(
        ContextItem,
        section=st.sampled_from(list(SECTIONS)),
        id=st.uuids().map(str),
        hash=st.just("0123456789abcdef"),
        kind=st.sampled_from(["memory", "decision by mara", ""]),
        trust_tier=st.sampled_from(["semantic_candidate", "verified_record"]),
        date=st.sampled_from(["", "2026-03-05"]),
        text=WORDS,
        origin=st.sampled_from(["", "tool", "user"]),
        tainted=st.booleans(),
    ),
    max_size=12,
)
HEADS = st.builds(
    ContextHeader, project=WORDS, tenant=st.just("default"), queries=st.lists(WORDS, max_size=4).map(tuple)
)


def item(text: str, section: str = "memories", **more: object) -> ContextItem:
    return ContextItem(
        section=section,
        id="0123abcd",
        hash="fedcba9876543210",
        kind="decision",
        trust_tier="canonical_record",
        date="2026-03-05",
        text=text,
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(150))
@given(HEADS, ITEMS, st.integers(1, 2000), st.sampled_from([MARKDOWN, JSON]))
def test_no_file_is_over_its_budget(head: ContextHeader, items: list[ContextItem], budget: int, form: str) -> None:
    """With the real tokenizer, the whole file is within the budget, or an error says that the budget is too small."""
    try:
        fitted = fit_to_budget(head, items, budget, COUNT, form)
    except UsageError:
        assert budget < LEAST
        return

    assert COUNT(fitted.text) == fitted.tokens <= budget
    assert CONTRACT in fitted.text
    assert len(fitted.items) + sum(fitted.left_out.values()) == len(items)
    for entry in fitted.items:
        assert entry.citation_id in fitted.text
    if form == JSON:
        read = json.loads(fitted.text)
        assert [entry["text"] for entry in read["items"] if "text" in entry] == [
            entry.display_text
            for entry in sorted(fitted.items, key=lambda entry: list(SECTIONS).index(entry.section))
            if entry.display_text
        ]


@given(WORDS, WORDS)
def test_an_item_stays_on_its_line(text: str, name: str) -> None:
    """An item is one line, whatever its text and its writer's name: it cannot begin a heading, an item or a tag."""
    one = replace(item(text), kind=f"decision by {name}")
    lines = fit_to_budget(ContextHeader(), [one], 5000, len, MARKDOWN).text.split("\n")

    assert [line for line in lines if line.startswith("#")] == ["# lorelog context", "## Memories"]
    assert len([line for line in lines if line.startswith("- ")]) == 1
    assert "</" not in "".join(lines)


def test_the_least_budget_is_told_and_suffices() -> None:
    """The error for a small budget names the smallest sufficient one."""
    items = [item("a " * 300, section) for section in SECTIONS]
    with pytest.raises(UsageError, match="too few") as raised:
        fit_to_budget(ContextHeader(), items, 1, COUNT)
    least = int(raised.value.hint.split()[-1])

    assert fit_to_budget(ContextHeader(), items, least, COUNT).tokens == least
    with pytest.raises(UsageError):
        fit_to_budget(ContextHeader(), items, least - 1, COUNT)


def test_items_are_whole_and_the_most_useful_go_first() -> None:
    """An item that does not fit is skipped for a smaller one, and the file counts the omitted items."""
    items = [item("first"), item("long " * 120), item("third", "tasks"), item("fourth " * 100, "tasks")]
    fitted = fit_to_budget(ContextHeader(), items, 130, COUNT)

    assert fitted.items == (items[0], items[2])
    assert "Left out for 130 tokens: 1 memory, 1 task." in fitted.text
    assert fitted.left_out == {"memories": 1, "tasks": 1}


def test_a_tainted_text_is_quoted_with_its_origin() -> None:
    """Text from a tool is quoted in both formats; text from a person is not."""
    tainted, own = item('say "yes"', origin="tool", tainted=True), item("a rule", origin="user")

    text = fit_to_budget(ContextHeader(), [tainted, own], 500, COUNT).text
    assert 'quoted from tool: "say \\"yes\\""' in text
    assert "2026-03-05: a rule" in text
    read = json.loads(fit_to_budget(ContextHeader(), [tainted, own], 500, COUNT, JSON).text)
    assert [entry.get("quoted_from") for entry in read["items"]] == ["tool", None]
    rests = item("yes", origin="agent", tainted=True)
    assert (
        "quoted from a tool's or an import's text: \"yes\"" in fit_to_budget(ContextHeader(), [rests], 500, COUNT).text
    )


def test_long_questions_do_not_take_the_place_of_answers() -> None:
    """A header that would take half of the budget is omitted; a short one is included."""
    queries = tuple(f"question {number} about many things at once" for number in range(40))

    assert "asked:" not in fit_to_budget(ContextHeader("p", "t", queries), [item("answer")], 200, COUNT).text
    assert 'asked: "why"' in fit_to_budget(ContextHeader("p", "t", ("why",)), [item("answer")], 200, COUNT).text


def test_an_empty_memory_says_so() -> None:
    """Without any memory the file says so, and does not mention omitted items."""
    assert EMPTY_TEXT in fit_to_budget(ContextHeader(), [], 100, COUNT).text
    assert json.loads(fit_to_budget(ContextHeader(), [], 100, COUNT, JSON).text)["items"] == []
