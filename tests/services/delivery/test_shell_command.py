"""Commands are recognised inside command lines as agents write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.services.delivery.shell_command import (
    command_variants,
    is_commit,
    is_test_run,
    matches_command,
    split_command,
)


@pytest.mark.parametrize(
    ("pattern", "command", "expected"),
    [
        ("npm *", "cd web && npm install", True),
        ("npm *", "npm", True),
        ("npm", "NODE_ENV=test sudo -u me npm i | tee log", True),
        ("npm", "pnpm install", False),
        ("npm", "echo npm", False),
        ("npm", 'bash -lc "npm i"', True),
        ("npm", "cat > run.sh <<'EOF'\nnpm install\nEOF\nls", False),
        ("npm", "git commit -m 'use; npm install'", False),
        ("git push --force", "git push origin main --force", True),
        ("git push --force", "git push --force-with-lease", False),
        ("git push -f", "git push -fu origin main", True),
        ("git commit", "git -C /repo -c user.name=x commit -am x", True),
        ("pytest", "uv run pytest -q", True),
        ("pytest", "python -m pytest tests", True),
        ("pytest", "/opt/bin/pytest tests", True),
        ("sudo", "sudo make install", True),
        ("rm -rf", "rm -r -f build", True),
        ("NPM", "npm install", False),
    ],
)
def test_a_command_pattern_matches_a_part_of_the_command_line(pattern: str, command: str, *, expected: bool) -> None:
    """A pattern is compared with each simple command, without assignments and wrappers."""
    assert matches_command(pattern, command) is expected


@pytest.mark.parametrize(
    "command",
    ["pytest -x", "npm test", "npm run test:unit", "go test ./...", "make test-all", "npx jest", "poetry run python -m pytest",
     "cargo nextest run", "./gradlew test", "python manage.py test"],
)  # fmt: skip
def test_a_test_run_is_recognised(command: str) -> None:
    """The usual ways to run tests are test runs."""
    assert any(is_test_run(command_variants(words)) for words in split_command(command))


@pytest.mark.parametrize(
    "command", ["npm install jest", "cat tests/test_a.py", "git commit -m 'run pytest'", "ls test"]
)
def test_other_commands_are_not_test_runs(command: str) -> None:
    """Naming a test is not running one."""
    assert not any(is_test_run(command_variants(words)) for words in split_command(command))


def test_a_commit_is_recognised_behind_other_commands() -> None:
    """`git add -A && git commit` is a commit; `git log` is not."""
    assert any(is_commit(command_variants(words)) for words in split_command("git add -A && git commit -m 'x'"))
    assert not any(is_commit(command_variants(words)) for words in split_command("git log --grep commit"))


@given(st.text("ab '\"\\\n;|&()<>$`#=-{}", max_size=60))
def test_any_text_is_split(command: str) -> None:
    """No text makes the splitter fail, and no simple command is empty."""
    assert all(words for words in split_command(command))
