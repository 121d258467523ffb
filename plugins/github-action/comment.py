"""Runs `lorelog check` for a pull request, and keeps one comment up to date. Standard library only.

The status is 1 only if a guard blocks. If the check or GitHub fails, a warning says so, and the status is 0. What the comment quotes stands
in a code block, so that it is neither a mention nor HTML.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

MARK = "<!-- lorelog check -->"
_BLOCKED, _MAX_PAGES, _MAX_CHARS = 1, 20, 20_000


def main() -> int:
    event = json.loads(Path(os.environ.get("GITHUB_EVENT_PATH", os.devnull)).read_text("utf-8") or "{}")
    pull = event.get("pull_request") or {}
    diff = os.environ.get("CHECK_DIFF") or (
        f"{pull['base']['sha']}...{pull['head']['sha']}" if pull else "HEAD~1..HEAD"
    )
    done = run_check(f"--diff={diff}")
    if done.returncode not in (0, _BLOCKED):
        return warn(done.stderr)
    run_check(f"--diff={diff}", "--format=github", show=True)
    if pull and os.environ.get("CHECK_COMMENT", "true") == "true":
        try:
            write_comment(f"{event['repository']['full_name']}/issues", pull["number"], done.stdout)
        except (URLError, OSError, ValueError, LookupError) as error:  # a fork's token may not write
            warn(f"the comment was not written: {error}")
    return done.returncode


def run_check(*words: str, show: bool = False) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["lorelog", "check", *words], capture_output=not show, text=True, check=False)


def warn(text: str) -> int:
    print(f"::warning title=lorelog check::{' '.join(text.split()).replace('%', '%25')}")
    return 0


def write_comment(issues: str, number: int, text: str) -> None:
    """Update the comment of an earlier run; without one, write it only if there is something to say."""
    found = find_comment(f"{issues}/{number}/comments")
    if found is not None:
        ask("PATCH", f"{issues}/comments/{found}", {"body": format_comment(text)})
    elif not text.startswith("Nothing"):
        ask("POST", f"{issues}/{number}/comments", {"body": format_comment(text)})


def find_comment(path: str) -> int | None:
    for page in range(1, _MAX_PAGES):
        comments = ask("GET", f"{path}?per_page=100&page={page}")
        for comment in comments:
            if comment["user"]["type"] == "Bot" and str(comment["body"]).startswith(MARK):
                return int(comment["id"])
        if len(comments) < 100:
            break
    return None


def format_comment(text: str) -> str:
    text = text[:_MAX_CHARS].strip()
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{MARK}\n**lorelog check**: what this change runs against\n\n{fence}text\n{text}\n{fence}\n"


def ask(method: str, path: str, body: dict[str, str] | None = None) -> Any:
    api = os.environ.get("GITHUB_API_URL", "https://api.github.com")
    headers = {"Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}", "Accept": "application/vnd.github+json"}
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(f"{api}/repos/{path}", data, headers, method=method), timeout=30) as reply:
        return json.load(reply)


if __name__ == "__main__":
    sys.exit(main())
