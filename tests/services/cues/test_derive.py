"""Cues come by themselves from what a memory names, and only from that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.services.cues.cue import parse_cue
from lorelog.services.cues.derive import MAX_DERIVED_CUES, derive_cues


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
