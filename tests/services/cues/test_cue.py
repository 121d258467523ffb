"""Cues are checked when they are written, survive the journal, and come by themselves only from what a memory names."""

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
from lorelog.services.cues.derive import MAX_DERIVED_CUES, derive_cues
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Files, symbols, commands, errors and days become cues.
        ("no, use pnpm not npm", {"command=npm"}),
        ("Always use pnpm.", {"command=npm", "command=yarn", "command=bun"}),
        ("Use uv instead of pip", {"command=pip"}),
        ("never git push --force to main", {"command=git push --force"}),
        ("stop running npm install every time", {"command=npm install"}),
        ("never use `git add -A`", {"command=git add -A"}),
        ("never use sudo", {"command=sudo"}),
        (
            "In `src/db/pool.py` close `ConnectionPool.acquire()`",
            {"path=src/db/pool.py", "symbol=ConnectionPool.acquire"},
        ),
        ("Do not touch generated files in `src/gen/`", {"path=src/gen"}),
        ("don't edit package.json by hand", {"path=package.json"}),
        ("files in `migrations/*.sql` are append-only", {"path=migrations/*.sql"}),
        ("prefer early returns in `parse_config`", {"symbol=parse_config"}),
        ("ECONNREFUSED means that the proxy is down", {"error=ECONNREFUSED"}),
        ("On 2026-12-01 rotate the keys", {"day=2026-12-01"}),
        # Product names, everyday words and generic errors are not cues.
        ("We decided on Redis, because Postgres was slow", set()),
        ("Use GitHub Actions, and TypeScript everywhere", set()),
        ("Prefer composition over inheritance", set()),
        ("never make changes without asking", set()),
        ("don't go there", set()),
        ("don't find excuses", set()),
        ("answer in short sentences and/or bullets", set()),
        ("ValueError is fine here", set()),
        ("Node.js is installed, see example.com", set()),
        ("I don't like python 2", set()),
        ("use composition, not inheritance", set()),
        ("there is no git:app thing with the release tool", set()),
        ("make the login screen blue, not green", set()),
        ("don't just make it work", set()),
        ("don't run just one of them", set()),
        ("you must not touch it", set()),
        ("never use `any`", set()),
        ("don't use make, and never commit or push", set()),
        ("do not run the e2e tests", set()),
        ("run the linter with cargo clippy", set()),
        ("replace the banner with a button", set()),
        ("use less words rather than more", set()),
        ("write integration tests for every endpoint", set()),
        ("don't push back on every idea", set()),
        ("bitte kurze Antworten statt langer Texte", set()),
        # A prohibition or a contrast names the command to avoid, with all its words, and not the one to use instead.
        ("never run `frob gc --workspace`", {"command=frob gc --workspace"}),
        ("use `just lint` instead of `make lint`", {"command=make lint"}),
        ("never use npm", {"command=npm"}),
        ("don\u2019t use pip; use `uv`", {"command=pip"}),
        ("run `make lint` before you push", {"command=make lint"}),
        ("use pnpm install, please", {"command=npm", "command=yarn", "command=bun"}),
        ("We switched from yarn to pnpm", {"command=yarn"}),
        ("replace `frob build` with `make build`", {"command=frob build"}),
        ("never run `php artisan migrate:fresh`", {"command=php artisan migrate:fresh"}),
        ("don't npm install anything", {"command=npm install"}),
        ("never run `kubectl delete ns <name>`", {"command=kubectl delete ns"}),
        ("`docker compose down -v` is forbidden", {"command=docker compose down -v"}),
        ("`terraform apply` needs the VPN", {"command=terraform apply"}),
        ("bitte pnpm statt npm", {"command=npm"}),
        ("bitte pnpm statt npm verwenden", {"command=npm"}),
        ("niemals `flutter clean` ausführen", {"command=flutter clean"}),
    ],
)
def test_cues_are_derived_from_what_is_named(text: str, expected: set[str]) -> None:
    """Text gives a cue for each thing that it names, for the command to avoid, and no others."""
    assert {str(cue) for cue in derive_cues(text)} == expected


@given(st.text(max_size=400))
def test_any_text_gives_valid_cues(text: str) -> None:
    """Every derived cue could have been written by hand, and there are few."""
    cues = derive_cues(text)

    assert len(cues) <= MAX_DERIVED_CUES
    assert all(parse_cue(str(cue)) == cue for cue in cues)
