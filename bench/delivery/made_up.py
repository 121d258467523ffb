"""Made-up projects with rules, calls that a rule is about, and calls that no rule is about. Deterministic by seed.

Ten projects by stack and name, each with ten rules, two rounds: 200 sessions. A rule is stated by typing a correction
or by `lorelog add`; two kinds of rules have cues set by hand. Each rule knows calls that come close to it without
being meant. Calls and rules have topics; a call is unrelated to a project if they share none.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bench.delivery.hook_calls import ToolUse

NAMES = ["heron", "otter", "newt", "lynx", "puffin", "marten", "stoat", "egret", "vole", "ibis"]
NOUNS = [
    "invoice",
    "ledger",
    "cart",
    "shipment",
    "tariff",
    "voyage",
    "berth",
    "manifest",
    "pilot",
    "quota",
    "customs",
    "anchor",
]


@dataclass(frozen=True)
class Stack:
    """The tools of a project."""

    name: str
    suffix: str
    good: str
    bad: str
    """A program that the user does not want, and the one to use in its place."""
    bad_call: str
    good_call: str
    lint: str
    unit: str
    e2e: str
    danger: str
    """A command that the user forbids."""
    safe: str
    """A similar command that is fine."""
    source: str
    builds: tuple[str, ...]


STACKS = (
    Stack(
        "web",
        "ts",
        "pnpm",
        "npm",
        "npm install {noun}-sdk",
        "pnpm add {noun}-sdk",
        "pnpm lint",
        "pnpm vitest run",
        "npx playwright test",
        "prisma migrate reset",
        "prisma migrate status",
        "src",
        ("tsc --noEmit", "vite build"),
    ),
    Stack(
        "site",
        "tsx",
        "yarn",
        "npm",
        "npm ci",
        "yarn add {noun}",
        "yarn eslint .",
        "yarn jest",
        "npx cypress run",
        "vercel --prod",
        "vercel env ls",
        "app",
        ("next build", "node scripts/{noun}.mjs"),
    ),
    Stack(
        "service",
        "py",
        "uv",
        "pip",
        "pip install {noun}",
        "uv add {noun}",
        "ruff check .",
        "pytest tests/unit",
        "pytest tests/e2e",
        "alembic downgrade base",
        "alembic history",
        "service",
        ("python -m compileall service", "python manage.py check"),
    ),
    Stack(
        "data",
        "py",
        "polars",
        "pandas",
        "",
        "",
        "ruff check .",
        "pytest -q",
        "pytest --e2e",
        "dvc gc --workspace",
        "dvc status",
        "pipelines",
        ("python -m build", "dvc repro"),
    ),
    Stack(
        "gateway",
        "go",
        "podman",
        "docker",
        "docker build -t {noun} .",
        "podman build -t {noun} .",
        "golangci-lint run",
        "go test ./...",
        "go test -tags e2e ./e2e/...",
        "helm uninstall {noun}",
        "helm list",
        "internal",
        ("go build ./...", "go vet ./..."),
    ),
    Stack(
        "engine",
        "rs",
        "just",
        "make",
        "make {noun}",
        "just {noun}",
        "cargo clippy",
        "cargo test --lib",
        "cargo test --test e2e",
        "cargo clean",
        "cargo check",
        "crates",
        ("cargo build --release", "cargo doc"),
    ),
    Stack(
        "billing",
        "java",
        "gradle",
        "mvn",
        "mvn package",
        "./gradlew assemble",
        "./gradlew spotlessCheck",
        "./gradlew test",
        "./gradlew e2eTest",
        "flyway clean",
        "flyway info",
        "src/main/java",
        ("./gradlew classes", "java -version"),
    ),
    Stack(
        "shop",
        "rb",
        "rspec",
        "minitest",
        "",
        "",
        "bundle exec rubocop",
        "bundle exec rspec spec/models",
        "bundle exec rspec spec/e2e",
        "rails db:drop",
        "rails db:version",
        "app/models",
        ("rails zeitwerk:check", "rake -T"),
    ),
    Stack(
        "portal",
        "php",
        "pest",
        "phpunit",
        "vendor/bin/phpunit",
        "vendor/bin/pest",
        "composer lint",
        "vendor/bin/pest --unit",
        "php artisan dusk",
        "php artisan migrate:fresh",
        "php artisan migrate:status",
        "app/Http",
        ("composer dump-autoload", "php -l app/Http/{noun}.php"),
    ),
    Stack(
        "infra",
        "tf",
        "tofu",
        "terraform",
        "terraform plan",
        "tofu plan",
        "tflint",
        "tofu validate",
        "terratest run",
        "kubectl delete namespace {noun}",
        "kubectl get pods",
        "modules",
        ("tofu fmt", "tofu graph"),
    ),
)


@dataclass(frozen=True)
class Rule:
    """A rule, how it is stated, the call it is about, and calls that come close."""

    text: str
    topics: frozenset[str]
    seeded: ToolUse
    near: tuple[ToolUse, ...] = ()
    is_typed: bool = False
    """Stated as a correction in a conversation; otherwise added by a command."""
    options: tuple[str, ...] = ()
    opening: str = "No, "
    """Words in front of a typed rule."""


@dataclass(frozen=True)
class MadeUpProject:
    """A project with rules."""

    name: str
    stack: Stack
    rules: tuple[Rule, ...]
    topics: frozenset[str] = field(default_factory=frozenset)
    prose: tuple[str, ...] = ()
    """Statements that no call is about."""


def run(command: str, output: str = "") -> ToolUse:
    """Return the call of a shell command."""
    return ToolUse("Bash", {"command": command, "description": "Run it"}, output)


def edit(path: str, text: str = "value = 1") -> ToolUse:
    """Return the call of an edit."""
    return ToolUse("Edit", {"file_path": path, "old_string": "value = 0", "new_string": text})


def make_projects(seed: int, rounds: int = 2) -> list[MadeUpProject]:
    """Return the made-up projects: one per stack and round."""
    rng = random.Random(seed)
    return [
        _make_project(stack, f"{stack.name}-{rng.choice(NAMES)}-{number}", rng)
        for number in range(rounds)
        for stack in STACKS
    ]


def unrelated_calls(project: MadeUpProject, root: str, rng: random.Random, count: int) -> list[ToolUse]:
    """Return calls that no rule of a project is about: everyday calls, and those that come close to a rule."""
    near = [use for rule in project.rules for use in rule.near]
    calls = []
    for _ in range(count):
        everyday = [use for topics, use in _everyday(project.stack, root, rng) if not topics & project.topics]
        calls.append(rng.choice(near) if rng.random() < 0.25 else rng.choice(everyday))
    return calls


def _make_project(stack: Stack, name: str, rng: random.Random) -> MadeUpProject:
    root = f"{{root}}/{name}"
    nouns = rng.sample(NOUNS, 8)
    rules = [*_command_rules(stack, root, nouns), *_file_rules(stack, root, nouns), *_moment_rules(stack, root, nouns)]
    typed = [
        Rule(rule.text, rule.topics, rule.seeded, rule.near, rng.random() < 0.5 and not rule.options, rule.options)
        for rule in rules
    ]
    return MadeUpProject(name, stack, tuple(typed), frozenset(topic for rule in rules for topic in rule.topics))


def _command_rules(stack: Stack, root: str, nouns: Sequence[str]) -> Iterator[Rule]:
    noun = nouns[0]
    if stack.bad_call:
        yield Rule(
            f"use {stack.good}, not {stack.bad}.",
            frozenset({stack.bad}),
            run(stack.bad_call.format(noun=noun)),
            (
                run(stack.good_call.format(noun=noun)),
                run(f"git log --oneline --grep='{stack.bad} is slow'"),
                edit(f"{root}/docs/{stack.bad}-history.txt", "the old days"),
            ),
        )
    else:
        symbol = f"{stack.bad}_{noun}_frame"
        yield Rule(
            f"don't call {symbol}() any more, {stack.good} replaces {stack.bad} here.",
            frozenset({symbol}),
            edit(f"{root}/{stack.source}/{noun}.{stack.suffix}", f"total = {symbol}(rows)"),
            (edit(f"{root}/{stack.source}/{noun}.{stack.suffix}", f"total = {symbol}_count"),),
        )
    danger = stack.danger.format(noun=noun)
    yield Rule(
        f"never run `{danger}`, it cost us a day.",
        frozenset({danger}),
        run(f"cd {root} && {danger}"),
        (run(stack.safe), run(f"grep -rn 'history' {root}/docs")),
    )
    yield Rule(
        f"ask me before the {nouns[1]} scripts run against production",
        frozenset({"production"}),
        run(f"./scripts/{nouns[1]}.sh --env production"),
        (run(f"cat scripts/{nouns[2]}.sh"), run(f"./scripts/{nouns[2]}.sh --dry-run")),
        options=("--when-running", f"./scripts/{nouns[1]}.sh *"),
    )


def _file_rules(stack: Stack, root: str, nouns: Sequence[str]) -> Iterator[Rule]:
    folder, single = f"{stack.source}/generated_{nouns[3]}", f"config/{nouns[4]}.prod.yaml"
    yield Rule(
        f"never edit files in {folder}/ by hand, they are generated.",
        frozenset({folder}),
        edit(f"{root}/{folder}/{nouns[3]}_api.{stack.suffix}"),
        (
            edit(f"{root}/{stack.source}/{nouns[3]}_api.{stack.suffix}"),
            edit(f"{root}/{folder}_old/{nouns[3]}.{stack.suffix}"),
        ),
    )
    yield Rule(
        f"don't change {single} without asking me.",
        frozenset({single}),
        ToolUse("Write", {"file_path": f"{root}/{single}", "content": "replicas: 3\n"}),
        (edit(f"{root}/config/{nouns[4]}.dev.yaml"), edit(f"{root}/config/{nouns[5]}.prod.yaml")),
    )
    symbol, other = f"open_{nouns[5]}_session", f"lease_{nouns[5]}"
    yield Rule(
        f"{symbol}() leaks; always use {other}() instead.",
        frozenset({symbol}),
        edit(f"{root}/{stack.source}/{nouns[6]}.{stack.suffix}", f"handle = {symbol}(config)"),
        (
            edit(f"{root}/{stack.source}/{nouns[6]}.{stack.suffix}", f"handle = {symbol}_pool(config)"),
            edit(f"{root}/{stack.source}/{nouns[6]}.{stack.suffix}", f"open_session({nouns[5]})"),
        ),
    )
    yield Rule(
        f"amounts in {nouns[7]} code are integer cents, not floats",
        frozenset({f"{nouns[7]}/money"}),
        edit(f"{root}/{stack.source}/{nouns[7]}/money/rates.{stack.suffix}"),
        (
            edit(f"{root}/{stack.source}/{nouns[7]}/rates.{stack.suffix}"),
            edit(f"{root}/docs/{nouns[7]}/money.txt"),
        ),
        options=("--when-editing", f"{stack.source}/{nouns[7]}/money/**"),
    )


def _moment_rules(stack: Stack, root: str, nouns: Sequence[str]) -> Iterator[Rule]:
    yield Rule(
        f"before you commit, run {stack.lint}.",
        frozenset({"commit"}),
        run(f"git add -A && git commit -m 'Add the {nouns[0]}'"),
        (run("git log -3 --format=%s"), run("git commit-graph verify")),
    )
    yield Rule(
        "do not run the e2e tests unless I ask for them.",
        frozenset({"test"}),
        run(f"cd {root} && {stack.e2e}"),
        (run(f"ls {root}/e2e"), run(f"wc -l {root}/e2e/*.{stack.suffix}")),
    )
    error = f"{nouns[1].title()}LockTimeoutError"
    yield Rule(
        f"when you see {error}, restart the {nouns[1]} worker; never delete the lock file.",
        frozenset({error}),
        run(f"./bin/{nouns[2]} sync", f"worker 3: {error}: could not lock after 30 s\nexit status 1"),
        (run(f"./bin/{nouns[2]} check", f"{nouns[1].title()}FormatError: line 3"),),
    )


def _everyday(stack: Stack, root: str, rng: random.Random) -> Iterator[tuple[frozenset[str], ToolUse]]:
    """Yield calls that occur in any session, with their topics."""
    noun, other, number = rng.choice(NOUNS), rng.choice(NOUNS), rng.randrange(1000)
    file = f"{root}/{stack.source}/{noun}_{other}_{number}.{stack.suffix}"
    none = frozenset[str]()
    for command in (
        "git status",
        "git diff HEAD~1 --stat",
        f"git checkout -b {noun}-{number}",
        f"git show {number:07x}",
        "ls -la",
        f"cat {file}",
        f"rg -n '{noun}' {stack.source}",
        f"find . -name '*{noun}*' -not -path './node_modules/*'",
        f"sed -n '{number},{number + 40}p' {file}",
        "pwd && ls ..",
        f"mkdir -p {stack.source}/{noun}",
        f"curl -s http://localhost:{3000 + number}/{noun}",
        f"python3 -c 'print({number})'",
        f"wc -l {file}",
        "env | sort | head",
        f"tail -n 50 logs/{noun}.log",
        f"echo done {number}",
        f"gh pr view {number}",
        f"ps aux | grep {noun}",
        *(build.format(noun=noun) for build in stack.builds),
    ):
        yield none, run(command)
    yield frozenset({"test"}), run(stack.unit)
    yield none, run(stack.builds[0].format(noun=noun), f"error: unexpected token in {noun}.{stack.suffix}:{number}")
    yield none, edit(file, f"{noun}_count = {number}\nreturn {noun}_count")
    yield none, edit(f"{root}/README.md", f"## {noun.title()}\n\nHow a {noun} becomes a {other}.")
    yield none, ToolUse("Write", {"file_path": f"{root}/docs/{noun}.md", "content": f"# {noun}\n\n" + "Text. " * 200})
    yield none, ToolUse("Read", {"file_path": file})
    yield none, ToolUse("Grep", {"pattern": f"{noun}\\w+", "path": root, "glob": f"*.{stack.suffix}"})
    yield none, ToolUse("Glob", {"pattern": f"**/*{noun}*.{stack.suffix}"})
    yield none, ToolUse("WebFetch", {"url": f"https://example.org/{noun}", "prompt": f"What is a {noun}?"})
    yield none, ToolUse("TodoWrite", {"todos": [{"content": f"Fix the {noun}", "status": "pending"}]})
    yield none, ToolUse("Task", {"description": f"Look at {noun}", "prompt": f"Find where the {noun} is loaded."})
