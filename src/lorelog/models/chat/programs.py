"""Language models that are programs: a coding agent's own (`claude -p`, `codex exec` and others), or any command.

With an agent nothing has to be configured or paid for in addition: the user is signed in to it already. The program reads
somebody's conversation, so a prompt injection in it must achieve nothing: no tools, plugins, hooks, MCP servers or session on
disk, and an empty working directory. LORELOG_HOOKS=off keeps our own hooks from capturing the summary of a capture if an agent
runs them after all. Gemini CLI and Copilot CLI have no options for all of this, so they get a home of their own for the call,
with links to the files that sign them in. OpenCode starts the user's MCP servers, but offers none of their tools. OpenClaw
takes a prompt as an argument only, which every user of the machine can read; it is not run.

A command of the settings gets the prompt on its stdin, and its stdout is the completion. The command line is split like a
shell's, but without variables, pipes or globs. It cannot be told how long the completion may be and does not report tokens; a
call counts with the maximum it might have cost.

The child leads its own process group: when the time is up, and also after it has exited, everything it started is killed
except processes that left the group. Its stdout may have a limited size; its stderr is discarded.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from lorelog.core.errors import ConfigError, ModelFault, ModelUnavailable
from lorelog.core.options import LanguageOptions
from lorelog.core.ports import Completion
from lorelog.core.processes import find_on_path
from lorelog.models.chat.remote import ChatRequest
from lorelog.models.http import nested_object, sum_counts

MAX_OUTPUT_BYTES = 1 << 20
_SHELL_HINT = "run the command in a shell"
_POLL_S = 0.02
_RUNNING: set[int] = set()
"""Process groups of the programs that are running."""


def run_child(
    command: Sequence[str], stdin: bytes, environment: Mapping[str, str], timeout_s: float, folder: str = ""
) -> tuple[int, bytes]:
    """Run a command in a folder, or in an empty one; return its exit status and output.

    Raise ModelError if it takes too long.
    """
    deadline = time.monotonic() + timeout_s
    with (
        tempfile.TemporaryDirectory(prefix="lorelog-", ignore_cleanup_errors=True) as empty,
        # Not pipes: one would have to be written meanwhile, the other could be kept open by processes that the child leaves.
        tempfile.TemporaryFile() as prompt,
        tempfile.TemporaryFile() as output,
    ):
        try:
            prompt.write(stdin)
            prompt.seek(0)
            child = subprocess.Popen(
                command,
                stdin=prompt,
                stdout=output,
                stderr=subprocess.DEVNULL,
                cwd=folder or empty,
                env=dict(environment),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
            reason = getattr(error, "strerror", None) or error
            raise ModelUnavailable(f"{command[0]} cannot be started: {reason}", hint=_SHELL_HINT) from error
        _RUNNING.add(child.pid)
        try:
            while not _has_ended(child):
                if time.monotonic() > deadline:
                    raise ModelUnavailable(
                        f"{Path(command[0]).name} did not exit within {timeout_s:g} s",
                        hint="raise llm.timeout_s or summarize.timeout_s",
                    )
                _check_size(output)
                time.sleep(_POLL_S)
        finally:
            _RUNNING.discard(child.pid)
            _kill_group(child.pid)
            child.wait()
        _check_size(output)
        output.seek(0)
        return child.returncode, output.read()


def end_programs() -> None:
    """Kill the programs that are running, before a process ends without waiting for them."""
    for group in tuple(_RUNNING):
        _kill_group(group)


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _check_size(output: IO[bytes]) -> None:
    if os.fstat(output.fileno()).st_size > MAX_OUTPUT_BYTES:
        raise ModelFault(f"the program printed more than {MAX_OUTPUT_BYTES >> 10} KiB", hint=_SHELL_HINT)


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Return True if the child has exited, without reaping it if possible: until then its group id is not reused."""
    if child.returncode is not None:
        return True
    if not hasattr(os, "waitid"):
        return child.poll() is not None
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


_SIGN_IN_SUFFIXES = ("USE_", "SKIP_", "OAUTH_", "API_KEY_", "CLIENT_", "DISABLE_NONESSENTIAL")
"""Suffixes of the CLAUDE_CODE_ variables that configure sign-in; the others belong to the session that started us."""
_SESSION_PREFIXES = (
    "CLAUDE_PLUGIN_",
    "CLAUDE_PROJECT_",
    "CLAUDE_ENV_",
    "CLAUDE_PID",
    "CLAUDECODE",
    "PLUGIN_ROOT",
    "PLUGIN_DATA",
)
_THINKING_TOKENS = 1400
"""Output tokens reserved for thinking."""
_INSTALL_FOLDERS = (
    *("~/.local/bin", "~/.claude/local", "~/.npm-global/bin", "~/.bun/bin", "~/.volta/bin"),
    *("/usr/local/bin", "/opt/homebrew/bin"),
)
"""Where agents are installed if our PATH does not contain them."""
_DISABLED_FEATURES = (
    *("hooks", "plugins", "apps", "shell_tool", "unified_exec", "multi_agent", "goals", "view_image", "skill_search"),
)
"""Features of Codex that are useless for writing a few lines. With them a call costs 5,000 tokens more."""
_QWEN_TOOLS = (
    *("agent", "get_goal", "glob", "grep_search", "list_agents", "read_file", "skill", "tool_call", "tool_search"),
    *("update_goal", "edit", "write_file", "run_shell_command", "notebook_edit", "web_fetch"),
)
"""Tools of Qwen Code. A call to any tool ends the run; without these a request costs 8,000 tokens less."""
_GEMINI_STATE = frozenset({"tmp", "history", "projects.json", "extensions", "GEMINI.md"})
"""What a call of Gemini CLI gets anew: sessions and customizations. The rest of its folder signs it in."""


AgentCliCall = tuple[list[str], str, dict[str, str]]
"""How an agent's program is run once: its arguments, its input, and variables to set."""
AgentCliEvent = tuple[str, tuple[int, int] | None]
"""Text of a message, or an empty one; and at the end of a turn the tokens read and written, 0 if they are not reported."""


class AgentCliAdapter(Struct, frozen=True):
    """Command line and output format of one agent's program, which is named like the host."""

    default_model: str
    extra_tokens: int
    call: Callable[[ChatRequest, Mapping[str, str], Path], AgentCliCall]
    """Return the call; files that it needs are written to the working directory."""
    read: Callable[[dict[str, Any]], AgentCliEvent]
    model_variable: str = ""
    """Environment variable that names the user's model."""


class AgentCliLanguageModel:
    """Completes by running an agent's program once."""

    provider = "host"

    def __init__(self, host: str, options: LanguageOptions, environment: Mapping[str, str]) -> None:
        self._host, self._adapter = host, AGENT_CLI_ADAPTERS[host]
        self._timeout_s = options.timeout_s
        self._environment = environment
        chosen = environment.get(self._adapter.model_variable, "")
        self._model = options.model or chosen or self._adapter.default_model
        self.model = f"{host}/{self._model or 'default'}"
        self.extra_tokens = self._adapter.extra_tokens

    def check(self) -> str:
        """Return the path of the agent's program, or raise ModelUnavailable. Starts nothing."""
        return _require_program(self._host, self._environment, "install it, or add its folder to the PATH")

    def complete(self, system: str, text: str, most_tokens: int) -> Completion:
        program = self.check()
        system, text = (part.encode("utf-8", "replace").decode().replace("\0", " ") for part in (system, text))
        request = ChatRequest(self._model, system, text, most_tokens)
        with tempfile.TemporaryDirectory(prefix="lorelog-", ignore_cleanup_errors=True) as folder:
            arguments, stdin, variables = self._adapter.call(request, self._environment, Path(folder))
            environment = {**child_environment(self._environment), **variables}
            status, output = run_child([program, *arguments], stdin.encode(), environment, self._timeout_s, folder)
        return self._read_reply(status, output)

    def _read_reply(self, status: int, output: bytes) -> Completion:
        """Return the last message and the tokens of all events. Raise ModelError if the program did not finish its turn."""
        text, counts = "", []
        for event in _read_objects(output):
            said, tokens = self._adapter.read(event)
            text = said or text
            counts += [] if tokens is None else [tokens]
        if status != 0 or not counts:
            # A program that has written a message or reported usage may have used a paid model.
            error_type = ModelFault if text or counts else ModelUnavailable
            message = f"{self._host} did not finish its turn (status {status})"
            raise error_type(message, hint=f"try {self._host} in a shell")
        return Completion(text, sum(count for count, _ in counts), sum(count for _, count in counts))


def _require_program(name: str, environment: Mapping[str, str], hint: str) -> str:
    path = find_program(name, environment)
    if not path:
        raise ModelUnavailable(f"the program {name!r} was not found", hint=hint)
    return path


def find_program(name: str, environment: Mapping[str, str]) -> str:
    """Return the path of a program on the PATH or in a usual folder, or an empty string. A relative path is not found."""
    if os.sep in name and not Path(name).is_absolute():
        return ""
    # A relative entry would depend on the current directory of this process.
    folders = [folder for folder in environment.get("PATH", "").split(os.pathsep) if Path(folder).is_absolute()]
    folders += [folder.replace("~", _home(environment), 1) for folder in _INSTALL_FOLDERS]
    if environment.get("NPM_CONFIG_PREFIX"):
        folders.append(f"{environment['NPM_CONFIG_PREFIX']}/bin")
    return find_on_path(name, os.pathsep.join(folders))


def _home(environment: Mapping[str, str]) -> str:
    try:
        return environment.get("HOME") or str(Path.home())
    except RuntimeError:  # a user without an entry, as in a container
        return "~"


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child: ours without the session that started us, and with our hooks off."""
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith(_SESSION_PREFIXES)
        and (not name.startswith("CLAUDE_CODE_") or name.removeprefix("CLAUDE_CODE_").startswith(_SIGN_IN_SUFFIXES))
    }
    return {**kept, "LORELOG_HOOKS": "off"}


def _call_claude(request: ChatRequest, environment: Mapping[str, str], folder: Path) -> AgentCliCall:
    arguments = ["-p", "--output-format", "json", "--model", request.model, "--effort", "low"]
    arguments += ["--setting-sources", "", "--no-session-persistence", "--tools", "", "--strict-mcp-config"]
    arguments += ["--disable-slash-commands", "--system-prompt", request.system]
    variables = {
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(request.max_tokens + _THINKING_TOKENS),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    return arguments, request.text, variables


def _call_codex(request: ChatRequest, environment: Mapping[str, str], folder: Path) -> AgentCliCall:
    settings = [f"features.{name}=false" for name in _DISABLED_FEATURES]
    settings += ['web_search="disabled"', "project_doc_max_bytes=0", "notify=[]", "skills.bundled.enabled=false"]
    settings += ['approval_policy="never"', 'model_reasoning_effort="low"']
    settings += [f"mcp_servers.{name}.enabled=false" for name in _codex_servers(environment)]
    arguments = ["exec", "--json", "--ephemeral", "--skip-git-repo-check", "--sandbox", "read-only"]
    arguments += ["--ignore-rules", "--color", "never"]
    arguments += [*_model_option(request), *(word for setting in settings for word in ("-c", setting)), "-"]
    # Not as a replacement of its own instructions: with a subscription Codex rejects others.
    return arguments, f"{request.system}\n\n{request.text}\n", {}


def _codex_servers(environment: Mapping[str, str]) -> list[str]:
    """Return the MCP servers that Codex would start, to be disabled one by one: no option disables all of them.

    Raise ModelUnavailable if the configuration cannot be read: a program with tools must not read a conversation.
    """
    home = environment.get("CODEX_HOME") or f"{_home(environment)}/.codex"
    try:
        with Path(home, "config.toml").open("rb") as file:
            servers = tomllib.load(file).get("mcp_servers", {})
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"{home}/config.toml cannot be read: {error}") from error
    names = list(servers) if isinstance(servers, dict) else []
    unsafe = [name for name in names if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii()]
    if unsafe:
        raise ModelUnavailable(f"the MCP server {unsafe[0]!r} of Codex cannot be disabled by name")
    return names


def _call_gemini(request: ChatRequest, environment: Mapping[str, str], folder: Path) -> AgentCliCall:
    settings = {"tools": {"core": []}, "hooksConfig": {"enabled": False}, "skills": {"enabled": False}}
    own, home = folder / ".gemini", Path(environment.get("GEMINI_CLI_HOME") or _home(environment), ".gemini")
    own.mkdir()
    (own / "settings.json").write_text(json.dumps(settings), "utf-8")
    (own / "system.md").write_text(request.system, "utf-8")
    _link_files(home, folder / "home" / ".gemini", lambda name: name not in _GEMINI_STATE)
    arguments = ["--output-format", "json", "--model", request.model, "--approval-mode", "plan", "--skip-trust"]
    arguments += ["--extensions", "none", "--allowed-mcp-server-names", "none"]
    return arguments, request.text, {"GEMINI_SYSTEM_MD": "1", "GEMINI_CLI_HOME": str(folder / "home")}


def _call_qwen(request: ChatRequest, environment: Mapping[str, str], folder: Path) -> AgentCliCall:
    arguments = ["--output-format", "json", "--safe-mode", "--chat-recording=false", "--max-tool-calls", "0"]
    arguments += ["--exclude-tools", ",".join(_QWEN_TOOLS), "--system-prompt", request.system]
    return [*arguments, *_model_option(request)], request.text, {}


def _call_copilot(request: ChatRequest, environment: Mapping[str, str], folder: Path) -> AgentCliCall:
    home = Path(environment.get("COPILOT_HOME") or f"{_home(environment)}/.copilot")
    _link_files(home, folder / "home", lambda name: name == "config.json")
    arguments = ["--output-format", "json", "--stream", "off", "--log-level", "none", "--available-tools=none"]
    arguments += ["--no-custom-instructions", "--disable-builtin-mcps", "--no-ask-user", "--no-auto-update"]
    stdin = f"{request.system}\n\n{request.text}\n"
    return [*arguments, "--no-remote", *_model_option(request)], stdin, {"COPILOT_HOME": str(folder / "home")}


def _call_opencode(request: ChatRequest, environment: Mapping[str, str], folder: Path) -> AgentCliCall:
    agent = {"mode": "primary", "prompt": request.system, "tools": {"*": False}, "permission": {"*": "deny"}}
    settings = {"agent": {"lorelog": agent}, "share": "disabled", "autoupdate": False}
    # With a title no model is asked for one.
    arguments = ["run", "--pure", "--format", "json", "--agent", "lorelog", "--title", "lorelog"]
    variables = {"OPENCODE_CONFIG_CONTENT": json.dumps(settings), "OPENCODE_DB": ":memory:"}
    return [*arguments, *_model_option(request)], request.text, variables


def _model_option(request: ChatRequest) -> list[str]:
    return ["--model", request.model] if request.model else []


def _link_files(source: Path, target: Path, is_wanted: Callable[[str], bool]) -> None:
    target.mkdir(parents=True)
    for path in source.iterdir() if source.is_dir() else ():
        if is_wanted(path.name):
            (target / path.name).symlink_to(path)


def _read_objects(output: bytes) -> list[dict[str, Any]]:
    """Return the JSON objects that a program printed: in one document, with or without text before it, or one a line."""
    for texts in ([output], [output[output.find(b"{") :]], output.splitlines()):
        found: list[object] = []
        for text in texts:
            with contextlib.suppress(ValueError, RecursionError):
                parsed = json.loads(text)
                found += parsed if isinstance(parsed, list) else [parsed]
        objects = [item for item in found if isinstance(item, dict)]
        if objects:
            return objects
    return []


def _read_claude(event: dict[str, Any]) -> AgentCliEvent:
    """Read the result of Claude Code or Qwen Code. Errors are results too, some of them with status 0."""
    usage = nested_object(event, "usage")
    tokens_in = sum_counts(usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    if not isinstance(event.get("result"), str):
        return "", None
    if event.get("is_error"):
        return event["result"] if tokens_in else "", None
    return event["result"], (tokens_in, sum_counts(usage, "output_tokens"))


def _read_codex(event: dict[str, Any]) -> AgentCliEvent:
    item, usage = nested_object(event, "item"), nested_object(event, "usage")
    if event.get("type") == "turn.completed":
        return "", (sum_counts(usage, "input_tokens"), sum_counts(usage, "output_tokens"))
    return str(item.get("text", "")) if item.get("type") == "agent_message" else "", None


def _read_gemini(event: dict[str, Any]) -> AgentCliEvent:
    if "response" not in event:
        return "", None
    counts = [nested_object(model, "tokens") for model in nested_object(event, "stats", "models").values()]
    tokens_out = sum(sum_counts(count, "candidates", "thoughts") for count in counts)
    return str(event["response"] or ""), (sum(sum_counts(count, "prompt") for count in counts), tokens_out)


def _read_copilot(event: dict[str, Any]) -> AgentCliEvent:
    if event.get("type") == "assistant.message":
        return str(nested_object(event, "data").get("content", "")), None
    return "", (0, 0) if event.get("type") == "result" else None  # it reports no tokens


def _read_opencode(event: dict[str, Any]) -> AgentCliEvent:
    if event.get("type") != "step_finish":
        return str(nested_object(event, "part").get("text", "")), None
    usage = nested_object(event, "part", "tokens")
    tokens_in = sum_counts(usage, "input") + sum_counts(nested_object(usage, "cache"), "read", "write")
    return "", (tokens_in, sum_counts(usage, "output", "reasoning"))


AGENT_CLI_ADAPTERS: Mapping[str, AgentCliAdapter] = {
    "claude": AgentCliAdapter("haiku", 1000 + _THINKING_TOKENS, _call_claude, _read_claude),
    # Its own instructions are 4,500 tokens, and its thinking is not limited.
    "codex": AgentCliAdapter("", 7000, _call_codex, _read_codex),
    "gemini": AgentCliAdapter("flash-lite", 5000, _call_gemini, _read_gemini),
    "qwen": AgentCliAdapter("", 6000, _call_qwen, _read_claude),
    "copilot": AgentCliAdapter("gpt-5-mini", 6000, _call_copilot, _read_copilot, "COPILOT_MODEL"),
    "opencode": AgentCliAdapter("", 5000, _call_opencode, _read_opencode),
}
"""Agents that can be asked, in the order in which they are looked for. The others' thinking is not limited either."""


class CommandLanguageModel:
    """Completes by running a program once."""

    provider = "command"
    extra_tokens = 0

    def __init__(self, options: LanguageOptions, environment: Mapping[str, str]) -> None:
        try:
            self._words = shlex.split(options.command)
        except ValueError as error:
            raise ConfigError(f"llm.command cannot be parsed: {error}", hint="close the quotes") from None
        if not self._words:
            raise ConfigError("llm.command names no program", hint="lorelog config set llm.command 'PROGRAM ARGUMENT'")
        self._environment = environment
        self._timeout_s = options.timeout_s
        self.model = options.model or Path(self._words[0]).name

    def check(self) -> str:
        """Return the program's path, or raise ModelUnavailable. Starts nothing.

        A relative path would refer to the empty directory that it runs in.
        """
        program = self._words[0]
        if program.startswith("~/"):
            program = _home(self._environment) + program[1:]
        return _require_program(program, self._environment, "set llm.command to its absolute path")

    def complete(self, system: str, text: str, max_tokens: int) -> Completion:
        command = [self.check(), *self._words[1:]]
        prompt = f"{system}\n\n{text}\n".encode("utf-8", "replace")
        status, output = run_child(command, prompt, child_environment(self._environment), self._timeout_s)
        if status != 0:
            # A program that has printed something may have used a paid model.
            error_type = ModelFault if output.strip() else ModelUnavailable
            raise error_type(f"{self.model} failed (status {status})", hint="run the command of llm.command in a shell")
        return Completion(output.decode("utf-8", "replace").strip())
