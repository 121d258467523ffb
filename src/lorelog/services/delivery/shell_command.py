"""Splits a shell command into its simple commands, without running or expanding anything.

`cd api && NODE_ENV=test sudo npm install | tee log` has the simple commands `cd api`, `npm install` and `tee log`.
Quoted text stays one word, here-documents are skipped, and assignments, `sudo` and the like are removed from the front.
The scan reads each character once and stops after a limit. A hook loads this module: it imports nothing heavy.
"""

from __future__ import annotations

from lorelog.services.delivery.wildcard import has_wildcard, matches_text

MAX_COMMAND_CHARS = 8_000
_MAX_COMMANDS = 64
_MAX_DEPTH = 2
_WRAPPERS = frozenset(("sudo", "env", "time", "nohup", "exec", "command", "builtin", "nice", "doas", "stdbuf"))
_PRIVILEGED = frozenset(("sudo", "doas"))
"""Wrappers that a rule may be about: `sudo npm i` is found as itself, too."""
_PLAIN_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@+%~")
_KEYWORDS = frozenset(("then", "do", "else", "elif", "if", "while", "until", "!", "{", "(", "&"))
_SHELLS = frozenset(("sh", "bash", "zsh", "dash"))
_WRAPPER_VALUES = frozenset(("-u", "-g", "-n", "--user", "--group"))
_RUNNERS = (
    ("npx",), ("bunx",), ("pnpm", "exec"), ("pnpm", "dlx"), ("yarn", "exec"), ("uv", "run"), ("uvx",), ("poetry", "run"),
    ("pipenv", "run"), ("hatch", "run"), ("pdm", "run"), ("rye", "run"), ("bundle", "exec"), ("python", "-m"), ("python3", "-m"),
)  # fmt: skip
"""Programs that run another program, which follows."""
_TEST_COMMANDS = """
    pytest; py.test; unittest; tox; nox; jest; vitest; mocha; ava; rspec; phpunit; ctest; playwright test; cypress
    run; npm test; npm t; npm run test*; pnpm test*; pnpm run test*; pnpm t; yarn test*; yarn run test*; bun test;
    bun run test*; go test; gotestsum; cargo test; cargo nextest; make test*; make check; make e2e; just test*; task
    test*; mvn test; mvn verify; gradle test; gradlew test; dotnet test; mix test; swift test; deno test; rake test;
    rails test; sbt test; zig build test; bazel test; nx test; turbo test; turbo run test; npm run e2e*; pnpm e2e*;
    pnpm run e2e*; yarn e2e*; manage.py test
"""
_TEST_RUNS: dict[str, list[list[str]]] = {}
for _command in _TEST_COMMANDS.split(";"):
    _name, *_rest = _command.split()
    _TEST_RUNS.setdefault(_name, []).append(_rest)


def split_command(command: str, depth: int = 0) -> list[list[str]]:
    """Return the words of each simple command, without assignments and wrappers in front."""
    commands: list[list[str]] = []
    for words in _scan(command[:MAX_COMMAND_CHARS]):
        bare = _strip_front(words)
        if not bare:
            continue
        if bare is not words and words[0].rpartition("/")[2] in _PRIVILEGED:
            commands.append(words)
        script = _inner_script(bare) if depth < _MAX_DEPTH else ""
        commands += split_command(script, depth + 1) if script else [bare]
        if len(commands) >= _MAX_COMMANDS:
            break
    return commands[:_MAX_COMMANDS]


def matches_command(pattern: str, command: str) -> bool:
    """Return True if a pattern matches a simple command inside a command line, case-sensitively.

    With wildcards it must match the whole simple command; ` *` at the end also stands for nothing. Without, its words
    must be the first words of the command; options of the pattern may come later, and other options are skipped.
    """
    return any(matches_words(pattern, words) for words in split_command(command))


def matches_words(pattern: str, words: list[str]) -> bool:
    """Return True if a pattern matches a simple command, directly or behind a runner such as `npx`."""
    return any(matches_variant(pattern, variant) for variant in command_variants(words))


def command_variants(words: list[str]) -> list[list[str]]:
    """Return the command itself, with the program's bare name, and the commands that it runs."""
    variants = [words]
    name = words[0].rpartition("/")[2]
    if name and name != words[0]:
        words = [name, *words[1:]]
        variants.append(words)
    if name == "git":
        words = _strip_git_options(words)
        variants.append(words)
    for runner in _RUNNERS:
        if tuple(words[: len(runner)]) == runner:
            rest = words[len(runner) :]
            while rest and rest[0].startswith("-"):
                rest = rest[1:]
            if rest:
                variants.append(rest)
                if rest[0] in ("python", "python3") and rest[1:2] == ["-m"] and rest[2:]:
                    variants.append(rest[2:])
    if name in ("python", "python3", "node", "ruby") and len(words) > 1 and not words[1].startswith("-"):
        variants.append([words[1].rpartition("/")[2], *words[2:]])
    return variants


def matches_variant(pattern: str, words: list[str]) -> bool:
    """Return True if a pattern matches one variant of a simple command."""
    if has_wildcard(pattern):
        line = " ".join(words)
        return matches_text(pattern, line) or (pattern.endswith(" *") and matches_text(pattern[:-2], line))
    wanted = pattern.split()
    if wanted == words[: len(wanted)]:
        return True
    options = [word for word in wanted if word.startswith("-")]
    names = [word for word in wanted if not word.startswith("-")]
    plain = [word for word in words if not word.startswith("-")]
    given = {option for word in words if word.startswith("-") for option in _option_forms(word)}
    return bool(names) and names == plain[: len(names)] and all(_is_given(option, given) for option in options)


def is_test_run(variants: list[list[str]]) -> bool:
    """Return True if a simple command, given as its variants, runs tests."""
    for variant in variants:
        tests = _TEST_RUNS.get(variant[0])
        if tests is not None:
            plain = [word for word in variant[1:] if not word.startswith("-")]
            if any(len(plain) >= len(test) and all(map(_matches_word, test, plain)) for test in tests):
                return True
    return False


def is_commit(variants: list[list[str]]) -> bool:
    """Return True if a simple command, given as its variants, commits to Git."""
    return any(variant[:2] == ["git", "commit"] for variant in variants)


def _matches_word(pattern: str, word: str) -> bool:
    return word.startswith(pattern[:-1]) if pattern.endswith("*") else word == pattern


def _strip_git_options(words: list[str]) -> list[str]:
    rest = words[1:]
    while rest and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] in ("-C", "-c") else rest[1:]
    return ["git", *rest]


def _is_given(option: str, given: set[str]) -> bool:
    """Return True if a command has an option; `-rf` may also be given as `-r -f`."""
    if option in given:
        return True
    letters = option[1:]
    return len(letters) > 1 and letters.isalpha() and all(f"-{letter}" in given for letter in letters)


def _option_forms(word: str) -> list[str]:
    """Return an option with and without its value, and the letters of a combined short option."""
    forms = [word, word.partition("=")[0]]
    if not word.startswith("--"):
        forms += [f"-{letter}" for letter in word[1:] if letter.isalpha()]
    return forms


def _strip_front(words: list[str]) -> list[str]:
    """Return a command without keywords, assignments and wrappers in front."""
    position, wrapped = 0, False
    while position < len(words):
        word = words[position]
        name = word.rpartition("/")[2]
        if word in _KEYWORDS or _is_assignment(word):
            position += 1
        elif name in _WRAPPERS:
            wrapped = True
            position += 1
        elif name == "timeout" and len(words) > position + 2:
            position += 2
            wrapped = True
        elif wrapped and word.startswith("-"):
            position += 2 if word in _WRAPPER_VALUES else 1
        else:
            break
    return words[position:] if position else words


def _is_assignment(word: str) -> bool:
    name, separator, _ = word.partition("=")
    return bool(separator) and name.isidentifier()


def _inner_script(words: list[str]) -> str:
    """Return the script of `bash -c SCRIPT`; empty for other commands."""
    if words[0].rpartition("/")[2] not in _SHELLS:
        return ""
    for number, word in enumerate(words[1:-1], 1):
        if word.startswith("-") and not word.startswith("--") and word.endswith("c"):
            return words[number + 1]
    return ""


def _scan(text: str) -> list[list[str]]:
    """Return the words of each part between `;`, `&`, `|`, parentheses and line breaks."""
    return _CommandScanner(text).scan()


class _CommandScanner:
    """Reads a command line once, character by character."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._parts: list[list[str]] = []
        self._words: list[str] = []
        self._word: list[str] | None = None
        self._heredocs: list[str] = []

    def scan(self) -> list[list[str]]:
        text, size = self._text, len(self._text)
        while self._position < size:
            char = text[self._position]
            self._position += 1
            if char in _PLAIN_CHARS:
                self._add(char)
            elif char in "'\"":
                self._read_quoted(char)
            elif char == "\\":
                self._read_escaped()
            elif char in " \t\r":
                self._end_word()
            elif char == "\n":
                self._end_line()
            else:
                self._read_special(char)
        self._end_part()
        return self._parts

    def _add(self, text: str) -> None:
        if self._word is None:
            self._word = []
        self._word.append(text)

    def _end_word(self) -> None:
        if self._word is not None:
            self._words.append("".join(self._word))
            self._word = None

    def _end_part(self) -> None:
        self._end_word()
        if self._words:
            self._parts.append(self._words)
            self._words = []

    def _end_line(self) -> None:
        self._end_part()
        for delimiter in self._heredocs:
            self._position = _skip_heredoc(self._text, self._position, delimiter)
        self._heredocs = []

    def _read_quoted(self, quote: str) -> None:
        self._add("")
        text, size = self._text, len(self._text)
        while self._position < size and text[self._position] != quote:
            if text[self._position] == "\\" and quote == '"':
                self._position += 1
            self._add(text[self._position : self._position + 1])
            self._position += 1
        self._position += 1

    def _read_escaped(self) -> None:
        char = self._text[self._position : self._position + 1]
        self._position += 1
        if char != "\n":  # otherwise the line goes on
            self._add(char)

    def _read_special(self, char: str) -> None:
        text, position = self._text, self._position
        if char == "<" and text.startswith("<", position) and not text.startswith("<<", position):
            self._end_word()
            delimiter, self._position = _read_delimiter(text, position + 1)
            self._heredocs.append(delimiter)
        elif char == "&" and (text[position - 2 : position - 1] == ">" or text.startswith(">", position)):
            self._add(char)  # a redirection such as 2>&1 or &>file
        elif char in ";|&()`" or (char == "$" and text.startswith("(", position)):
            self._end_part()
        elif char == "#" and self._word is None:
            end = text.find("\n", position)
            self._position = len(text) if end < 0 else end
        else:
            self._add(char)


def _read_delimiter(text: str, position: int) -> tuple[str, int]:
    """Return the word that ends a here-document, and the position behind it."""
    end = position + 1 if text.startswith("-", position) else position
    while end < len(text) and text[end] in " \t":
        end += 1
    start = end
    while end < len(text) and text[end] not in " \t\n;|&)<>":
        end += 1
    return text[start:end].strip("'\"\\"), end


def _skip_heredoc(text: str, position: int, delimiter: str) -> int:
    while position < len(text):
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        line = text[position:end].strip()
        position = end + 1
        if line == delimiter:
            break
    return position
