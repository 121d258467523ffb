"""Splits a shell command into the simple commands that it runs, without running it, and recognises runs of tests.

`cd api && NODE_ENV=test sudo npm install | tee log` has the simple commands `cd api`, `npm install` and `tee log`;
`echo "npm install"` does not run npm. This is a reader of common shell syntax (quotes, lists, pipes, substitutions,
here-documents, `bash -c`), not a shell: aliases, variables and functions are not expanded. The scan reads each character
once for each level of `bash -c`, and stops after a limit. A hook loads this module: it imports nothing heavy.
"""

from __future__ import annotations

from lorelog.light.wildcard import has_wildcard, matches_text


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


MAX_COMMAND_CHARS = 20_000
MAX_COMMANDS = 500
_MAX_DEPTH = 8
_SHELLS = frozenset(("sh", "bash", "zsh", "dash", "ksh", "fish", "su"))
_PRIVILEGED = frozenset(("sudo", "doas"))
"""Wrappers that a rule may be about: `sudo npm i` is found as itself, too."""
_WRAPPERS = {
    "sudo": "ughpCDRT", "doas": "uC", "env": "uCS", "nice": "n", "timeout": "ks", "xargs": "InPLdEsa", "stdbuf": "ioe",
    "ionice": "cn", "exec": "a", "watch": "n",
    **dict.fromkeys(("time", "command", "builtin", "nohup", "setsid", "caffeinate", "eval"), ""),
    **dict.fromkeys(("then", "do", "else", "elif", "if", "while", "until", "!", "{", "}", "&"), ""),
}  # fmt: skip
"""Words that run the command after them, with the letters of their options that take a value."""
_VALUE_OPTIONS = frozenset(
    ("--user", "--group", "--signal", "--kill-after", "--chdir", "--unset", "--adjustment", "--max-args", "--max-procs")
)
_GIT_VALUE_OPTIONS = frozenset(("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"))
_RUNNERS = (
    ("npx",), ("bunx",), ("pnpx",), ("npm", "exec"), ("pnpm", "exec"), ("pnpm", "dlx"), ("yarn", "exec"), ("yarn", "dlx"),
    ("uv", "run"), ("uvx",), ("pipx", "run"), ("poetry", "run"), ("pipenv", "run"), ("hatch", "run"), ("pdm", "run"),
    ("rye", "run"), ("pixi", "run"), ("bundle", "exec"), ("mise", "exec"), ("direnv", "exec"), ("python", "-m"),
    ("python3", "-m"),
)  # fmt: skip
"""Programs that run another program, which follows."""
_RUNNER_VALUE_OPTIONS = frozenset(
    ("--with", "--group", "--extra", "--python", "-p", "--package", "--project", "--directory", "--env-file", "--from")
)
_STASH_VERBS = word_set("push list show pop apply drop clear branch create store")
_INTERPRETERS = frozenset(("python", "python3", "node", "ruby", "php", "perl", "bash", "sh", "zsh", "tsx", "ts-node"))
_WRITERS = frozenset(("rm", "mv", "tee", "touch", "truncate", "unlink", "shred", "patch"))
_COPIERS = frozenset(("cp", "ln", "install", "rsync"))
"""Programs that write their last argument only."""
_IN_PLACE_EDITORS = frozenset(("sed", "perl"))
_REDIRECTS = frozenset((">", ">>", ">|", "&>", "&>>"))
_SPECIAL = {ord(char): "\0" for char in " \t\r\n;|&()<>`$#'\"\\"}
"""Marks every character that can end a run of plain ones, so that `str.find` skips the run."""


def split_command(command: str) -> list[list[str]]:
    """Return the words of each simple command, without assignments and wrappers in front. Redirections stay as words."""
    found: list[list[str]] = []
    for words in _scan(command[:MAX_COMMAND_CHARS]):
        _add_command(found, words, 0)
    return found[:MAX_COMMANDS]


def command_variants(words: list[str], *, through_runners: bool = True) -> list[list[str]]:
    """Return the ways in which a simple command may be named.

    These are the command itself, with the program's bare name, without Git's global options, with the verb it stands for,
    and, `through_runners`, the commands that runners such as `npx` and interpreters run.
    """
    variants = [words]
    name = program_name(words[0])
    if name and name != words[0]:
        words = [name, *words[1:]]
        variants.append(words)
    if name == "git":
        start = 1
        while start < len(words) and words[start].startswith("-"):
            start += 2 if words[start] in _GIT_VALUE_OPTIONS else 1
        if 1 < start < len(words):
            variants.append([words[0], *words[start:]])
        full = with_verb(variants[-1])
        variants += [full] if full != variants[-1] else []
    if through_runners:
        variants += _run_by_runner(words)
    return variants


def with_verb(words: list[str]) -> list[str]:
    """Return a command with the verb it stands for: `git stash -u` pushes, so a rule about it is not about `git stash list`."""
    if words[:2] != ["git", "stash"] or (len(words) > 2 and words[2] in _STASH_VERBS):
        return words
    return ["git", "stash", "push", *words[3 if words[2:3] == ["save"] else 2 :]]


def program_name(word: str) -> str:
    return word.rpartition("/")[2]


def matches_variant(pattern: str, words: list[str]) -> bool:
    """Return True if a pattern matches one variant of a simple command, case-sensitively.

    With wildcards it must match the whole command; ` *` at the end also stands for nothing. Without, its words must be
    the first words of the command; options of the pattern may come later, and other options are skipped.
    """
    if has_wildcard(pattern):
        line = " ".join(words)
        return matches_text(pattern, line) or (pattern.endswith(" *") and matches_text(pattern[:-2], line))
    wanted = with_verb(pattern.split())
    if wanted == words[: len(wanted)]:
        return True
    options = [word for word in wanted if word.startswith("-")]
    names = [word for word in wanted if not word.startswith("-")]
    plain = [word for word in words if not word.startswith("-")]
    if not names or names != plain[: len(names)]:
        return False
    given: set[str] = set()  # each option with and without its value, and the letters of a combined short one
    for word in words:
        if word.startswith("-"):
            given |= {word, word.partition("=")[0]}
            given |= set() if word.startswith("--") else {f"-{letter}" for letter in word[1:] if letter.isalpha()}
    for option in options:  # `-rf` may also be given as `-r -f`
        letters = option[1:] if len(option) > 2 and option[1:].isalpha() else ""
        if option not in given and not (letters and all(f"-{letter}" in given for letter in letters)):
            return False
    return True


def is_commit(variants: list[list[str]]) -> bool:
    """Return True if a simple command, given as its variants, commits to Git."""
    return any(variant[:2] == ["git", "commit"] for variant in variants)


def written_paths(commands: list[list[str]]) -> list[str]:
    """Return the paths that commands write or delete: redirections, rm, mv, cp, tee, sed -i and the like."""
    paths: list[str] = []
    directory = ""
    for words in commands:
        program = program_name(words[0])
        if program == "cd" and len(words) == 2:
            directory = _join(directory, words[1])
        names = [words[index + 1] for index, word in enumerate(words[:-1]) if word in _REDIRECTS]
        in_place = program in _IN_PLACE_EDITORS and any(word.startswith(("-i", "--in-place")) for word in words[1:])
        if program in _WRITERS or program in _COPIERS or in_place:
            arguments = [word for word in words[1:] if not word.startswith("-") and word not in _REDIRECTS]
            names += arguments[-1:] if program in _COPIERS else arguments
        paths += [_join(directory, name) for name in names]
    return paths


def _join(directory: str, name: str) -> str:
    """Return a path below a folder; a chain of `cd` longer than any path is not followed."""
    if name.startswith(("/", "~")) or not directory or len(directory) > 4096:
        return name
    return f"{directory}/{name}"


def _run_by_runner(words: list[str]) -> list[list[str]]:
    """Return the commands that a runner or an interpreter runs, from the outside in."""
    found: list[list[str]] = []
    while len(found) < _MAX_DEPTH:
        length = next((len(runner) for runner in _RUNNERS if tuple(words[: len(runner)]) == runner), 0)
        is_script = words[0] in _INTERPRETERS and len(words) > 1 and not words[1].startswith("-")
        if not length and not is_script:
            break
        position = length or 1
        while length and position < len(words) and words[position].startswith("-"):
            position += 2 if words[position] in _RUNNER_VALUE_OPTIONS else 1
        if position >= len(words) or not program_name(words[position]):
            break
        words = [program_name(words[position]), *words[position + 1 :]]
        found.append(words)
    return found


def _add_command(found: list[list[str]], words: list[str], depth: int) -> None:
    bare, is_script = _strip_front(words)
    if not bare or len(found) >= MAX_COMMANDS:
        return
    if len(bare) < len(words) and program_name(words[0]) in _PRIVILEGED:
        found.append(words)
    script = (" ".join(bare) if is_script else _inner_script(bare)) if depth < _MAX_DEPTH else ""
    if script:
        for inner in _scan(script):
            _add_command(found, inner, depth + 1)
        return
    found.append(bare)
    if program_name(bare[0]) == "find" and depth < _MAX_DEPTH:
        start = next((number for number, word in enumerate(bare) if word in ("-exec", "-execdir", "-ok")), len(bare))
        _add_command(found, [word for word in bare[start + 1 :] if word not in (";", "+")], depth + 1)


def _strip_front(words: list[str]) -> tuple[list[str], bool]:
    """Return a command without keywords, assignments and wrappers in front, and whether `eval` reads it again."""
    start, is_script = 0, False
    while start < len(words):
        word = words[start]
        name = program_name(word)
        if "=" in word and word.partition("=")[0].isidentifier():  # an assignment
            start += 1
            continue
        if name not in _WRAPPERS or (name == "command" and words[start + 1 : start + 2] in (["-v"], ["-V"])):
            break
        is_script = is_script or name == "eval"
        start += 1
        while start < len(words) and words[start].startswith("-"):
            option = words[start]
            takes_value = option in _VALUE_OPTIONS or (len(option) == 2 and option[1] in _WRAPPERS[name])
            start += 2 if takes_value else 1
        if name == "timeout":
            start += 1
    return (words[start:] if start else words), is_script


def _inner_script(words: list[str]) -> str:
    """Return the script of `bash -c SCRIPT`; empty for other commands."""
    if program_name(words[0]) not in _SHELLS:
        return ""
    for number, word in enumerate(words[1:-1], 1):
        if word.startswith("-") and not word.startswith("--") and "c" in word:  # bash -lc "…"
            return words[number + 1]
    return ""


def _scan(text: str) -> list[list[str]]:
    scanner = _ShellScanner(text)
    scanner.scan("", 0)
    return scanner.commands


class _ShellScanner:
    """Reads a command line once, from special character to special character."""

    def __init__(self, text: str) -> None:
        self.commands: list[list[str]] = []
        self._text = text
        self._marks = text.translate(_SPECIAL)
        self._at = 0
        self._heredocs: list[str] = []

    def scan(self, closer: str, depth: int) -> None:
        """Read commands up to the closing character, or to the end."""
        words: list[str] = []
        word: list[str] = []
        text, size = self._text, len(self._text)
        while self._at < size:
            letter = text[self._at]
            if letter == closer:
                self._at += 1
                break
            if letter in " \t\r":
                _end_word(words, word)
                self._at += 1
            elif letter in ";|\n()" or (letter == "&" and not self._is_redirect_sign()):
                _end_word(words, word)
                words = self._end_command(words)
                self._at += 1
                if letter == "(" and depth < _MAX_DEPTH:
                    self.scan(")", depth + 1)
                elif letter == "\n":
                    self._skip_heredocs()
            elif letter == "#" and not word:
                end = text.find("\n", self._at)
                self._at = size if end < 0 else end
            elif letter in "<>&":
                self._take_redirect(words, word, depth)
            else:
                word.append(self._take_part(letter, depth))
        _end_word(words, word)
        self._end_command(words)

    def _take_part(self, letter: str, depth: int) -> str:
        """Return the next part of a word: a quoted text, a substitution, or plain characters."""
        text, start = self._text, self._at
        if letter == "\\":
            self._at += 2
            return text[start + 1 : self._at].replace("\n", "")
        if letter == "'":
            end = text.find("'", start + 1)
            end = len(text) if end < 0 else end
            self._at = end + 1
            return text[start + 1 : end]
        if letter == '"':
            return self._take_double_quoted(depth)
        if self._take_substitution(letter, depth):
            return "$()"
        end = self._marks.find("\0", start + 1)
        self._at = len(text) if end < 0 else end
        return text[start : self._at]

    def _take_double_quoted(self, depth: int) -> str:
        text, size = self._text, len(self._text)
        self._at += 1
        part: list[str] = []
        while self._at < size:
            letter = text[self._at]
            if letter == '"':
                self._at += 1
                break
            if letter == "\\" and self._at + 1 < size:
                part.append(text[self._at + 1])
                self._at += 2
            elif self._take_substitution(letter, depth):
                part.append("$()")
            else:
                end = self._marks.find("\0", self._at + 1)
                end = size if end < 0 else end
                part.append(text[self._at : end])
                self._at = end
        return "".join(part)

    def _take_substitution(self, letter: str, depth: int) -> bool:
        """Read the commands of `$(…)` or of backquotes; return False if none begins here."""
        if depth >= _MAX_DEPTH or not (letter == "`" or (letter == "$" and self._text.startswith("$(", self._at))):
            return False
        self._at += 1 if letter == "`" else 2
        self.scan("`" if letter == "`" else ")", depth + 1)
        return True

    def _is_redirect_sign(self) -> bool:
        """Return True for the `&` of `2>&1` and `&>`."""
        before = self._text[self._at - 1 : self._at]
        return before in ("<", ">") or self._text[self._at + 1 : self._at + 2] == ">"

    def _take_redirect(self, words: list[str], word: list[str], depth: int) -> None:
        text, start = self._text, self._at
        if word and "".join(word).isdigit():  # the 2 of 2>&1 is not a word
            word.clear()
        _end_word(words, word)
        while self._at < len(text) and text[self._at] in "<>&|" and self._at - start < 3:
            self._at += 1
        sign = text[start : self._at]
        if sign == "<<":
            self._heredocs.append(self._read_delimiter())
        elif text[self._at : self._at + 1] == "(" and depth < _MAX_DEPTH:  # process substitution
            self._at += 1
            self.scan(")", depth + 1)
        else:
            words.append(sign)

    def _read_delimiter(self) -> str:
        text = self._text
        while self._at < len(text) and text[self._at] in " \t-":
            self._at += 1
        start = self._at
        while self._at < len(text) and text[self._at] not in " \t\n;|&<>)":
            self._at += 1
        return text[start : self._at].replace("'", "").replace('"', "").replace("\\", "")

    def _skip_heredocs(self) -> None:
        for delimiter in self._heredocs:
            while self._at < len(self._text):
                end = self._text.find("\n", self._at)
                end = len(self._text) if end < 0 else end
                line = self._text[self._at : end].strip()
                self._at = end + 1
                if line == delimiter:
                    break
        self._heredocs.clear()

    def _end_command(self, words: list[str]) -> list[str]:
        if words and len(self.commands) < MAX_COMMANDS:
            self.commands.append(words)
        return []


def _end_word(words: list[str], word: list[str]) -> None:
    if word:
        words.append("".join(word))
        word.clear()


# -- runs of tests -------------------------------------------------------------------------------------------------------
# Three ways to run tests are known: test programs (`pytest`), task runners with a task whose name says so (`make e2e`,
# `./gradlew integrationTest`, `npm run test:unit`), and scripts with such a name (`./run-tests.sh`).

_MAX_TASK_WORDS = 12


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
_TEST_PROGRAMS = word_set(
    """
    pytest py.test unittest tox nox jest vitest mocha ava rspec phpunit pest paratest ctest gotestsum ginkgo
    terratest behave behat cucumber cucumber-js robot karma protractor testcafe nightwatch wdio busted bats nose2
    nosetests trial stestr kuttl codecept minitest testem newman xctest xcodetest
    """
)
_TEST_SUBCOMMANDS = {
    "playwright": ("test",), "cypress": ("run", "open"), "detox": ("test",), "maestro": ("test",), "molecule": ("test",),
    "go": ("test",), "cargo": ("test", "nextest", "t"), "bun": ("test",), "deno": ("test",), "dotnet": ("test",),
    "swift": ("test",), "flutter": ("test", "drive"), "dart": ("test",), "bazel": ("test",), "zig": ("test",),
    "stack": ("test",), "cabal": ("test",), "lein": ("test",), "helm": ("test",), "forge": ("test",), "meson": ("test",),
    "hatch": ("test",), "npm": ("test", "t", "tst"), "pnpm": ("t",), "xcodebuild": ("test", "test-without-building"),
    "node": ("--test",), "mvn": ("verify", "test"), "mvnw": ("verify", "test"), "make": ("check",), "gmake": ("check",),
    "gradle": ("check",), "gradlew": ("check",), "terraform": ("test",), "tofu": ("test",),
}  # fmt: skip
_TASK_RUNNERS = word_set(
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
    subcommands = _TEST_SUBCOMMANDS.get(name, ())
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
