"""Derives cues from the text of a memory: the files, symbols, commands, errors, moments and days that it names.

Precision comes first: a memory shown at the wrong moment costs tokens and trust. So symbols must be distinctive names,
bare names of everyday programs count only where the text says to avoid them, and generic error types need a message.
For "use pnpm, not npm" the moment that matters is the one when `npm` is about to run: the cue is the command to avoid,
and for "use pnpm" alone the other programs of the same purpose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from lorelog.ingest.tracebacks.finder import find_traces
from lorelog.ingest.tracebacks.signature import bare_type, normalize_message
from lorelog.services.delivery.cue import Cue, read_cues
from lorelog.services.freshness.mentions import MentionKind, find_mentions

MAX_DERIVED_CUES = 12
MAX_TEXT_CHARS = 4_000
_MIN_PROSE_SYMBOL, _MIN_CODE_SYMBOL = 7, 5
_MAX_MESSAGE_CHARS = 100
_MAX_COMMAND_WORDS = 4


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


TOOL_FAMILIES: tuple[frozenset[str], ...] = tuple(
    frozenset(line.split())
    for line in (
        "npm yarn pnpm bun",
        "pip pip3 uv poetry pipenv conda",
        "jest vitest mocha",
        "docker podman",
        "webpack vite parcel",
        "eslint biome",
        "mvn gradle",
        "grep rg ag",
        "flake8 pylint ruff",
    )
)
"""Programs that are used in place of each other."""
_FAMILY_OF = {name: family for family in TOOL_FAMILIES for name in family}
_PROGRAMS = word_set(
    """
    git gh docker podman kubectl helm terraform aws gcloud az ssh scp rsync curl wget make just task cmake ninja npm
    npx pnpm yarn bun deno node tsc eslint prettier biome jest vitest mocha cypress playwright python python3 pip pip3
    uv uvx poetry pipenv conda pytest tox nox ruff black isort mypy flake8 pylint alembic django-admin flask celery go
    gofmt golangci-lint cargo rustc rustup clippy mvn gradle gradlew java javac sbt dotnet nuget ruby bundle rake rails
    rspec gem php composer artisan phpunit psql mysql sqlite3 redis-cli mongo mongosh rm mv cp sed awk grep rg find
    chmod chown kill pkill sudo systemctl service brew apt apt-get yum dnf vercel netlify heroku fly wrangler supabase
    prisma turbo nx lerna webpack vite bash sh zsh mix swift xcodebuild bazel ansible ansible-playbook vagrant
    pre-commit hatch twine lorelog
    """
)
_PROGRAM = r"(?:\./)?[a-z][a-z0-9_.-]*"
_WORDS_AFTER = r"(?: (?:-{1,2}[A-Za-z][\w-]*|[a-z][\w:.@/-]*))"
_AVOID = re.compile(
    r"\b(?:don['\u2019]?t|do not|never|stop|avoid|no more|not to|must not|should not|shouldn['\u2019]t|instead of|rather than|"
    r"not|over|replaces|without)\s+(?:ever\s+)?(?:(?:use|using|run|running|call|calling|execute|executing|do|doing)\s+)?"
    rf"(?:the |any )?(`?{_PROGRAM}{_WORDS_AFTER}{{0,3}})",
    re.IGNORECASE,
)
_CHOOSE = re.compile(
    rf"\b(?:use|uses|using|prefer|switch(?:ed)? to|migrated? to|moved? to)\s+`?({_PROGRAM})`?(?![\w-])", re.IGNORECASE
)
_SPAN = re.compile(r"(?<!`)`([^`\n]{2,120})`(?!`)")
_STOP_WORDS = word_set(
    """
    the a an in on for to at of with and or when as if by from into it this that unless until because since is are was
    be please ever again anymore directly here there any all every without before after while but so instead only
    always locally manually yourself files file code changes tests test commands command anything something
    """
)
_COMMIT = re.compile(
    r"\b(?:before|prior to|when(?:ever)?|while|on|for|in|after)\s+(?:(?:you|we|I)\s+)?(?:(?:every|each|any|a|the)\s+)?(?:git\s+)?commit(?:s|ting)?\b"
    r"|\bcommit (?:messages?|subjects?|title|body|trailers?)\b"
    r"|\b(?:never|don['\u2019]?t|do not|stop|always|only)\s+(?:\w+\s+)?commit(?:ting)?\b|\bco-authored-by\b|\bsign(?:ed)?-off\b",
    re.IGNORECASE,
)
_TEST = re.compile(
    r"\b(?:run|runs|running|execute|executing|start|starting)\s+(?:[\w-]+\s+){0,3}?tests?\b(?!\w)"
    r"|\bbefore\s+(?:(?:you|we)\s+)?test(?:ing)?\b|\btests?\s+(?:run|suite)s?\b",
    re.IGNORECASE,
)
_FAILURE = re.compile(
    r"\b(?:when(?:ever)?|if|after|once)\s+(?:(?:a|the|any|your|some)\s+)?(?:tests?|builds?|commands?|calls?|ci|pipeline|something|it)\s+"
    r"(?:fails?|failed|breaks?|is red|goes red)\b|\bafter\s+(?:a|any|each|every)\s+(?:failure|failed\s+\w+)\b",
    re.IGNORECASE,
)
_SESSION = re.compile(
    r"\bat (?:the )?(?:start|beginning) of (?:a|each|every|the) session\b|\bwhen (?:a|the) session (?:starts|begins)\b",
    re.IGNORECASE,
)
_DAY = re.compile(r"\b(?:on|from|by|after|starting|until|due)\s+(\d{4}-\d\d-\d\d)\b", re.IGNORECASE)
_ERROR_NAME = re.compile(
    r"\b(?:[A-Z][\w.]*(?:Error|Exception|Warning|Fault)|E[A-Z]{4,}|TS\d{4}|E\d{4}|SIG(?:KILL|SEGV|ABRT|TERM))\b"
)
_GENERIC_ERRORS = word_set(
    """
    ValueError TypeError KeyError IndexError AttributeError RuntimeError AssertionError ImportError NameError OSError
    IOError SyntaxError ReferenceError RangeError NullPointerException IllegalStateException IllegalArgumentException
    RuntimeException Exception Error DeprecationWarning UserWarning NotImplementedError StopIteration
    ModuleNotFoundError FileNotFoundError
    """
)
_PRODUCT_NAMES = word_set(
    """
    GitHub GitLab TypeScript JavaScript PostgreSQL MySQL SQLite GraphQL OpenAI ChatGPT macOS iOS iPhone iPad VSCode
    WebSocket WebSockets NextJS NodeJS DynamoDB MongoDB BigQuery CloudFront CloudFlare CloudWatch CircleCI DevOps
    DevTools FastAPI JetBrains IntelliJ LaTeX LinkedIn MariaDB OAuth OpenAPI OpenSSL PayPal PowerShell PyPI PyTorch
    README RabbitMQ RxJS ScyllaDB StackOverflow SwiftUI TensorFlow ToDo TODO WordPress YouTube eBPF jQuery kHz npmjs
    numPy tvOS LangChain OpenCode OpenClaw ClickHouse JetStream ArgoCD GitOps HashiCorp NumPy SciPy GitHubActions
    DockerHub BitBucket AppStore
    """
)
_COMMON_CODE = word_set(
    """
    os.path e.g i.e process.env node_modules package_json __init__ utf_8 snake_case camelCase PascalCase kebab_case
    user_id created_at updated_at file_name file_path README_md UPPER_CASE SCREAMING_SNAKE_CASE
    """
)
_BROAD_FILES = word_set(
    """
    __init__.py index.ts index.js index.tsx index.jsx main.py main.go main.rs main.ts mod.rs lib.rs app.py setup.py
    README.md README index.html index.md conftest.py utils.py utils.ts types.ts models.py views.py
    """
)
_BROAD_FOLDERS = word_set(
    """
    src lib app apps packages pkg code source sources dist build and/or
    """
)
_FILE_SUFFIXES = word_set(
    """
    py pyi ts tsx js jsx mjs cjs go rs java kt kts rb php c h cc cpp hpp cs swift scala sql sh bash zsh md mdx rst txt
    json yaml yml toml ini cfg conf lock xml html css scss less vue svelte proto graphql tf env ipynb gradle cmake mk
    lua ex exs erl hs ml clj dart jl ps1 bat csv tsv svg
    """
)
_FOLDER = re.compile(r"(?<![\w/.@`-])([\w.-]{3,40}/)(?=[\s.,;:)]|$)")


@lru_cache(maxsize=4096)
def derive_cues(text: str) -> tuple[Cue, ...]:
    """Return the cues of a memory's text: the commands to avoid first, at most `MAX_DERIVED_CUES`."""
    text = text[:MAX_TEXT_CHARS]
    candidates = [
        *(f"command={command}" for command in _find_commands(text)),
        *(f"path={path}" for path in _find_paths(text)),
        *(f"error={error}" for error in _find_errors(text)),
        *(f"event={event}" for event in _find_events(text)),
        *(f"day={day}" for day in _DAY.findall(text)),
        *(f"symbol={symbol}" for symbol in _find_symbols(text)),
    ]
    return read_cues(candidates)[:MAX_DERIVED_CUES]


def avoided_commands(text: str) -> tuple[str, ...]:
    """Return the commands that a text says not to run."""
    return tuple(dict.fromkeys(command for match in _AVOID.finditer(text) if (command := _as_command(match[1]))))


def chosen_programs(text: str) -> tuple[str, ...]:
    """Return the programs of a known purpose that a text says to use."""
    avoided = {command.split()[0] for command in avoided_commands(text)}
    names = (match[1].lower().rstrip(".") for match in _CHOOSE.finditer(text))
    return tuple(dict.fromkeys(name for name in names if name in _FAMILY_OF and name not in avoided))


def _find_commands(text: str) -> Iterator[str]:
    avoided = avoided_commands(text)
    for command in avoided:
        yield command
        if command.endswith(" --force") and command.startswith("git "):
            yield command.removesuffix("--force") + "-f"
    chosen = chosen_programs(text)
    named = {command.split()[0] for command in avoided}
    for name in chosen:
        if not named & _FAMILY_OF[name]:
            yield from sorted(_FAMILY_OF[name] - set(chosen))
    for span in _SPAN.findall(text):
        words = span.removeprefix("$ ").split()
        if len(words) >= 2 and words[0].removeprefix("./") in _PROGRAMS and not span.startswith("-"):
            yield " ".join(words[:_MAX_COMMAND_WORDS])


def _as_command(text: str) -> str:
    """Return the command in front of a text, such as `git push --force` of `git push --force to main`."""
    in_code = text.startswith("`")
    words = text.lstrip("`").rstrip(".").split()
    if words[0].removeprefix("./").lower() not in _PROGRAMS:
        return ""
    words[0] = words[0].lower()
    kept = [words[0]]
    for word in words[1:_MAX_COMMAND_WORDS]:
        if word.lower() in _STOP_WORDS or word.rstrip(".,").lower() in _PROGRAMS:
            break
        kept.append(word.rstrip(".,"))
    return "" if words[0] in _AMBIGUOUS_PROGRAMS and not in_code else " ".join(kept)


_AMBIGUOUS_PROGRAMS = word_set(
    """
    go make just task find kill service sh node fly mix black gem swift helm rake java ruby python php
    """
)
"""Programs whose names are also words or languages: outside of code they are not taken for commands."""


def _find_paths(text: str) -> Iterator[str]:
    for mention in find_mentions(text):
        path = mention.text
        if mention.kind is not MentionKind.PATH or path.startswith("../"):
            continue
        name = path.rpartition("/")[2]
        if "/" in path.strip("/"):
            if path.strip("/") not in _BROAD_FOLDERS and not path.replace("/", "").isdigit():
                yield path
        elif name not in _BROAD_FILES and _is_file_name(name, text):
            yield name
    for folder in _FOLDER.findall(text):
        if folder.rstrip("/") not in _BROAD_FOLDERS:
            yield folder
    for span in _SPAN.findall(text):
        if (re.fullmatch(r"[\w.@-]+/", span) and span.rstrip("/") not in _BROAD_FOLDERS) or (
            re.fullmatch(r"[\w.@*?/-]*[*?][\w.@*?/-]*", span) and ("/" in span or span.startswith("*."))
        ):
            yield span


def _is_file_name(name: str, text: str) -> bool:
    """Return True for a name with a suffix of a file: `pool.py`, but neither `example.com` nor Node.js."""
    stem, _, suffix = name.rpartition(".")
    if not stem:
        return name in ("Makefile", "Dockerfile", "Justfile", "Procfile")
    return suffix.lower() in _FILE_SUFFIXES and not (name[0].isupper() and suffix == "js" and f"`{name}`" not in text)


def _find_symbols(text: str) -> Iterator[str]:
    spans = " ".join(_SPAN.findall(text))
    if "console.log" in text:
        yield "console.log"
    for mention in find_mentions(text):
        if mention.kind not in (MentionKind.SYMBOL, MentionKind.SETTING):
            continue
        name = mention.text
        in_code = name in spans
        if name in _PRODUCT_NAMES or name in _COMMON_CODE or _ERROR_NAME.fullmatch(name) or "-" in name:
            continue
        if _is_distinctive(name, in_code=in_code):
            yield name


def _is_distinctive(name: str, *, in_code: bool) -> bool:
    """Return True for a name that is hardly used by chance."""
    if len(name) < (_MIN_CODE_SYMBOL if in_code else _MIN_PROSE_SYMBOL):
        return False
    if "." in name:
        last = name.rpartition(".")[2]
        return in_code and last not in _FILE_SUFFIXES and len(last) >= 3
    has_joint = "_" in name.strip("_") or bool(re.search(r"[a-z\d][A-Z]", name))
    return has_joint if in_code else has_joint and ("_" in name or name[0].islower())


def _find_errors(text: str) -> Iterator[str]:
    for located in find_traces(text):
        trace = located.trace
        message = re.sub(r"<path>|<url>|#", "*", normalize_message(trace.message))[:_MAX_MESSAGE_CHARS].strip()
        kind = bare_type(trace.type) if trace.type else ""
        if kind and message:
            yield f"{kind}: {message}"
    for name in _ERROR_NAME.findall(text):
        if bare_type(name) not in _GENERIC_ERRORS:
            yield bare_type(name)


def _find_events(text: str) -> Iterator[str]:
    for event, pattern in (("commit", _COMMIT), ("test", _TEST), ("failure", _FAILURE), ("session-start", _SESSION)):
        if pattern.search(text):
            yield event
