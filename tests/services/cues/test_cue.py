"""Cues are checked when they are written, and survive the journal."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.errors import UsageError
from lorelog.core.memory import NewMemory
from lorelog.ingest.metadata import parse_anchor
from lorelog.services.cues.cue import parse_cue, parse_cues, read_cues
from lorelog.services.memories.journal import append_entries

NOW = datetime(2026, 3, 5, 14, 30).astimezone()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("path=./src/db/**", "path=src/db/**"),
        ("command=npm  *", "command=npm *"),
        ("symbol=Pool::acquire()", "symbol=Pool.acquire"),
        ("symbol=testing.T", "symbol=testing.T"),
        ("event=commit", "event=commit"),
        ("tool=Linear", "tool=linear"),
        ("day=2026-12-01", "day=2026-12-01"),
        ("error=ECONNREFUSED", "error=ECONNREFUSED"),
        ("topic=database migrations", "topic=database migrations"),
    ],
)
def test_a_cue_has_one_form(text: str, expected: str) -> None:
    """A valid cue is kept in its normal form."""
    assert str(parse_cue(text)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("src/db/**", "is not a cue"),
        ("file=src", "is not a cue"),
        ("path=", "has no value"),
        ("path=**", "matches nearly every file"),
        ("path=**/*.*", "matches nearly every file"),
        ("path=../other/x.py", "leads out of the project"),
        ("command=*", "matches nearly every command"),
        ("command=* install", "matches nearly every command"),
        ("tool=Bash", "names a tool of nearly every task"),
        ("symbol=a b", "cannot be a symbol"),
        ("symbol=x", "cannot be a symbol"),
        ("error=*", "matches nearly every output"),
        ("event=lunch", "does not exist"),
        ("day=tomorrow", "is not a day"),
        ("path=" + "a" * 500, "is not valid"),
        ("path=a\x07bc", "is not valid"),
    ],
)
def test_a_bad_cue_is_refused_with_the_reason(text: str, message: str) -> None:
    """The message says what is wrong, and a hint what to write."""
    with pytest.raises(UsageError, match=message) as caught:
        parse_cue(text)
    assert caught.value.hint


def test_bad_cues_of_a_file_are_skipped() -> None:
    """A journal may contain anything; valid cues in it still count."""
    assert [str(cue) for cue in read_cues(["nonsense", "path=**", "path=src/x.py", "path=src/x.py"])] == [
        "path=src/x.py"
    ]


VALUE = st.text(
    st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_categories=("Cs", "Cc", "Cf", "Zl", "Zp", "Zs")),
    min_size=3,
)


@given(st.lists(st.tuples(st.sampled_from(["path", "command", "topic", "error"]), VALUE), min_size=1, max_size=4))
def test_a_journal_gives_back_the_cues_that_were_written(pairs: list[tuple[str, str]]) -> None:
    """Whatever characters a cue has, it is read from the file as it was written, and ends no comment."""
    import tempfile

    texts = [f"{kind}={value[:150]}" for kind, value in pairs]
    cues = tuple(dict.fromkeys(str(cue) for cue in read_cues(texts)))
    with tempfile.TemporaryDirectory() as folder:
        entry = append_entries(Path(folder), [NewMemory("text", cues=cues)], NOW)[0]
        comment = entry.path.read_text("utf-8").split("\n")[3]

    assert comment.count("-->") == 1
    assert comment.endswith("-->")
    anchor = parse_anchor(comment.removeprefix("<!--").removesuffix("-->"))
    assert anchor is not None
    assert anchor.cues == cues
    assert anchor.origin == "user"


def test_a_memory_has_a_limited_number_of_cues(tmp_path: Path) -> None:
    """More cues than the limit are refused, and nothing is written."""
    cues = parse_cues(f"path=src/file{number}.py" for number in range(21))

    with pytest.raises(UsageError, match="at most 20 cues"):
        append_entries(tmp_path, [NewMemory("text", cues=cues)], NOW)
    assert list(tmp_path.iterdir()) == []
