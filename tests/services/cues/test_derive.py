"""Cues come by themselves from what a memory names, and only from that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.services.cues.cue import parse_cue
from lorelog.services.cues.derive import MAX_DERIVED_CUES, derive_call_cues, derive_cues


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no, use pnpm not npm", {"command=npm"}),
        ("Always use pnpm.", {"command=npm", "command=yarn", "command=bun"}),
        ("Use uv instead of pip", {"command=pip"}),
        ("never git push --force to main", {"command=git push --force", "command=git push -f"}),
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
        ("don't use console.log", {"symbol=console.log"}),
        ("ECONNREFUSED means that the proxy is down", {"error=ECONNREFUSED"}),
        ("Do not run the e2e tests proactively", {"event=e2e-test"}),
        ("Run the tests with -x", {"event=test"}),
        ("I prefer short commit subjects", {"event=commit"}),
        ("When a test fails, read the log first", {"event=failure"}),
        ("On 2026-12-01 rotate the keys", {"day=2026-12-01"}),
    ],
)
def test_a_cue_is_derived_from_what_is_named(text: str, expected: set[str]) -> None:
    """Files, symbols, commands to avoid, errors, moments and days become cues."""
    assert {str(cue) for cue in derive_cues(text)} == expected


@pytest.mark.parametrize(
    "text",
    [
        "We decided on Redis, because Postgres was slow",
        "Use GitHub Actions, and TypeScript everywhere",
        "Prefer composition over inheritance",
        "never make changes without asking",
        "don't go there",
        "don't find excuses",
        "answer in short sentences and/or bullets",
        "ValueError is fine here",
        "Node.js is installed, see example.com",
        "I don't like python 2",
        "use composition, not inheritance",
        "there is no git:app thing with the release tool",
        "make the login screen blue, not green",
        "don't just make it work",
        "don't run just one of them",
        "you must not touch it",
        "never use `any`",
        "replace the banner with a button",
        "use less words rather than more",
        "write integration tests for every endpoint",
        "don't push back on every idea",
        "bitte kurze Antworten statt langer Texte",
    ],
)
def test_prose_gives_no_cue(text: str) -> None:
    """Product names, everyday words and generic errors are not cues."""
    assert derive_cues(text) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("never run `frob gc --workspace`", {"command=frob gc --workspace"}),
        ("never execute `frobnicate`", {"command=frobnicate"}),
        ("use `just lint` instead of `make lint`", {"command=make lint"}),
        ("use just, not make.", {"command=make"}),
        ("We switched from yarn to pnpm", {"command=yarn"}),
        ("replace `frob build` with `make build`", {"command=frob build"}),
        ("never run `php artisan migrate:fresh`", {"command=php artisan migrate:fresh"}),
        ("don't use make", {"command=make"}),
        ("don't npm install anything", {"command=npm install"}),
        ("never run `kubectl delete ns <name>`", {"command=kubectl delete ns"}),
        ("`docker compose down -v` is forbidden", {"command=docker compose down -v"}),
        ("never push to main", {"command=git push"}),
        ("before you commit, run `make lint`", {"event=commit"}),
        ("`terraform apply` needs the VPN", {"command=terraform apply"}),
        ("bitte pnpm statt npm", {"command=npm"}),
        ("bitte pnpm statt npm verwenden", {"command=npm"}),
        ("niemals `flutter clean` ausführen", {"command=flutter clean"}),
        ("vor jedem Commit die Tests ausführen", {"event=commit", "event=test"}),
        ("when you see `no space left on device`, prune the images", {"error=no space left on device"}),
        ("don't use Store.evict, it blocks", {"symbol=Store.evict"}),
    ],
)
def test_the_command_to_avoid_is_found(text: str, expected: set[str]) -> None:
    """A prohibition or a contrast names the command to avoid, with all its words, and not the one to use instead."""
    assert {str(cue) for cue in derive_cues(text)} == expected


def test_an_error_with_its_message_becomes_a_pattern() -> None:
    """The parts of a message that vary between runs become wildcards."""
    text = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\nValueError: bad port 8080 in config'

    assert "error=ValueError: bad port * in config" in {str(cue) for cue in derive_cues(text)}


@given(st.text(max_size=400))
def test_any_text_gives_valid_cues(text: str) -> None:
    """Every derived cue could have been written by hand, and there are few."""
    cues = derive_cues(text)

    assert len(cues) <= MAX_DERIVED_CUES
    assert all(parse_cue(str(cue)) == cue for cue in cues)


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ("rejected Bash cd web && npm install left-pad --save", ["command=npm install left-pad"]),
        ("rejected Bash git commit -m 'a long text'", ["command=git commit -m"]),
        ("rejected Edit /repo/src/db/pool.py", ["path=src/db/pool.py"]),
        ("rejected Write /elsewhere/notes.py", []),
        ("rejected Bash ls -la", []),
        ("rejected Bash cat a.py | head -3", []),
        ("rejected Read /repo/a.py", []),
        ("rejected plan: Move the pool", []),
        ("I ran `npm install` and edited src/db/pool.py.", []),
        ("interrupted Bash npm install", []),
        ("", []),
    ],
)
def test_the_rejected_call_is_the_cue_of_words_that_name_nothing(context: str, expected: list[str]) -> None:
    """Only a rejected edit or command becomes a cue; what the assistant said does not."""
    assert [str(cue) for cue in derive_call_cues(context, "/repo")] == expected


@given(st.text(max_size=200))
def test_any_context_gives_valid_cues(text: str) -> None:
    """No context of a statement makes the derivation fail."""
    for prefix in ("rejected Bash ", "rejected Edit ", ""):
        assert all(parse_cue(str(cue)) == cue for cue in derive_call_cues(prefix + text, "/repo"))
