"""Agents' programs and any command as language models, tested with small programs that record how they were run."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lorelog.core.errors import ConfigError, ModelError, ModelFault, ModelUnavailable
from lorelog.core.options import LanguageOptions, SummarizeOptions
from lorelog.core.ports import Completion
from lorelog.models.chat import open_language_model
from lorelog.models.chat.programs import MAX_OUTPUT_BYTES, AgentCliLanguageModel, end_programs, find_program, run_child

_RECORDS = """#!{python}
import json, os, sys, time, subprocess
seen = dict(argv=sys.argv[1:], env=dict(os.environ), stdin=sys.stdin.read(), cwd=os.getcwd(), inside=os.listdir("."))
seen["group"] = os.getpgid(0) == os.getpid()
with open({record!r}, "w") as file:
    json.dump(seen, file)
{then}
"""

CLAUDE = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "- User asked for otters",
    "usage": {"input_tokens": 3, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 100, "output_tokens": 7},
}
CODEX = [
    {"type": "thread.started", "thread_id": "t"},
    {"type": "item.completed", "item": {"id": "0", "type": "error", "message": "a setting is unknown"}},
    {"type": "item.completed", "item": {"id": "1", "type": "reasoning", "text": "- hm"}},
    {"type": "item.completed", "item": {"id": "2", "type": "agent_message", "text": "- User asked for otters"}},
    {"type": "turn.completed", "usage": {"input_tokens": 123, "cached_input_tokens": 100, "output_tokens": 7}},
]
GEMINI = {
    "response": CLAUDE["result"],
    "stats": {"models": {"m": {"tokens": {"prompt": 123, "thoughts": 3, "candidates": 4}}}},
}
COPILOT = [
    {"type": "user.message", "data": {"content": "A turn."}},
    {"type": "assistant.message", "data": {"content": CLAUDE["result"]}},
    {"type": "result", "exitCode": 0, "usage": {"premiumRequests": 0}},
]
OPENCODE = [
    {"type": "text", "part": {"type": "text", "text": CLAUDE["result"]}},
    {"type": "step_finish", "part": {"tokens": {"input": 23, "output": 5, "reasoning": 2, "cache": {"read": 100}}}},
]


def printing(*events: object) -> str:
    return "\n".join(f"print({json.dumps(event)!r})" for event in events)


SAYING = {
    "claude": printing(CLAUDE),
    "codex": printing(*CODEX),
    "gemini": f"print('Loaded credentials.')\nprint({json.dumps(GEMINI, indent=1)!r})",
    "qwen": printing([{"type": "system"}, {"type": "assistant", "message": {}}, CLAUDE]),
    "copilot": printing(*COPILOT),
    "opencode": printing(*OPENCODE),
}
AGENTS = tuple(SAYING)


DONE = "print('- done')"


class AgentPrograms:
    """A folder on the PATH for test programs."""

    def __init__(self, place: Path) -> None:
        self.bin = place / "bin"
        self.bin.mkdir()
        self.record = place / "seen.json"
        self.environment = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(place), "CLAUDECODE": "1"}

    def make(self, name: str, then: str = "") -> Path:
        text = _RECORDS.format(python=sys.executable, record=str(self.record), then=then or SAYING[name])
        path = self.bin / name
        path.write_text(text, "utf-8")
        path.chmod(0o755)
        return path

    def run_command(self, command: str, system: str = "Write.", text: str = "A turn.") -> Completion:
        options = LanguageOptions("command", command=command, timeout_s=20.0)
        model = open_language_model(options, "", self.environment)
        assert model is not None
        return model.complete(system, text, 600)

    def ask(self, name: str, system: str = "Write notes.", text: str = "A turn.", **options: Any) -> Completion:
        given = {"provider": "host", "timeout_s": 20.0, **options}
        model = open_language_model(SummarizeOptions(**given), "", self.environment, (name,))
        assert model is not None
        return model.complete(system, text, 600)

    @property
    def seen(self) -> Any:
        return json.loads(self.record.read_text("utf-8"))


@pytest.fixture
def agents(tmp_path: Path) -> AgentPrograms:
    return AgentPrograms(tmp_path)


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_writes_and_says_what_it_cost(agents: AgentPrograms, name: str) -> None:
    """The reply includes all tokens, cached ones too; Copilot CLI reports none."""
    agents.make(name)

    tokens = (0, 0) if name == "copilot" else (123, 7)
    assert agents.ask(name) == Completion("- User asked for otters", *tokens)


@pytest.mark.parametrize("name", AGENTS)
def test_the_child_is_kept_from_everything_else(agents: AgentPrograms, name: str) -> None:
    """It runs in a directory without files of the user and its own process group, with our hooks off and without our session."""
    agents.environment |= {
        "LORELOG_HOOKS": "on",
        "CLAUDE_CODE_SESSION_ID": "s",
        "CLAUDE_PLUGIN_ROOT": "/p",
        "CLAUDE_CODE_OAUTH_TOKEN": "o",
        "CLAUDE_CODE_USE_BEDROCK": "1",
    }
    agents.make(name)

    agents.ask(name, text="The conversation.")

    seen = agents.seen
    assert (set(seen["inside"]) - {".gemini", "home"}, seen["group"]) == (set(), True)
    assert not Path(seen["cwd"]).exists()
    assert "The conversation." in seen["stdin"]
    assert "The conversation." not in json.dumps(seen["argv"])
    assert seen["env"]["LORELOG_HOOKS"] == "off"
    assert not {"CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CLAUDE_PLUGIN_ROOT"} & set(seen["env"])
    assert {"CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK", "HOME"} <= set(seen["env"])


def test_claude_is_asked_without_tools_and_leaves_no_session(agents: AgentPrograms) -> None:
    """Claude gets no settings, tools, MCP servers or session file, and a small model unless another is chosen."""
    agents.make("claude")

    agents.ask("claude", system="Write notes.")
    words = agents.seen["argv"]
    options = dict(itertools.pairwise(words))

    assert {"-p", "--no-session-persistence", "--strict-mcp-config", "--disable-slash-commands"} <= set(words)
    assert (options["--setting-sources"], options["--tools"]) == ("", "")
    assert (options["--model"], options["--output-format"], options["--system-prompt"]) == (
        "haiku",
        "json",
        "Write notes.",
    )
    assert int(agents.seen["env"]["CLAUDE_CODE_MAX_OUTPUT_TOKENS"]) >= 600
    agents.ask("claude", model="sonnet")
    assert "sonnet" in agents.seen["argv"]


def test_codex_is_asked_without_tools_and_leaves_no_session(agents: AgentPrograms) -> None:
    """Codex's hooks, plugins, shell and MCP servers are off, and its session is not kept."""
    home = Path(agents.environment["HOME"]) / ".codex"
    home.mkdir()
    (home / "config.toml").write_text('model = "x"\n[mcp_servers.git-hub]\ncommand = "a"\n[mcp_servers.b_2]\n', "utf-8")
    agents.make("codex")

    agents.ask("codex", system="Write notes.")
    words = agents.seen["argv"]

    assert words[0] == "exec"
    assert {"--json", "--ephemeral", "--skip-git-repo-check", "--ignore-rules"} <= set(words)
    assert words[words.index("--sandbox") + 1] == "read-only"
    off = {words[at + 1] for at, word in enumerate(words) if word == "-c"}
    assert {"features.hooks=false", "features.plugins=false", "features.shell_tool=false", "notify=[]"} <= off
    assert {"mcp_servers.git-hub.enabled=false", "mcp_servers.b_2.enabled=false"} <= off
    assert "--model" not in words
    assert agents.seen["stdin"].startswith("Write notes.")
    agents.ask("codex", model="gpt-small")
    words = agents.seen["argv"]
    assert words[words.index("--model") + 1] == "gpt-small"


@pytest.mark.parametrize(
    ("name", "words", "home", "hidden"),
    [
        ("gemini", "--model flash-lite --extensions none", "GEMINI_CLI_HOME", ".gemini/GEMINI.md .gemini/tmp"),
        ("qwen", "--safe-mode --chat-recording=false --max-tool-calls 0 --system-prompt", "QWEN_HOME", ""),
        ("copilot", "--available-tools=none --model gpt-5-mini", "COPILOT_HOME", "hooks/own.json mcp-config.json"),
        ("opencode", "run --pure --agent lorelog --title", "XDG_DATA_HOME", ""),
    ],
)
def test_the_other_agents_are_asked_without_tools_and_leave_no_session(
    agents: AgentPrograms, tmp_path: Path, name: str, words: str, home: str, hidden: str
) -> None:
    """Each gets its options; those without options against hooks and sessions get a home with only the files that sign them in."""
    given = ".gemini/oauth_creds.json" if name == "gemini" else "config.json"
    for file in f"{given} {hidden}".split():
        (tmp_path / "own" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "own" / file).write_text("{}", "utf-8")
    agents.environment[home] = str(tmp_path / "own")
    listing = f"home = os.environ[{home!r}]\nopen(home + '/session', 'w').close()\n" if hidden else "home = '/none'\n"
    listing += "files = (os.path.join(at, file) for at, _, files in os.walk(home) for file in files)\n"
    listing += f"open({str(tmp_path / 'seen')!r}, 'w').write(' '.join(file[len(home) + 1:] for file in files))\n"
    agents.make(name, then=listing + SAYING[name])

    agents.ask(name)
    seen = agents.seen
    agents.ask(name, model="provider/other")

    assert set(words.split()) <= set(seen["argv"])
    assert agents.seen["argv"][agents.seen["argv"].index("--model") + 1] == "provider/other"
    assert set((tmp_path / "seen").read_text("utf-8").split()) == ({given, "session"} if hidden else set())
    assert not (tmp_path / "own" / "session").exists()
    if name == "opencode":
        agent = json.loads(seen["env"]["OPENCODE_CONFIG_CONTENT"])["agent"]["lorelog"]
        assert (agent["prompt"], agent["tools"], seen["env"]["OPENCODE_DB"]) == (
            "Write notes.",
            {"*": False},
            ":memory:",
        )


@pytest.mark.parametrize("settings", ['[mcp_servers."a b"]\n', "[mcp_servers", "\xff"])
def test_codex_is_not_asked_when_its_tools_cannot_be_switched_off(agents: AgentPrograms, settings: str) -> None:
    """If the MCP servers cannot be determined, Codex is not run."""
    home = Path(agents.environment["HOME"]) / ".codex"
    home.mkdir()
    (home / "config.toml").write_bytes(settings.encode("latin-1"))
    agents.make("codex")

    with pytest.raises(ModelUnavailable):
        agents.ask("codex")

    assert not agents.record.exists()


def test_an_agent_that_is_not_installed_is_unavailable(agents: AgentPrograms) -> None:
    """A missing program is reported by name."""
    with pytest.raises(ModelUnavailable, match="program 'claude' was not found"):
        agents.ask("claude")


def test_programs_are_found_where_agents_install_themselves(agents: AgentPrograms, tmp_path: Path) -> None:
    """The PATH is searched first, then the usual folders; relative PATH entries are ignored."""
    local = tmp_path / ".claude" / "local" / "claude"
    local.parent.mkdir(parents=True)
    local.write_text("#!/bin/sh\n", "utf-8")
    local.chmod(0o755)

    assert find_program("claude", {"HOME": str(tmp_path), "PATH": "bin:."}) == str(local)
    agents.make("claude")
    assert find_program("claude", agents.environment) == str(agents.bin / "claude")


LIMITED = {**CLAUDE, "is_error": True, "result": "You've hit your limit · resets 3am", "usage": {"input_tokens": 0}}


@pytest.mark.parametrize(
    ("name", "then", "kind"),
    [
        ("claude", f"print({json.dumps(LIMITED)!r})", ModelUnavailable),
        ("claude", f"print({json.dumps({**CLAUDE, 'is_error': True})!r})", ModelFault),
        ("claude", "print('Invalid API key · Please run /login')", ModelUnavailable),
        ("claude", "", ModelUnavailable),
        ("claude", "print('[' * 100000)", ModelUnavailable),
        ("gemini", printing({"error": {"message": "quota"}}), ModelUnavailable),
        ("qwen", printing([{"type": "result", "is_error": True, "error": {}}]), ModelUnavailable),
        ("copilot", printing(*COPILOT[:2]), ModelFault),
        ("opencode", printing({"type": "error", "error": {}}), ModelUnavailable),
        ("codex", "print('stream error: 429')", ModelUnavailable),
        ("codex", 'print(\'{"type": "turn.failed", "error": {"message": "usage limit"}}\')', ModelUnavailable),
        ("codex", "print('3\\n[]\\n{\\n')", ModelUnavailable),
        *((name, f"{SAYING[name]}\nsys.exit(1)", ModelError) for name in AGENTS),
    ],
)
def test_failures_are_errors(agents: AgentPrograms, name: str, then: str, kind: type[ModelError]) -> None:
    """Limits, missing keys, malformed output and a status other than 0 raise; what may have cost something is a fault."""
    agents.make(name, then=then or "pass")

    with pytest.raises(kind):
        agents.ask(name)


@pytest.mark.slow
@pytest.mark.parametrize("ignoring", ["", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"])
def test_when_time_is_up_the_whole_group_ends(agents: AgentPrograms, tmp_path: Path, ignoring: str) -> None:
    """A child that hangs is killed with everything it started."""
    pid = tmp_path / "pid"
    then = (
        f"{ignoring}started = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(pid)!r}, 'w').write(str(started.pid))\ntime.sleep(600)"
    )
    agents.make("claude", then=then)

    with pytest.raises(ModelUnavailable, match="did not exit within 2 s"):
        agents.ask("claude", timeout_s=2.0)

    assert _is_gone(int(pid.read_text("utf-8")))


def test_what_a_child_leaves_running_ends_with_it(agents: AgentPrograms, tmp_path: Path) -> None:
    """A background process that keeps the output open does not delay the reply and does not survive."""
    pid = tmp_path / "pid"
    then = f"{SAYING['claude']}\nsys.stdout.flush()\nstarted = subprocess.Popen(['sleep', '600'])\n"
    agents.make("claude", then=f"{then}open({str(pid)!r}, 'w').write(str(started.pid))")

    assert agents.ask("claude").text == "- User asked for otters"
    assert _is_gone(int(pid.read_text("utf-8")))


def _is_gone(pid: int) -> bool:
    """Return True if a process has ended, waiting briefly for the system to notice."""
    for _ in range(500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def test_a_child_that_never_stops_talking_is_ended() -> None:
    """Output beyond the limit is a fault, and is not kept in memory."""
    with pytest.raises(ModelFault, match="more than"):
        run_child(["yes"], b"", {"PATH": "/usr/bin:/bin"}, 30.0)


def test_input_and_output_larger_than_a_pipe_pass_through() -> None:
    """A child that writes while input is still being sent does not deadlock."""
    given = b"x" * (MAX_OUTPUT_BYTES - 1)

    assert run_child(["cat"], given, {"PATH": "/usr/bin:/bin"}, 30.0) == (0, given)


@pytest.mark.slow
def test_nothing_is_lost_of_a_child_that_ends_at_once() -> None:
    """Output written just before the exit is not lost."""
    command = ["sh", "-c", "read line; echo heard"]

    said = [run_child(command, b"x\n" * 100, {"PATH": "/usr/bin:/bin"}, 30.0) for _ in range(100)]

    assert set(said) == {(0, b"heard\n")}


def test_a_child_that_does_not_read_is_left_alone() -> None:
    """A child that does not read its input is not a failure."""
    assert run_child(["true"], b"x" * 500_000, {"PATH": "/usr/bin:/bin"}, 30.0) == (0, b"")


def test_a_program_that_cannot_be_started_is_unavailable(tmp_path: Path) -> None:
    """A file that is not executable raises the same error as a missing one."""
    broken = tmp_path / "claude"
    broken.write_text("#!/nonexistent/interpreter\n", "utf-8")
    broken.chmod(0o755)

    with pytest.raises(ModelUnavailable, match="cannot be started"):
        run_child([str(broken)], b"", dict(os.environ), 5.0)


def test_hosts_that_only_their_plugin_can_ask_have_no_program() -> None:
    """OpenCode and OpenClaw have no language model here: their plugins call it."""
    options = SummarizeOptions(provider="host")

    assert open_language_model(options, "opencode", {}) is None
    assert open_language_model(options, "openclaw", {}) is None
    assert isinstance(open_language_model(options, "claude", {}), AgentCliLanguageModel)


def test_a_program_is_given_the_question_and_says_the_answer(agents: AgentPrograms) -> None:
    """Both texts go to stdin and stdout is the reply; no tokens are reported."""
    path = agents.make("writer", "print('- ein Otter\\n')")

    assert agents.run_command(str(path), "Write.", "A turn \udcff über\0 Otter") == Completion("- ein Otter")
    assert agents.seen["stdin"] == "Write.\n\nA turn ? über\0 Otter\n"


def test_no_shell_is_involved(agents: AgentPrograms, tmp_path: Path) -> None:
    """The command is split like a shell's, without any other shell feature."""
    path = agents.make("writer", DONE)

    agents.run_command(f"{path} --model 'a b' $HOME `id` *.md; touch {tmp_path}/made | cat")

    assert agents.seen["argv"] == shlex.split(f"--model 'a b' $HOME `id` *.md; touch {tmp_path}/made | cat")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("command", ["writer", "~/bin/writer"])
def test_a_program_is_found_by_name_or_from_home(agents: AgentPrograms, command: str) -> None:
    """The program may be given by name if it is on the PATH, or relative to the home."""
    agents.make("writer", DONE)

    assert agents.run_command(command).text == "- done"


@pytest.mark.parametrize("command", ["nobody-has-this", "./writer", "bin/writer", "/gone"])
def test_a_program_that_is_not_there_is_told(
    agents: AgentPrograms, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path is rejected: it would depend on the current directory."""
    monkeypatch.chdir(agents.make("writer", DONE).parent)

    with pytest.raises(ModelUnavailable, match=r"the program .* was not found") as raised:
        agents.run_command(command)
    assert "absolute path" in raised.value.hint


@pytest.mark.parametrize(
    ("then", "kind"), [("sys.exit(3)", ModelUnavailable), ("print('half an answer'); sys.exit(3)", ModelFault)]
)
def test_a_program_that_fails_wrote_nothing(agents: AgentPrograms, then: str, kind: type[Exception]) -> None:
    """The exit status decides; a program that has printed something may have cost something."""
    agents.make("writer", then)

    with pytest.raises(kind, match="writer failed \\(status 3\\)") as raised:
        agents.run_command("writer")
    assert type(raised.value) is kind


def test_it_is_known_by_its_name(agents: AgentPrograms) -> None:
    """Receipts name the program, or the model that the settings name."""
    named = [
        open_language_model(LanguageOptions("command", command="/opt/x/writer -m a", model=model), "", {})
        for model in ("", "my-model")
    ]

    assert [(model.provider, model.model) for model in named if model] == [
        ("command", "writer"),
        ("command", "my-model"),
    ]


@pytest.mark.parametrize("command", ["", "   ", "writer 'unclosed"])
def test_a_command_that_is_none_is_told(command: str) -> None:
    """A setting that names no program is a configuration error."""
    with pytest.raises(ConfigError, match=r"llm\.command"):
        open_language_model(LanguageOptions("command", command=command), "", {})


def test_work_about_no_session_is_done_by_an_agent_that_is_there(agents: AgentPrograms) -> None:
    """`host` asks the agent that was talked to, else the first one that is there; `codex/NAME` asks Codex for that model."""

    def asked(model: str = "", *said_to: str) -> str:
        found = open_language_model(LanguageOptions("host", model=model), "", agents.environment, said_to)
        assert isinstance(found, AgentCliLanguageModel)
        return found.model

    agents.environment["PATH"] = str(agents.bin)
    assert asked() == "claude/haiku"
    agents.make("codex")
    assert asked() == "codex/default"
    agents.make("claude")
    assert asked() == "claude/haiku"
    assert asked("", "opencode", "codex") == "codex/default"
    agents.make("opencode")
    assert (asked("", "opencode", "codex"), asked("", "openclaw", "")) == ("opencode/default", "claude/haiku")
    assert asked("codex/gpt-x", "opencode") == "codex/gpt-x"
    assert (asked("codex/gpt-x"), asked("claude/opus"), asked("opus")) == ("codex/gpt-x", "claude/opus", "claude/opus")


def test_running_programs_are_killed_before_their_daemon_ends() -> None:
    """A program that would run for ever is killed with its group, and whoever waits for it goes on."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(run_child, ["sh", "-c", "sleep 600 & wait"], b"", {"PATH": "/usr/bin:/bin"}, 600.0)
        while not waiting.done():
            end_programs()
    assert waiting.result() == (-signal.SIGKILL, b"")
