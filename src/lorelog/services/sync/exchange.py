"""An exchange: its settings on this machine, and the branch of a Git remote whose newest commit holds the state of all machines.

Git only carries the files. Nothing is checked out and nothing is merged by Git: the newest commit is fetched alone, its files are
read, merged in Python and committed on top of it, and the commit is pushed if the branch is still where it was. Otherwise
another machine was faster, and the caller starts again. So there are no conflicts to resolve, and a command that is killed
leaves the remote as it was, or complete.

The repository is a bare one in the cache: deleting it loses nothing. Authentication is Git's own (ssh, credential
helpers); it is never asked for on the terminal. Hooks are off.

The settings are `sync/<name>.json` in the tenant's folder: the address, the projects, and what was exchanged last. They are of
this machine and are not exchanged. If they are lost, nothing else is: an entry that was edited on two machines is then kept
in both versions.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, ValidationError, convert, field, to_builtins

from lorelog.code.git import Git, GitResult, clean_environment, run_git
from lorelog.core.atomic_file import Writing
from lorelog.core.document import GLOBAL_PROJECT
from lorelog.core.errors import NotFound, StoreBusy, StoreDamaged, StoreUnreachable, UsageError
from lorelog.core.ids import new_id
from lorelog.core.paths import is_folder, join_path
from lorelog.core.processes import FileLock
from lorelog.ingest.redaction.redact import redact
from lorelog.services.backup.restore import write_whole_file
from lorelog.services.places.workspace import SYNC_COPIES, shared_name

BRANCH = "lorelog"
_TIMEOUT_S = 120.0
MAX_FILE_BYTES, MAX_JOURNAL_BYTES = 64 << 20, 4 << 20
"""Size of a file of the exchange, and of the journal of one day, above which it is not read."""
MAX_FILES, MAX_EXCHANGE_BYTES = 50_000, 256 << 20
"""Files of an exchange that are read, and their size. If there are more, the largest are left out."""
_MAX_OUTPUT_BYTES = 2 * MAX_EXCHANGE_BYTES
_OPTIONS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "commit.gpgSign=false",
    "push.gpgSign=false",
    "push.followTags=false",
    "protocol.ext.allow=never",
    "gc.auto=0",
    *("fetch.unpackLimit=1", "core.bigFileThreshold=1m"),  # a large file is streamed, not held in memory
    "maintenance.auto=false",
)
_KEPT_VARIABLES = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_SSL_CAINFO", "GIT_CONFIG_GLOBAL")
_SAFE_PATH = re.compile(r"(?:[\w][\w.+~=@-]*/)*[\w][\w.+~=@-]*")
_WRITER_FILE, KEY_FILE, KEY_BYTES = "writer.txt", "writer.key", 32
_NAME = re.compile(r"[\w][\w.-]{0,63}")
_BRANCH_NAME = re.compile(r"(?!.*(?:\.\.|//|/$|\.lock$|\.$))[\w][\w./-]{0,199}")
_SLUG_CHARS = re.compile(r"[^a-z0-9]+")
_WRITER_CHARS = 12
_SHA256_CHARS = 64
_MAX_STEM_CHARS = 50
_RACE_WORDS = (
    *("stale info", "fetch first", "non-fast-forward", "cannot lock ref", "failed to update ref"),
    *("incorrect old value", "reference already exists"),
)
"""What Git says of a branch that another machine changes at the same moment."""
FORMAT_FILE = "lorelog-sync.json"
_FETCHED, _NEXT = "refs/lorelog/fetched", "refs/lorelog/next"


class ExchangeMoved(Exception):
    """Another machine pushed at the same moment; the caller fetches and merges again."""


class PushRefused(Exception):
    """The remote was reached and does not take the commit: a hook or a rule of it says no."""


class ExchangeState(Struct, frozen=True):
    """The files of the newest commit. `commit` is empty if the branch does not exist yet."""

    commit: str
    files: Mapping[str, bytes]
    problems: tuple[str, ...] = ()
    """Files that were not read, and why."""


class Exchange:
    """One branch of a Git remote."""

    def __init__(
        self, folder: Path, url: str, branch: str = BRANCH, environment: Mapping[str, str] | None = None
    ) -> None:
        check_remote(url)
        self._folder, self._url, self._branch = folder, url, branch
        # Neither Git nor ssh asks anything.
        self._environment = clean_environment(os.environ if environment is None else environment, _KEPT_VARIABLES)
        if "GIT_SSH" not in self._environment:
            command = self._environment.get("GIT_SSH_COMMAND")
            self._environment["GIT_SSH_COMMAND"] = command or "ssh -oBatchMode=yes"

    def fetch(self) -> ExchangeState:
        """Fetch the newest commit and return its files. Raise StoreUnreachable."""
        listed = self._git("ls-remote", "--", self._url, f"refs/heads/{self._branch}")
        if listed.status:
            raise _unreachable(self._url, listed.errors)
        commit = listed.output.split()[0] if listed.output.strip() else b""
        is_sha256 = len(commit) == _SHA256_CHARS
        self._open(is_sha256=is_sha256)
        if not commit:
            return ExchangeState("", {})
        try:
            state = self._fetch()
        except (StoreDamaged, StoreUnreachable):  # the remote answered: our copy is damaged, or partly deleted
            self.drop()
            self._open(is_sha256=is_sha256)
            state = self._fetch()
        if FORMAT_FILE not in state.files and self._run("ls-tree", state.commit):
            raise StoreDamaged(
                f"the branch {self._branch} of {self._url} holds something else than an exchange",
                hint="choose another remote or branch; nothing was changed",
            )
        return state

    def _fetch(self) -> ExchangeState:
        before = self._git("rev-parse", "--verify", "--quiet", _FETCHED).output
        reference = f"+refs/heads/{self._branch}:{_FETCHED}"
        fetched = self._git("fetch", "--quiet", "--no-tags", "--depth=1", "--", self._url, reference)
        if fetched.status:
            raise _unreachable(self._url, fetched.errors)
        commit = self._run("rev-parse", "--verify", f"{_FETCHED}^{{commit}}").decode().strip()
        state = self._read_files(commit)
        if before.decode().strip() not in ("", commit):
            # The commit before may hold what was forgotten meanwhile, and every fetch would add to the repository.
            self._run("update-ref", "-d", _NEXT)
            self._run("gc", "--quiet", "--prune=now")
        return state

    def _read_files(self, commit: str) -> ExchangeState:
        """Return the regular files of a commit within the limits; other paths than ours are not read."""
        listed: list[tuple[int, str, str]] = []
        for row in self._run("ls-tree", "-r", "-l", "-z", commit).split(b"\0"):
            meta, _, raw = row.partition(b"\t")
            mode, _, name, length = (*meta.decode("ascii", "replace").split(), *[""] * 4)[:4]
            path = raw.decode("utf-8", "replace")
            if mode in {"100644", "100755"} and _SAFE_PATH.fullmatch(path) and ".." not in path:
                listed.append((int(length), path, name))
        names, problems, total = dict[str, str](), list[str](), 0
        for size, path, name in sorted(listed):
            limit = MAX_JOURNAL_BYTES if path.endswith(".md") else MAX_FILE_BYTES
            total += size
            if size > limit:
                problems.append(f"{path} was not read: it has {size:,} bytes, more than {limit:,}")
            elif total > MAX_EXCHANGE_BYTES or len(names) >= MAX_FILES:
                most = f"{MAX_FILES:,} files and {MAX_EXCHANGE_BYTES:,} bytes"
                problems.append(f"{path} was not read: an exchange has at most {most}")
            else:
                names[path] = name
        request = "".join(f"{name}\n" for name in names.values()).encode()
        output = self._run("cat-file", "--batch", stdin=request)
        files: dict[str, bytes] = {}
        position = 0
        for path in names:
            end = output.find(b"\n", position)
            header = output[position:end].split()
            if end < 0 or header[1:2] != [b"blob"]:  # an object is missing
                raise StoreDamaged(
                    f"{self._folder} lacks files of the exchange", hint=f"delete {self._folder}, and sync again"
                )
            size = int(header[2])
            files[path] = output[end + 1 : end + 1 + size]
            position = end + 1 + size + 1
        return ExchangeState(commit, files, tuple(problems))

    def push(self, before: ExchangeState, files: Mapping[str, bytes], message: str, *, user: str, machine: str) -> None:
        """Commit changed files on top of a state and push them. Files that are not ours stay as they are there.

        Raise ExchangeMoved, PushRefused or StoreUnreachable; then nothing was pushed.
        """
        name = "".join(char for char in user if char.isprintable() and char not in "<>") or "lorelog"
        who = f"{name} <{machine}@lorelog.invalid> {int(time.time())} +0000"
        body = message.encode("utf-8", "replace")
        head = f"feature done\nreset {_NEXT}\ncommit {_NEXT}\ncommitter {who}\ndata {len(body)}\n"
        parts = [head.encode(), body, f"\nfrom {before.commit}\n".encode() if before.commit else b"\n"]
        parts += [f"D {path}\n".encode() for path in sorted(before.files.keys() - files.keys())]
        for path, content in sorted(files.items()):
            if before.files.get(path) != content:
                parts += [f"M 100644 inline {path}\ndata {len(content)}\n".encode(), content, b"\n"]
        self._run("fast-import", "--quiet", "--force", stdin=b"".join((*parts, b"done\n")))
        lease = f"--force-with-lease=refs/heads/{self._branch}:{before.commit}"
        target = f"{_NEXT}:refs/heads/{self._branch}"
        pushed = self._git("push", "--quiet", "--porcelain", "--no-verify", lease, "--", self._url, target)
        if pushed.status:
            text = (pushed.output + b"\n" + pushed.errors).decode("utf-8", "replace")
            if any(words in text for words in _RACE_WORDS):
                raise ExchangeMoved(f"another machine pushed to {self._url} at the same moment")
            if "[remote rejected]" in text:
                said = [
                    line.removeprefix("remote:").strip() for line in text.splitlines() if line.startswith("remote:")
                ]
                reason = " ".join([text.partition("[remote rejected]")[2].partition("\n")[0].strip(" ()"), *said])
                raise PushRefused(f"{self._url} refused the push to the branch {self._branch}: {reason[:300]}")
            raise _unreachable(self._url, pushed.errors + pushed.output)

    def drop(self) -> None:
        """Delete the local repository. The next fetch makes a new one, which holds the newest commit only."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _open(self, *, is_sha256: bool = False) -> None:
        if not (self._folder / "HEAD").exists():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            kind = f"--object-format={'sha256' if is_sha256 else 'sha1'}"
            self._run("init", "--quiet", "--bare", "--template=", kind, str(self._folder))

    def _run(self, *words: str, stdin: bytes = b"") -> bytes:
        """Run a local Git command. Raise StoreDamaged if it fails: the repository is ours alone."""
        done = self._git(*words, stdin=stdin)
        if done.status:
            raise StoreDamaged(
                f"git {words[0]} failed: {done.error_text[:300]}", hint=f"delete {self._folder}, and sync again"
            )
        return done.output

    def _git(self, *words: str, stdin: bytes = b"") -> GitResult:
        options = [part for option in _OPTIONS for part in ("-c", option)]
        command = ["--git-dir", str(self._folder), *options, *words]
        try:
            done = run_git(command, self._environment, stdin=stdin, timeout_s=_TIMEOUT_S, max_bytes=_MAX_OUTPUT_BYTES)
        except FileNotFoundError as error:
            raise UsageError("git is not installed", hint="sync exchanges files by Git: install it") from error
        if done.status is None:
            raise StoreUnreachable(
                f"{self._url} did not answer within {_TIMEOUT_S:.0f} seconds, or sent more than"
                f" {_MAX_OUTPUT_BYTES >> 30} GiB",
                hint="nothing is lost; sync again later",
            )
        return done


def check_remote(url: str) -> None:
    """Raise UsageError for a text that Git would take for an option or a program, and for an address with a password."""
    login, _, host = url.partition("://")[2].partition("/")[0].rpartition("@")
    if ":" in login or (login and redact(login).kinds):
        raise UsageError(
            f"the address of the remote at {host[:200]} contains a password or a token, which would be stored and shown",
            hint="leave it out, and let a credential helper of Git or an SSH key log you in",
        )
    if not url or url.startswith("-") or "::" in url or not url.isprintable():
        raise UsageError(
            f"{url[:200]!r} is not a Git remote", hint="give a URL, as in git@host:me/memory.git, or a path"
        )


def absolute_remote(remote: str, directory: str) -> str:
    """Return a path as an absolute one, since the next sync may run elsewhere; addresses and names are kept."""
    first = remote.partition("/")[0]
    path = join_path(directory, remote)
    if ":" in first or ("/" not in remote and not is_folder(path)):
        return remote
    return os.path.normpath(path)


def _unreachable(url: str, text: bytes) -> StoreUnreachable:
    lines = [line for line in text.decode("utf-8", "replace").splitlines() if line.strip()]
    reason = next((line for line in lines if line.startswith(("fatal:", "error:", "ssh:"))), lines[0] if lines else "")
    return StoreUnreachable(
        f"{url} cannot be reached: {reason[:200] or 'git failed'}",
        hint="nothing is lost: what waits is sent by the next sync; try 'git ls-remote' on this address",
    )


class SyncSettings(Struct):
    """One exchange of this machine."""

    name: str
    url: str
    branch: str = BRANCH
    team: bool = False
    """True if other people use it, too: personal memories stay here, and theirs are not taken for the user's words."""
    projects: dict[str, str] = field(default_factory=dict)
    """Directories of chosen projects, and their names across machines. The global memories have no directory."""
    base: dict[str, dict[str, str]] = field(default_factory=dict)
    """Digests of the entries as they were exchanged last, by project name and key."""
    pending: dict[str, dict[str, str]] = field(default_factory=dict)
    """Digests of entries that a sync is writing here; empty after it."""
    seen: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Number of records of each writer that were seen, and the hash of the last one."""
    accepted: dict[str, str] = field(default_factory=dict)
    """Public keys of the writers that a person accepted as machines of the user, by writer. A team has none."""
    last: str = ""
    """Time of the last complete exchange."""


def project_slug(name: str) -> str:
    """Return the folder of a project in the exchange."""
    words = _SLUG_CHARS.sub("-", name.rpartition("/")[2].lower()).strip("-")[:40]
    return f"{words or 'project'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def project_name(project: str, chosen: str = "") -> str:
    """Return the name of a project across machines: a chosen one, its Git remote, or its first commit.

    Raise UsageError if it has none of them: a directory's name alone would mix up projects.
    """
    if chosen:
        return f"name:{chosen}"
    name, is_shallow = shared_name(project), False
    if not name and project != GLOBAL_PROJECT:
        git = Git(project)
        is_shallow = (git.run("rev-parse", "--is-shallow-repository") or b"").strip() == b"true"
        commits = None if is_shallow else git.run("rev-list", "--max-parents=0", "HEAD")
        first = sorted((commits or b"").decode("ascii", "replace").split())
        name = f"commit:{first[0]}" if first else ""
    if is_shallow and not name:
        raise UsageError(
            f"{project} is a shallow clone without the address of a server: its first commit is not there",
            hint="'git fetch --unshallow' gets it; or --as NAME, the same on every machine",
        )
    if not name:
        raise UsageError(
            f"{project} has neither a Git remote nor a commit, by which other machines would know it",
            hint="--as NAME gives it a name; use the same name on every machine",
        )
    return name


class SyncFolder:
    """The settings of all exchanges of a tenant."""

    def __init__(self, tenant_folder: Path) -> None:
        self.folder = tenant_folder / SYNC_COPIES

    def all(self) -> list[SyncSettings]:
        """Return all exchanges, by name."""
        return [self._read(path) for path in sorted(self.folder.glob("*.json"))]

    def find(self, remote: str, branch: str = "") -> SyncSettings | None:
        """Return an exchange by its name, or by its address and branch (default: any branch)."""
        known = [each for each in self.all() if branch in ("", each.branch)]
        by_name = next((each for each in known if each.name == remote), None)
        return by_name or next((each for each in known if each.url == remote), None)

    def add(self, url: str, *, name: str = "", team: bool = False, branch: str = "") -> SyncSettings:
        """Return a new exchange, which is not written yet. Raise NotFound if the text is only a name."""
        check_remote(url)
        if not any(char in url for char in "/:\\"):
            raise NotFound(
                f"there is no exchange {url!r}", hint="give the address of a Git remote, as in git@host:me/memory.git"
            )
        if branch and not _BRANCH_NAME.fullmatch(branch):
            raise UsageError(
                f"{branch[:100]!r} is not the name of a branch", hint="use letters, digits, '-', '_' and '/'"
            )
        taken = {each.name for each in self.all()}
        stem = name or _SLUG_CHARS.sub("-", url.rstrip("/").removesuffix(".git").rpartition("/")[2].lower()).strip("-")
        stem = stem[:_MAX_STEM_CHARS].strip("-") or "memory"
        chosen, number = stem, 1
        while chosen in taken:
            number += 1
            chosen = f"{stem}-{number}"
        if not _NAME.fullmatch(chosen) or (name and name in taken):
            raise UsageError(f"{name!r} cannot be the name of a new exchange", hint="one word that is not in use")
        return SyncSettings(chosen, url, branch or BRANCH, team)

    def write(self, settings: SyncSettings) -> None:
        """Write an exchange's settings atomically."""
        text = json.dumps(to_builtins(settings), ensure_ascii=False, indent=1)
        self._write(f"{settings.name}.json", text.encode("utf-8", "replace"))

    def remove(self, settings: SyncSettings) -> None:
        """Remove an exchange from this machine. Neither memories nor the remote are changed."""
        (self.folder / f"{settings.name}.json").unlink(missing_ok=True)

    def writer(self) -> str:
        """Return the id of this machine as a writer; random, so it tells nothing about the machine."""
        try:
            known = (self.folder / _WRITER_FILE).read_text("ascii").strip()
        except (OSError, ValueError):
            known = ""
        is_id = len(known) == _WRITER_CHARS and set(known) <= set("0123456789abcdef")
        return known if is_id else self.new_writer()

    def new_writer(self) -> str:
        """Return a new id, for a machine whose id another one uses, too: its home was copied."""
        identity = hashlib.sha256(f"{new_id()}{os.urandom(8).hex()}".encode()).hexdigest()[:_WRITER_CHARS]
        self._write(_WRITER_FILE, identity.encode())
        return identity

    def key(self) -> bytes:
        """Return the private key of this machine as a writer. No backup has it: a restored home is a new writer."""
        try:
            known = bytes.fromhex((self.folder / KEY_FILE).read_text("ascii"))
        except (FileNotFoundError, ValueError):
            known = b""
        if len(known) != KEY_BYTES:
            known = os.urandom(KEY_BYTES)
            self._write(KEY_FILE, known.hex().encode())
        return known

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of syncs of this tenant. Raise StoreBusy if another process does."""
        with Writing(self.folder, "created", hint="make it writable"):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(self.folder / "lock", StoreBusy("another sync is running", hint="wait until it has finished")):
            yield

    def _write(self, name: str, content: bytes) -> None:
        with Writing(self.folder / name, hint="free some space"):
            write_whole_file(self.folder / name, content, replaces=True)

    def _read(self, path: Path) -> SyncSettings:
        try:
            return convert(json.loads(path.read_text("utf-8")) | {"name": path.stem}, SyncSettings)
        except (OSError, ValueError, TypeError, ValidationError) as error:
            raise StoreDamaged(
                f"{path} cannot be read: {error}", hint="delete it, and set the exchange up again: lorelog sync REMOTE"
            ) from error
