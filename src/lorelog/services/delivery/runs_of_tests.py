"""Recognises commands that run tests, and among them end-to-end tests. A hook loads this module: it imports nothing.

Three ways to run tests are known: test programs (`pytest`), task runners with a task whose name says so (`make e2e`,
`./gradlew integrationTest`, `npm run test:unit`), and scripts with such a name (`./run-tests.sh`).
"""

from __future__ import annotations

_MAX_TASK_WORDS = 12


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TEST_WORDS = frozenset(
    ("test", "tests", "spec", "specs", "e2e", "dusk", "cypress", "playwright", "terratest", "selenium")
)
_E2E_WORDS = frozenset(
    ("e2e", "end2end", "endtoend", "integration", "acceptance", "functional", "browser", "dusk", "cypress", "playwright",
     "terratest", "selenium", "testcafe", "nightwatch", "wdio", "protractor", "detox", "maestro", "kuttl", "puppeteer")
)  # fmt: skip
_OTHER_WORK = frozenset(
    ("build", "compile", "classes", "clean", "prepare", "setup", "install", "lint", "format", "fmt", "list", "deps", "data",
     "env", "utils", "fixtures", "typecheck", "docs", "report")
)  # fmt: skip
"""Words of tasks around tests that run none: `testClasses`, `lint:tests`."""
_TEST_PROGRAMS = _word_set(
    """
    pytest py.test unittest tox nox jest vitest mocha ava rspec phpunit pest paratest ctest gotestsum ginkgo
    terratest behave behat cucumber cucumber-js robot karma protractor testcafe nightwatch wdio busted bats nose2
    nosetests trial stestr kuttl codecept minitest testem newman xctest xcodetest
    """
)
_SUBCOMMANDS = {
    "playwright": ("test",), "cypress": ("run", "open"), "detox": ("test",), "maestro": ("test",), "molecule": ("test",),
    "go": ("test",), "cargo": ("test", "nextest", "t"), "bun": ("test",), "deno": ("test",), "dotnet": ("test",),
    "swift": ("test",), "flutter": ("test", "drive"), "dart": ("test",), "bazel": ("test",), "zig": ("test",),
    "stack": ("test",), "cabal": ("test",), "lein": ("test",), "helm": ("test",), "forge": ("test",), "meson": ("test",),
    "hatch": ("test",), "npm": ("test", "t", "tst"), "pnpm": ("t",), "xcodebuild": ("test", "test-without-building"),
    "node": ("--test",), "mvn": ("verify", "test"), "mvnw": ("verify", "test"), "make": ("check",), "gmake": ("check",),
    "gradle": ("check",), "gradlew": ("check",), "terraform": ("test",), "tofu": ("test",),
}  # fmt: skip
_TASK_RUNNERS = _word_set(
    """
    make gmake just task rake gradle gradlew mvn mvnw sbt ant nx turbo lerna moon bazel pants buck2 invoke inv poe
    rails artisan manage.py mix composer pnpm yarn mage grunt gulp earthly dagger zig ninja mise
    """
)
"""Programs whose arguments are the names of tasks."""
_SCRIPT_RUNNERS = frozenset(("npm", "pnpm", "yarn", "bun", "deno", "hatch", "pdm", "composer", "pixi", "mise", "lerna"))
"""Programs that run a script of the project after `run`."""
_NO_SCRIPTS = frozenset(
    ("add", "install", "i", "remove", "uninstall", "update", "upgrade", "why", "info", "require", "dlx", "create", "init",
     "new", "generate", "g", "help", "query", "list", "show", "link", "publish", "outdated", "ci", "set", "config")
)  # fmt: skip
"""Subcommands whose arguments are names of packages and the like."""
_SCRIPT_SUFFIXES = (".sh", ".py", ".js", ".mjs", ".ts", ".rb", ".pl", ".ps1", ".bat", ".php")
_EXCLUDING_OPTIONS = frozenset(("-x", "--exclude-task"))


def is_test_run(variants: list[list[str]]) -> bool:
    """Return True if a simple command, given as its variants, runs tests."""
    return any(map(_runs_tests, variants))


def is_e2e_run(variants: list[list[str]]) -> bool:
    """Return True if a simple command that runs tests names end-to-end, integration or acceptance tests."""
    return any(
        not _E2E_WORDS.isdisjoint(name_parts(word)) for variant in variants for word in variant[:_MAX_TASK_WORDS]
    )


def _runs_tests(words: list[str]) -> bool:
    program, arguments = words[0], words[1:_MAX_TASK_WORDS]
    name = program.rpartition("/")[2]
    plain = [word for word in arguments if not word.startswith("-")]
    if name in _TEST_PROGRAMS:
        return not {"--version", "--help", "--collect-only", "--co"} & set(arguments)
    first = plain[0] if plain else ""
    subcommands = _SUBCOMMANDS.get(name, ())
    if first in subcommands or (name == "node" and arguments[:1] == ["--test"]):
        return True
    if name in ("mvn", "mvnw", "make", "gmake", "gradle", "gradlew", "xcodebuild") and set(subcommands) & set(plain):
        return "test" not in _excluded(arguments)
    if name in _SCRIPT_RUNNERS and first in ("run", "run-script"):
        return any(map(_is_test_task, plain[1:2]))
    if name in _TASK_RUNNERS and first not in _NO_SCRIPTS:
        skipped = _excluded(arguments)
        return any(_is_test_task(word) for word in plain if word not in skipped)
    is_script = "/" in program or name.endswith(_SCRIPT_SUFFIXES) or "-" in name or "_" in name
    return is_script and _is_test_task(name)


def _is_test_task(word: str) -> bool:
    """Return True for the name of a task or script that runs tests: `e2eTest`, `test:unit`, `run-tests.sh`."""
    if "=" in word or ("/" in word and not word.startswith(("//", ":"))):
        return False
    parts = name_parts(word)
    return not _TEST_WORDS.isdisjoint(parts) and _OTHER_WORK.isdisjoint(parts)


def _excluded(arguments: list[str]) -> set[str]:
    return {arguments[at + 1] for at, word in enumerate(arguments[:-1]) if word in _EXCLUDING_OPTIONS}


def name_parts(word: str) -> list[str]:
    """Return the words of a name in lower case: `e2eTest`, `run-tests.sh` and `test:unit` have two or three."""
    spaced: list[str] = []
    before = ""
    for char in word[:200]:
        if char.isupper() and (before.islower() or before.isdigit()):
            spaced.append(" ")
        spaced.append(char if char.isalnum() else " ")
        before = char
    joined = "".join(spaced).lower()
    return joined.replace("end to end", "e2e").split()
