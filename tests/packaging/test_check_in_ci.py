"""The GitHub Action and the pre-commit hook, by running what they run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from tests.services.changes.changed import Changed

from lorelog.core.caller import AGENT_MARKERS

ROOT = Path(__file__).resolve().parents[2]
ACTION = ROOT / "plugins" / "github-action"


class GitHub(ThreadingHTTPServer):
    """The comments of one pull request, as GitHub's API keeps them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.calls: list[str] = []
        self.comments: list[dict[str, Any]] = [self.comment("<!-- lorelog check --> of a person", "User")]

    def comment(self, body: str, kind: str = "Bot") -> dict[str, Any]:
        return {"id": len(getattr(self, "comments", ())) + 1, "body": body, "user": {"type": kind}}


class _Handler(BaseHTTPRequestHandler):
    server: GitHub

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)).get("body", "") if length else ""
        place = self.path.partition("?")[0].removeprefix("/repos/shop/cart/issues/")
        self.server.calls.append(f"{self.command} {place}")
        if self.headers["Authorization"] != "Bearer secret":
            self.send_response(403)
            self.end_headers()
            return
        if self.command == "POST":
            self.server.comments.append(self.server.comment(body))
        elif self.command == "PATCH":
            self.server.comments[int(place.rpartition("/")[2]) - 1]["body"] = body
        data = json.dumps(self.server.comments).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Say nothing."""


for method in ("GET", "POST", "PATCH"):
    setattr(_Handler, f"do_{method}", _Handler._answer)


@pytest.fixture
def github() -> Iterator[GitHub]:
    server = GitHub()
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def repository(tmp_path: Path) -> Changed:
    """A repository with a rule, and a commit that breaks it after one that does not."""
    repository = Changed(tmp_path).begin()
    repository.write("AGENTS.md", "- Use `pnpm`, not `npm`. @everybody ``` <b>\n")
    repository.commit("rules")
    repository.edit(".github/workflows/ci.yml", "run: pnpm install", "run: npm ci")
    repository.commit("npm")
    return repository


def environment(repository: Changed, **more: str) -> dict[str, str]:
    """Return an environment as a person's shell has it, with the `lorelog` of this checkout."""
    own = {name: value for name, value in os.environ.items() if name not in AGENT_MARKERS}
    home = {"HOME": str(repository.place), "LORELOG_HOME": str(repository.place / "home")}
    off = {"LORELOG_EMBEDDING_PROVIDER": "none", "LORELOG_DAEMON_WARM": "off"}
    who = {f"GIT_{who}_{name}": "mara@example.org" for who in ("AUTHOR", "COMMITTER") for name in ("NAME", "EMAIL")}
    return own | home | off | who | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"} | more


def run_action(repository: Changed, github: GitHub, base: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the last step of the action as GitHub does, for a pull request from a commit."""
    pull = {
        "number": 7,
        "base": {"sha": repository.git("rev-parse", base)},
        "head": {"sha": repository.git("rev-parse", "HEAD")},
    }
    event = repository.place / "event.json"
    event.write_text(json.dumps({"pull_request": pull, "repository": {"full_name": "shop/cart"}}), "utf-8")
    step = yaml.safe_load((ACTION / "action.yml").read_text("utf-8"))["runs"]["steps"][-1]
    given = {"GITHUB_ACTION_PATH": str(ACTION), "GITHUB_EVENT_PATH": str(event), "GITHUB_TOKEN": "secret"}
    given |= {"GITHUB_API_URL": f"http://127.0.0.1:{github.server_port}"}
    words = ["bash", "-e", "-c", step["run"]]
    return subprocess.run(
        words,
        cwd=repository.root,
        env=environment(repository, **given | more),
        capture_output=True,
        text=True,
        check=False,
    )


def test_one_comment_is_kept_up_to_date(repository: Changed, github: GitHub) -> None:
    """The first finding writes a comment, later runs change it, a person's comment is left alone, and what is quoted stands in a code block."""
    assert run_action(repository, github, "HEAD").returncode == 0
    assert github.calls == ["GET 7/comments"]
    done = run_action(repository, github, "HEAD~1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "::notice file=.github/workflows/ci.yml,line=5" in done.stdout
    assert github.calls[1:] == ["GET 7/comments", "POST 7/comments"]
    body = github.comments[1]["body"]
    assert "adds `npm ci`" in body
    assert body.count("````") == 2
    assert body.endswith("````\n")
    run_action(repository, github, "HEAD")
    assert github.calls[3:] == ["GET 7/comments", "PATCH comments/2"]
    assert "Nothing known speaks against it" in github.comments[1]["body"]
    assert github.comments[0]["body"].endswith("of a person")


def test_only_a_guard_fails_the_action(repository: Changed, github: GitHub) -> None:
    """A token that may not write and a commit that is not there are warnings; a guard of the home that blocks fails the step."""
    done = run_action(repository, github, "HEAD~1", GITHUB_TOKEN="none")
    assert done.returncode == 0
    assert "::warning title=lorelog check::the comment was not written: HTTP Error 403" in done.stdout
    done = run_action(repository, github, "HEAD~1", CHECK_DIFF="nowhere..HEAD")
    assert done.returncode == 0
    assert "there is no commit 'nowhere'" in done.stdout
    repository.guard(paths=[".github/**"])
    assert run_action(repository, github, "HEAD~1").returncode == 1


def test_inputs_reach_the_shell_as_variables() -> None:
    """No step of the action has an expression in its script: what a pull request says reaches the shell as variables only."""
    steps = yaml.safe_load((ACTION / "action.yml").read_text("utf-8"))["runs"]["steps"]
    assert [step["run"] for step in steps if "${{" in step["run"]] == []


def test_the_hook_stops_a_commit_for_a_guard_only(repository: Changed) -> None:
    """As a pre-commit hook, the check shows findings of `git commit -a` and lets it through, also without lorelog, unless a guard blocks."""
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert (hook["language"], hook["pass_filenames"]) == ("script", False)
    script = repository.root / ".git" / "hooks" / "pre-commit"
    script.write_text(f"#!/bin/sh\nexec {ROOT / hook['entry']}\n", "utf-8")
    script.chmod(0o755)
    repository.write("build.sh", "set -e\n")
    repository.commit("build")
    repository.write("build.sh", "npm ci\n")
    commit = ["git", "-C", str(repository.root), "commit", "-a", "-m", "build"]
    done = subprocess.run(commit, env=environment(repository), capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "build.sh:1  adds `npm ci`" in done.stdout + done.stderr
    repository.guard(paths=["build.sh"])
    repository.write("build.sh", "pnpm install\n")
    done = subprocess.run(commit, env=environment(repository), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "guard, blocks" in done.stdout + done.stderr
    for folder in ("", str(repository.place)):  # a lorelog that is not there, or fails
        (repository.place / "lorelog").write_text("#!/bin/sh\nexit 2\n", "utf-8")
        (repository.place / "lorelog").chmod(0o755)
        more = {"PATH": f"{folder}:/usr/bin:/bin"}
        done = subprocess.run(commit, env=environment(repository, **more), capture_output=True, text=True, check=False)
        assert done.returncode == 0
        repository.write("build.sh", f"pnpm install {folder}\n")
