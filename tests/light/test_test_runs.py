"""Runs of tests are recognised by their programs, tasks and scripts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.light.shell_command import command_variants, is_e2e_run, is_test_run, split_command


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
