"""Values that were recognised once are removed everywhere, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.ingest.redaction.redact import known_value_redactor, redact, removed_values


def redact_text(text: str) -> str:
    return redact(text).text


def test_a_value_is_known_from_another_text() -> None:
    """A password that one text names is removed from a text that does not."""
    clean = known_value_redactor(["db password: Zebra-88-lamp"], redact_text)

    assert clean("psql said: Zebra-88-lamp is wrong") == "psql said: [redacted:password] is wrong"
    assert clean("Zebra-88-lamps, aZebra-88-lamp") == "Zebra-88-lamps, aZebra-88-lamp"


@pytest.mark.parametrize(
    "text",
    ["password: changeme", "password=1234", "password: hunter", "<private>the plan of the pier</private>", "no secret"],
)
def test_ordinary_words_stay(text: str) -> None:
    """Placeholders, short words, numbers and private passages are not looked for elsewhere."""
    other = "changeme 1234 hunter: the plan of the pier; no secret"

    assert known_value_redactor([text], redact_text)(other) == other


@given(
    parts=st.lists(st.text("ab: =\n", max_size=8), min_size=1, max_size=5),
    value=st.text("abx79:", min_size=1, max_size=12),
)
def test_removed_values_are_exact(parts: list[str], value: str) -> None:
    """Every value that is reported stood in the text, between the passages that were kept."""
    text, redacted = value.join(parts), "[redacted:custom]".join(parts)

    assert {found for found, _ in removed_values(text, redacted)} <= {value.strip("\"'`")}


@given(text=st.text(max_size=80), redacted=st.text("ab[redacted:x]", max_size=60))
def test_any_result_can_be_compared(text: str, redacted: str) -> None:
    """A function that does not redact as ours does gives no values or parts of the text, and never an error."""
    assert all(value in text for value, _ in removed_values(text, redacted))
