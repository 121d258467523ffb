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
_KEYWORDS = frozenset(("then", "do", "else", "elif", "if", "while", "until", "!", "{", "(", "&"))
_SHELLS = frozenset(("sh", "bash", "zsh", "dash"))
_WRAPPER_VALUES = frozenset(("-u", "-g", "-n", "--user", "--group"))
_RUNNERS = (
    ("npx",), ("bunx",), ("pnpm", "exec"), ("pnpm", "dlx"), ("yarn", "exec"), ("uv", "run"), ("uvx",), ("poetry", "run"),
    ("pipenv", "run"), ("hatch", "run"), ("pdm", "run"), ("rye", "run"), ("bundle", "exec"), ("python", "-m"), ("python3", "-m"),
)  # fmt: skip
"""Programs that run another program, which follows."""
_TEST_RUNS = tuple(
    tuple(line.split())
    for line in (
        "pytest", "py.test", "unittest", "tox", "nox", "jest", "vitest", "mocha", "ava", "rspec", "phpunit", "ctest",
        "playwright test", "cypress run", "npm test", "npm t", "npm run test*", "pnpm test*", "pnpm run test*", "pnpm t",
        "yarn test*", "yarn run test*", "bun test", "bun run test*", "go test", "gotestsum", "cargo test",
        "cargo nextest", "make test*", "make check", "make e2e", "just test*", "task test*", "mvn test", "mvn verify",
        "gradle test", "gradlew test", "dotnet test", "mix test", "swift test", "deno test", "rake test", "rails test",
        "sbt test", "zig build test", "bazel test", "ctest", "nx test", "turbo test", "turbo run test", "npm run e2e*",
        "pnpm e2e*", "pnpm run e2e*", "yarn e2e*", "manage.py test",
    )
)  # fmt: skip


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
    return any(_matches_direct(pattern, variant) for variant in _variants(words))


def command_names(words: list[str]) -> list[str]:
    """Return the program names under which a simple command may be looked up."""
    return [variant[0] for variant in _variants(words)]


def is_test_run(words: list[str]) -> bool:
    """Return True if a simple command runs tests."""
    for variant in _variants(words):
        plain = [word for word in variant if not word.startswith("-")]
        for test in _TEST_RUNS:
            if len(plain) >= len(test) and all(map(_matches_word, test, plain)):
                return True
    return False


def is_commit(words: list[str]) -> bool:
    """Return True if a simple command commits to Git."""
    return matches_words("git commit", words)


def _matches_word(pattern: str, word: str) -> bool:
    return word.startswith(pattern[:-1]) if pattern.endswith("*") else word == pattern


def _variants(words: list[str]) -> list[list[str]]:
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


def _strip_git_options(words: list[str]) -> list[str]:
    rest = words[1:]
    while rest and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] in ("-C", "-c") else rest[1:]
    return ["git", *rest]


def _matches_direct(pattern: str, words: list[str]) -> bool:
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
    return bool(names) and names == plain[: len(names)] and given.issuperset(options)


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


def _scan(text: str) -> list[list[str]]:  # noqa: C901, PLR0912, PLR0915  (one state machine over the characters)
    """Return the words of each part between `;`, `&`, `|`, parentheses and line breaks."""
    parts: list[list[str]] = []
    words: list[str] = []
    word: list[str] = []
    in_word = False
    quote = ""
    heredocs: list[str] = []
    position, size = 0, len(text)

    def end_word() -> None:
        nonlocal in_word
        if in_word:
            words.append("".join(word))
            word.clear()
            in_word = False

    def end_part() -> None:
        end_word()
        if words:
            parts.append(words.copy())
            words.clear()

    while position < size:
        char = text[position]
        position += 1
        if quote:
            if char == quote:
                quote = ""
            elif char == "\\" and quote == '"' and position < size:
                word.append(text[position])
                position += 1
            else:
                word.append(char)
        elif char in "'\"":
            quote, in_word = char, True
        elif char == "\\" and position < size:
            if text[position] != "\n":
                word.append(text[position])
                in_word = True
            position += 1
        elif char == "\n":
            end_part()
            for delimiter in heredocs:
                position = _skip_heredoc(text, position, delimiter)
            heredocs.clear()
        elif char in " \t\r":
            end_word()
        elif char == "<" and text.startswith("<", position) and not text.startswith("<<", position):
            end_word()
            delimiter, position = _read_delimiter(text, position + 1)
            heredocs.append(delimiter)
        elif char == "&" and (text[position - 2 : position - 1] == ">" or text.startswith(">", position)):
            word.append(char)  # a redirection such as 2>&1 or &>file
            in_word = True
        elif char in ";|&()`" or (char == "$" and text.startswith("(", position)):
            end_part()
        elif char == "#" and not in_word:
            end = text.find("\n", position)
            position = size if end < 0 else end
        else:
            word.append(char)
            in_word = True
    end_part()
    return parts


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
