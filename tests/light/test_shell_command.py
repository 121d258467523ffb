"""Commands, and runs of tests among them, are recognised inside command lines as agents write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.light.shell_command import (
    MAX_COMMAND_CHARS,
    MAX_COMMANDS,
    command_variants,
    is_commit,
    is_e2e_run,
    is_test_run,
    matches_variant,
    split_command,
    written_paths,
)


def matches_command(pattern: str, command: str) -> bool:
    """Return True if a pattern matches a simple command inside a command line, as cues are matched."""
    return any(
        matches_variant(pattern, variant) for words in split_command(command) for variant in command_variants(words)
    )


@pytest.mark.parametrize(
    ("pattern", "command", "expected"),
    [
        # A pattern is compared with each simple command, without assignments and wrappers.
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
        ("git stash", "git -C /repo stash -u", True),
        ("git stash", "git stash list", False),
        ("pytest", "uv run pytest -q", True),
        ("pytest", "python -m pytest tests", True),
        ("pytest", "/opt/bin/pytest tests", True),
        ("sudo", "sudo make install", True),
        ("rm -rf", "rm -r -f build", True),
        ("NPM", "npm install", False),
        # Substitutions, loops, wrappers and scripts are looked into; quotes, comments and here-documents are not.
        ("npm", "echo $(npm root)", True),
        ("npm", 'echo "in $(cd web && npm root)"', True),
        ("npm", "echo '$(npm root)'", False),
        ("npm", "diff <(npm ls) b", True),
        ("npm", "eval 'cd web; npm i'", True),
        ("npm", "timeout -k 5 10 npm i", True),
        ("npm", "sudo --user me npm i", True),
        ("npm", "find . -name package.json | xargs -n 1 npm i", True),
        ("npm", "command -v npm", False),
        ("rm", "find . -name '*.o' -exec rm {} \\;", True),
        ("npm", "for d in a b; do npm i; done", True),
        ("npm", "if true; then npm i; fi", True),
        ("npm", "ls # npm i", False),
        ("npm", "ls 2>&1 | npm i", True),
        ("npm", "cat <<-END | tee x\n\tnpm i\n\tEND\nls", False),
        ("php artisan migrate:fresh", "php artisan migrate:fresh --seed", True),
        ("php artisan migrate:fresh", "php -l a.php", False),
        ("artisan migrate:fresh", "php artisan migrate:fresh", True),
        ("pytest", "uv run --group dev python -m pytest", True),
    ],
)
def test_a_command_pattern_matches_a_part_of_the_command_line(pattern: str, command: str, *, expected: bool) -> None:
    """A pattern is compared with each simple command that a shell would run, and with nothing else."""
    assert matches_command(pattern, command) is expected


def test_runners_are_looked_through_only_on_request() -> None:
    """A guard against `eslint` does not stop `npx eslint`, which a cue for `eslint` finds."""
    words = ["npx", "--yes", "eslint", "."]

    assert command_variants(words)[-1] == ["eslint", "."]
    assert command_variants(words, through_runners=False) == [words]


def test_written_paths_are_found() -> None:
    """Redirections, copies, deletions and edits in place write; reading does not."""
    command = "cd a && cat b > c; cp d e; rm -f f g; sed -i s/x/y/ h; cat i | tee j; grep k l"

    assert written_paths(split_command(command)) == ["a/c", "a/e", "a/f", "a/g", "a/s/x/y/", "a/h", "a/j"]


def test_a_commit_is_recognised_behind_other_commands() -> None:
    """`git add -A && git commit` is a commit; `git log` is not."""
    assert any(is_commit(command_variants(words)) for words in split_command("git add -A && git commit -m 'x'"))
    assert not any(is_commit(command_variants(words)) for words in split_command("git log --grep commit"))


_SHELL_TEXT = st.text("ab '\"\\\n;|&()<>$`#=-{}", max_size=80)
_SHELL_WORDS = st.lists(
    st.sampled_from(["sudo", "eval", "bash", "-c", "find", "-exec", "npx", "git", "-C", "$(", ")", "`", "'", '"', "<<", "x", "\n", ";"]),
    max_size=60,
).map(" ".join)  # fmt: skip


@given(_SHELL_TEXT | _SHELL_WORDS)
def test_any_text_is_split(command: str) -> None:
    """No text makes the reader fail, no simple command is empty, and a limit holds."""
    commands = split_command(command)

    assert all(words and all(variant for variant in command_variants(words)) for words in commands)
    assert len(commands) <= MAX_COMMANDS
    assert isinstance(written_paths(commands), list)


@given(_SHELL_TEXT | _SHELL_WORDS, st.sampled_from([50, 400]))
def test_the_amount_of_words_is_linear(command: str, times: int) -> None:
    """Words are at most as long together as the text, once for each level of scripts, so no text takes long."""
    text = f"{command} " * times

    assert (
        sum(len(word) for words in split_command(text) for word in words) <= 20 * min(len(text), MAX_COMMAND_CHARS) + 20
    )


def kinds(command: str) -> tuple[bool, bool]:
    """Return whether a command runs tests, and whether these are end-to-end tests."""
    runs = [variants for words in split_command(command) if is_test_run(variants := command_variants(words))]
    return bool(runs), any(map(is_e2e_run, runs))


TEST_RUNS = (
    ["pytest -x", "npm test", "npm run test:unit", "go test ./...", "make test-all", "npx jest", "poetry run python -m pytest",
     "cargo nextest run", "./gradlew test", "python manage.py test", "php artisan test", "rake spec", "./run-tests.sh", "tox",
     "nox -s unit", "ctest -j4", "bash scripts/test.sh", "make -C web test", "./gradlew :app:test", "mvn clean verify",
     "bin/rails test", "yarn test", "just tests", "bundle exec rspec spec/models", "go test ./pkg"]
)  # fmt: skip
E2E_RUNS = (
    ["./gradlew e2eTest", "php artisan dusk", "npm run test:e2e", "make e2e", "just e2e", "npx playwright test", "npx cypress run",
     "pytest tests/e2e", "pytest --e2e", "go test -tags e2e ./e2e/...", "cargo test --test e2e", "terratest run", "scripts/e2e.sh",
     "mvn test -Dgroups=integration", "pnpm e2e", "./gradlew integrationTest", "bundle exec rspec spec/e2e",
     "npm run test:end-to-end"]
)  # fmt: skip
OTHERS = (
    ["npm install jest", "cat tests/test_a.py", "git commit -m 'run pytest'", "ls test", "test -f a", "[ -f test ]",
     "./gradlew build -x test", "./gradlew testClasses", "cargo check", "npm run lint:tests", "go build ./test", "pytest --version",
     "yarn add cypress", "git checkout e2e", "make tests/a.o", "ls e2e", "mkdir -p e2e/test", "cargo add test-case"]
)  # fmt: skip


@pytest.mark.parametrize("command", [*TEST_RUNS, *E2E_RUNS, *OTHERS])
def test_a_test_run_is_recognised(command: str) -> None:
    """Tests are run in the usual ways; a task, a folder or an option tells end-to-end ones; naming is not running."""
    assert kinds(command) == (command not in OTHERS, command in E2E_RUNS)


@given(st.lists(st.text(max_size=12), min_size=1, max_size=8))
def test_any_words_are_classified(words: list[str]) -> None:
    """No words make the recognition fail."""
    assert is_test_run([words]) in (True, False)
    assert is_e2e_run([words]) in (True, False)
