"""Plan one exchange: what this machine gets, and what the exchange holds afterwards. Pure functions.

The files of an exchange are listed in docs/sync.md: journals by project, logs and records by writer.
A machine writes its own writer's files, and merges the journals. In another writer's files it only redacts records that were
forgotten. Files of projects and writers that it does not know stay as they are.

Whoever can push can write any file. So in a personal exchange a machine signs its files and lists the entries that it vouches
for. Only the files of writers whose key a person accepted count (`check_writers`), and only entries that one of them vouches for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import Any

from msgspec import Struct, field

from lorelog.core.errors import StoreDamaged, plural
from lorelog.core.ports import group_by
from lorelog.core.serializable import Serializable
from lorelog.light.delivery_files import is_iso_date
from lorelog.light.guard_check import parse_event
from lorelog.services.places.workspace import GLOBAL_NAME
from lorelog.services.records import keyring
from lorelog.services.sync import merge
from lorelog.services.sync.exchange import FORMAT_FILE, project_slug

FORMAT_VERSION = 1
GUARDS = "guards"
LOGS = ("lifecycle", "tombstones", "authored", GUARDS)
_TEAM_LOGS = ("authored",)
"""Of these, others only learn who wrote what: dates, deletions and guards are personal."""
_SIGNATURE, _LEDGER, _ENTRIES = "signature.json", "ledger.jsonl", "entries.txt"
MAX_ENTRY_CHARS, MAX_JOURNAL_ENTRIES = 1_000_000, 5_000
"""Length of an entry, and number of entries of a journal, above which they are not exchanged."""


class SyncLogLine(Struct, frozen=True):
    """A line of a log, as it is exchanged."""

    text: str
    memory: str = ""
    """Id of the memory that it is about; empty for a guard."""
    in_scope: bool = True
    """False for a guard of a project that is not exchanged."""


class MachineState(Struct, frozen=True, kw_only=True):
    """What a machine has, of the chosen projects."""

    writer: str
    user: str = ""
    """Name of the machine's user, as others see it."""
    team: bool = False
    entries: Mapping[str, Mapping[str, merge.SyncEntry]] = field(default_factory=dict)
    """Entries by project name and key. In a team, without personal ones."""
    logs: Mapping[str, Sequence[SyncLogLine]] = field(default_factory=dict)
    records: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Records of the chosen projects by id, in order, as JSON with the project's name."""
    record_ids: Collection[str] = frozenset()
    """Ids of all records of this machine."""
    forgotten: Mapping[str, str] = field(default_factory=dict)
    """Keys of entries and ids of records that were forgotten here, and when."""
    authored: Collection[str] = frozenset()
    """Ids of the memories that were written on this machine."""
    base: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    pending: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    seen: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    vouched: Collection[str] | None = None
    """Digests of the entries that accepted writers vouch for; None if all count, as in a team."""
    check_guard: Callable[[Mapping[str, Any]], str] = lambda _: ""
    """Returns why a guard that was added elsewhere is not taken over; empty if it is."""


class NewWriter(Serializable, Struct, frozen=True):
    """A writer of a personal exchange that nobody accepted here, or whose key changed."""

    id: str
    user: str
    """Name of its user, as it says itself."""
    fingerprint: str
    """Of its key; `lorelog sync --status` shows it on that machine."""
    key: str


class CheckedWriters(Struct, frozen=True, kw_only=True):
    """The files of an exchange by whether they count here."""

    files: Mapping[str, bytes]
    left_out: Mapping[str, bytes]
    vouched: Collection[str] | None = None
    new: tuple[NewWriter, ...] = ()
    problems: tuple[str, ...] = ()


class ExchangePlan(Struct, frozen=True, kw_only=True):
    """Files to push, and changes to apply here."""

    files: Mapping[str, bytes]
    """All files of the exchange, afterwards."""
    added: Mapping[str, Mapping[str, merge.SyncEntry]]
    """Entries to add here, by project name and key."""
    replaced: Mapping[str, Mapping[str, merge.SyncEntry]]
    """Entries that were edited elsewhere, by project name and by the digest of the text that they replace."""
    forget: tuple[str, ...]
    """Keys of entries and ids of records to forget here."""
    forgotten: Mapping[str, str]
    """Everything that is known to be forgotten, and when."""
    logs: Mapping[str, Sequence[str]]
    """Logs that change here, with all their lines."""
    records: tuple[Mapping[str, Any], ...]
    """Records to add here."""
    base: Mapping[str, Mapping[str, str]]
    """Digests to remember once the files were pushed."""
    received_base: Mapping[str, Mapping[str, str]]
    """Digests to remember before the push, once everything was written here."""
    pending: Mapping[str, Mapping[str, str]]
    """Digests of the exchange's texts that are written here; to remember before that."""
    seen: Mapping[str, tuple[int, str]]
    sent: Mapping[str, Mapping[str, merge.SyncEntry]]
    """Entries that the exchange does not have yet, or has with another text."""
    sent_records: int = 0
    conflicts: tuple[str, ...] = ()
    other_projects: tuple[str, ...] = ()
    """Names of projects in the exchange that are not chosen here."""
    users: Mapping[str, str] = field(default_factory=dict)
    """Names of the writers' users."""
    problems: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    """Guards that come from other machines: id and message."""
    new_writers: tuple[NewWriter, ...] = ()
    erases: bool = False
    """True if the exchange holds text that was forgotten, and loses it now."""
    is_fork: bool = False
    """True if another machine writes under this machine's id: a new id is needed, and nothing else of the plan counts."""


class _ParsedExchange(Struct):
    """The files of the exchange, parsed."""

    projects: dict[str, dict[str, merge.SyncEntry]] = field(default_factory=dict)
    slugs: dict[str, str] = field(default_factory=dict)
    chains: dict[str, merge.RecordChain] = field(default_factory=dict)
    logs: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    forgotten: dict[str, dict[str, str]] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def sign_files(files: Mapping[str, bytes], writer: str, seed: bytes) -> dict[str, bytes]:
    """Return the files of an exchange with the signature of one writer's."""
    digests = {name: _file_digest(name, content) for name, content in _files_of(files, writer).items()}
    key, proof = keyring.sign_bytes(seed, _signed_text(writer, digests))
    values = json.dumps({"key": key, "files": digests, "signature": proof}, sort_keys=True)
    return {**files, f"writers/{writer}/{_SIGNATURE}": f"{values}\n".encode()}


def _files_of(files: Mapping[str, bytes], writer: str) -> dict[str, bytes]:
    folder = f"writers/{writer}/"
    names = (path.removeprefix(folder) for path in files if path.startswith(folder))
    return {name: files[folder + name] for name in sorted(names) if name != _SIGNATURE}


def _file_digest(name: str, content: bytes) -> str:
    """Return what is signed of a file: its digest; of records the last hash, which stays if others redact one."""
    if name == _LEDGER:
        chain = merge.read_chain(content.decode("utf-8", "replace"))
        return f"{chain.fault}{len(chain.lines)}:{chain.head}"
    return hashlib.sha256(content).hexdigest()


def _signed_text(writer: str, digests: Mapping[str, Any]) -> bytes:
    return json.dumps(["lorelog-sync", writer, digests], sort_keys=True).encode()


def _read_signature(content: bytes, writer: str) -> tuple[str, dict[str, str]]:
    """Return the key that signed a writer's files, and their digests; nothing if the signature is not valid."""
    values = merge.json_object(content)
    key, proof = str(values.get("key")), str(values.get("signature"))
    digests = values.get("files")
    if not isinstance(digests, dict) or not keyring.verify_bytes(key, _signed_text(writer, digests), proof):
        return "", {}
    return key, digests


def check_writers(files: Mapping[str, bytes], own: str, accepted: Mapping[str, str]) -> CheckedWriters:
    """Return which files of a personal exchange count: those signed with an accepted key. `accepted` has this machine's own key, too."""
    left_out: set[str] = set()
    vouched: set[str] = set()
    new: list[NewWriter] = []
    problems: list[str] = []
    for writer in sorted({path.split("/")[1] for path in files if path.startswith("writers/")}):
        content = _files_of(files, writer)
        key, digests = _read_signature(files.get(f"writers/{writer}/{_SIGNATURE}", b""), writer)
        user = str(merge.json_object(content.get("writer.json", b"")).get("user", ""))[:80] or "unknown"
        wrong = [name for name in content if digests.get(name) != _file_digest(name, content[name])]
        if key not in accepted.values():
            wrong = list(content)
            if key:
                new.append(NewWriter(writer, user, keyring.short_fingerprint(key), key))
            if writer != own and (not key or writer in accepted):
                why = "are signed with another key than the one that you accepted" if key else "have no valid signature"
                problems.append(f"the files of {user} ({writer}) {why}: none is taken over")
        elif wrong:
            problems.append(f"not taken over, because {user} ({writer}) did not sign them: {', '.join(wrong)}")
        # The machine's own records are checked against those that are here.
        left_out |= {f"writers/{writer}/{name}" for name in wrong if (writer, name) != (own, _LEDGER)}
        if _ENTRIES not in wrong:
            vouched.update(content.get(_ENTRIES, b"").decode("ascii", "replace").split())
    return CheckedWriters(
        files={path: content for path, content in files.items() if path not in left_out},
        left_out={path: files[path] for path in left_out if path.split("/")[1] != own},  # its own are written anew
        vouched=vouched,
        new=tuple(new),
        problems=tuple(problems),
    )


def _parse_journal(file: str, text: str, problems: list[str]) -> list[merge.SyncEntry]:
    """Return the entries of a journal of the exchange that are within the limits."""
    problem = ""
    if is_iso_date(day := file.removesuffix(".md")):
        try:
            date.fromisoformat(day)
        except ValueError:
            problem = "there is no such day"
    if text.count("\n### ") > MAX_JOURNAL_ENTRIES:
        problem = f"it has more than {MAX_JOURNAL_ENTRIES:,} entries"
    if problem:
        problems.append(f"the journal {file} is not taken over: {problem}")
        return []
    entries = merge.read_journal(file, text)
    problems += [f"{long_entry(entry)} in {file}: it is not taken over" for entry in entries if long_entry(entry)]
    return [entry for entry in entries if not long_entry(entry)]


def long_entry(entry: merge.SyncEntry) -> str:
    """Return the name and length of an entry that is too long to be exchanged; empty for others."""
    size = len(entry.text)
    return f"{entry.key} has {size:,} characters, more than {MAX_ENTRY_CHARS:,}," if size > MAX_ENTRY_CHARS else ""


def _parse(files: Mapping[str, bytes]) -> _ParsedExchange:
    if files:
        version = merge.json_object(files.get(FORMAT_FILE, b"")).get("version")
        if version != FORMAT_VERSION:
            raise StoreDamaged(
                "the branch is not an exchange of this version of lorelog"
                if version is None
                else f"the exchange has version {version}",
                hint="update lorelog on this machine, or choose another remote or branch",
            )
    found = _ParsedExchange()
    journals: dict[str, list[merge.SyncEntry]] = {}
    for path, content in files.items():
        text = content.decode("utf-8", "replace")
        match path.split("/"):
            case ["projects", slug, "project.json"]:
                name = str(merge.json_object(content).get("name", ""))
                if project_slug(name) == slug:
                    found.slugs[name] = slug
            case ["projects", slug, "journals", file] if file.endswith(".md"):
                journals.setdefault(slug, []).extend(_parse_journal(file, text, found.problems))
            case ["writers", writer, "writer.json"]:
                found.users[writer] = str(merge.json_object(content).get("user", ""))
            case ["writers", writer, "ledger.jsonl"]:
                found.chains[writer] = merge.read_chain(text)
            case ["writers", writer, "forgotten.jsonl"]:
                lines = map(merge.json_object, content.splitlines())
                found.forgotten[writer] = {
                    str(line["key"]): str(line.get("at", "")) for line in lines if line.get("key")
                }
            case ["writers", writer, log] if log.removesuffix(".jsonl") in LOGS:
                lines_of = found.logs.setdefault(log.removesuffix(".jsonl"), {})
                lines_of[writer] = [line for line in text.split("\n") if line.strip()]
    for name, slug in found.slugs.items():
        found.projects[name] = merge.by_key(journals.get(slug, ()))
    return found


def writer_file(writer: str, log: str) -> str:
    """Return the path of a log of one machine in the exchange."""
    return f"writers/{writer}/{log}.jsonl"


def _journal_folder(name: str) -> str:
    return f"projects/{project_slug(name)}/journals/"


def read_journals(files: Mapping[str, bytes], name: str) -> dict[str, str]:
    """Return the journals of a project in the exchange, by file."""
    folder = _journal_folder(name)
    return {
        path.removeprefix(folder): content.decode("utf-8", "replace")
        for path, content in files.items()
        if path.startswith(folder)
    }


def find_writers(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return who wrote memories and records, by id: the name of the user, or else the id of the machine."""
    there = _parse(files)
    authored, writers = there.logs.get("authored", {}), dict[str, str]()
    for writer in sorted({*authored, *there.chains}, reverse=True):
        ids = [str(merge.json_object(line).get("memory", "")) for line in authored.get(writer, ())]
        ids += (str(record.get("id", "")) for record in there.chains.get(writer, merge.RecordChain()).records)
        writers |= dict.fromkeys(ids, there.users.get(writer) or writer)
    return writers


def plan_exchange(state: MachineState, files: Mapping[str, bytes]) -> ExchangePlan:
    """Return the plan of one exchange. Raise StoreDamaged if the files are of another format."""
    return _Planner(state, files).plan()


_PROJECT_FIELDS = ("added", "replaced", "sent", "base", "received_base", "pending")
"""Fields of a plan that are by project."""


def _plan_project(
    entries: Mapping[str, merge.SyncEntry],
    before: Mapping[str, str],
    here: Mapping[str, merge.SyncEntry],
    there: Mapping[str, merge.SyncEntry],
) -> dict[str, Mapping[str, Any]]:
    sent = {key: entry for key, entry in entries.items() if key not in there or there[key].digest != entry.digest}
    edited = {key: entry for key, entry in entries.items() if key in here and here[key].digest != entry.digest}
    digests = {key: entry.digest for key, entry in entries.items()}
    return {
        "added": {key: entry for key, entry in entries.items() if key not in here},
        "replaced": {here[key].digest: entry for key, entry in edited.items()},
        "sent": sent,
        "base": digests,
        "received_base": {
            key: before[key] if key in sent else digest
            for key, digest in digests.items()
            if key not in sent or key in before
        },
        "pending": {
            key: digest for key, digest in digests.items() if key not in sent and (key not in here or key in edited)
        },
    }


class _Planner:
    def __init__(self, state: MachineState, files: Mapping[str, bytes]) -> None:
        self._state, self._before = state, files
        self._there = _parse(files)
        self._files = dict(files)
        self._erases = False
        there = self._there
        self._problems, self._guards = there.problems, dict[str, str]()
        self._forgotten = {key: at for lines in there.forgotten.values() for key, at in lines.items()}
        self._forgotten |= dict(state.forgotten)
        # Of what was forgotten here, the exchange learns the keys of entries and records that it has, or had.
        known = {str(record.get("id")) for chain in there.chains.values() for record in chain.records}
        known.update(*there.projects.values(), *state.base.values())
        self._own_forgotten = there.forgotten.get(state.writer, {}) | {
            key: at for key, at in state.forgotten.items() if key in known
        }

    def plan(self) -> ExchangePlan:
        state, there = self._state, self._there
        parts: dict[str, Any] = {part: {} for part in _PROJECT_FIELDS}
        conflicts, digests = list[str](), set[str]()
        for name, entries in there.projects.items():
            if name not in state.entries:  # not chosen here: only what was forgotten is erased
                self._write_journals(name, entries, merge.merge_entries({}, {}, entries, self._forgotten)[0])
        for name, here in state.entries.items():
            there_all, before = there.projects.get(name, {}), state.base.get(name, {})
            held = self._hold_back(name, here)
            ours, theirs = ({key: each[key] for key in each if key not in held} for each in (here, there_all))
            merged, changed = merge.merge_entries(before, ours, theirs, self._forgotten, state.pending.get(name))
            self._write_journals(name, there_all, {**merged, **held})
            for part, values in _plan_project(merged, before, ours, theirs).items():
                parts[part][name] = values
            for part in ("base", "received_base"):
                parts[part][name] |= {key: before[key] for key in held if key in before}
            digests |= {entry.digest for entry in merged.values()}
            conflicts += changed
        keys = {key for digests in parts["base"].values() for key in digests}
        logs, records = self._plan_logs(keys), self._plan_records()
        self._files.setdefault(FORMAT_FILE, (json.dumps({"version": FORMAT_VERSION}) + "\n").encode())
        user = json.dumps({"user": state.user}, ensure_ascii=False) + "\n"
        self._files[f"writers/{state.writer}/writer.json"] = user.encode()
        if state.vouched is not None:
            self._files[f"writers/{state.writer}/{_ENTRIES}"] = _join(sorted(digests))
        if self._own_forgotten:
            lines = [json.dumps({"key": key, "at": at}) for key, at in sorted(self._own_forgotten.items())]
            self._files[writer_file(state.writer, "forgotten")] = _join(lines)
        return ExchangePlan(
            files=self._files,
            **parts,
            forget=self._to_forget(),
            forgotten=self._forgotten,
            logs=logs,
            **records,
            conflicts=tuple(conflicts),
            other_projects=tuple(sorted(set(there.projects) - set(state.entries))),
            users={**there.users, state.writer: state.user},
            problems=tuple(self._problems),
            guards=tuple(self._guards.values()),
            erases=self._erases,
        )

    def _hold_back(self, name: str, here: Mapping[str, merge.SyncEntry]) -> dict[str, merge.SyncEntry]:
        """Return the entries that stay in the exchange and are not taken over: no accepted writer vouches for them."""
        vouched, before = self._state.vouched, self._state.base.get(name, {})
        if vouched is None:
            return {}
        held = {
            key: entry
            for key, entry in self._there.projects.get(name, {}).items()
            if entry.digest not in {before.get(key), here[key].digest if key in here else ""}
            and entry.digest not in vouched
            and not merge.is_forgotten(key, self._forgotten)
        }
        if held:
            names = ", ".join(list(held)[:3])
            self._problems.append(
                f"no accepted writer vouches for {plural(len(held), 'text')}, not taken over: {names}"
            )
        return held

    def _to_forget(self) -> tuple[str, ...]:
        """Return what others forgot and this machine still has. In a team, nobody forgets what this machine wrote."""
        state = self._state
        wanted = [
            key
            for entries in state.entries.values()
            for key in entries
            if merge.is_forgotten(key, self._forgotten) and key not in state.forgotten
        ]
        redacted = {
            str(record.get("id"))
            for chain in self._there.chains.values()
            for record in chain.records
            if "redacted" in record and state.vouched is None  # anyone can redact a line, and nobody signs that
        }
        wanted += [
            identity
            for identity, record in state.records.items()
            if (identity in self._forgotten or identity in redacted) and "redacted" not in record
        ]
        if not state.team:
            return tuple(dict.fromkeys(wanted))
        writers: dict[str, set[str]] = {}
        for writer, chain in self._there.chains.items():
            for record in chain.records:
                writers.setdefault(str(record.get("id")), set()).add(writer)
        own = [
            key
            for key in dict.fromkeys(wanted)
            if key in state.authored or (key in state.records and state.writer in writers.get(key, {state.writer}))
        ]
        if own:
            self._problems.append(
                f"others forgot {len(own)} of your memories or records, which stay here: {', '.join(own[:3])}; "
                "'lorelog forget' erases them"
            )
        return tuple(key for key in dict.fromkeys(wanted) if key not in own)

    def _write_journals(
        self, name: str, before: Mapping[str, merge.SyncEntry], after: Mapping[str, merge.SyncEntry]
    ) -> None:
        folder = _journal_folder(name)
        project = json.dumps({"name": name}, ensure_ascii=False) + "\n"
        self._files.setdefault(f"projects/{project_slug(name)}/project.json", project.encode())
        own, former = _by_file(after.values()), _by_file(before.values())
        self._erases = self._erases or any(merge.is_forgotten(key, self._forgotten) for key in before)
        for file in former.keys() - own.keys():
            self._files.pop(folder + file, None)
        for file, entries in own.items():
            if entries != former.get(file):
                self._files[folder + file] = merge.render_journal(file, entries).encode("utf-8", "replace")

    def _plan_logs(self, keys: Collection[str]) -> dict[str, Sequence[str]]:
        """Write the logs of this writer, and return those that change here."""
        state = self._state
        changed: dict[str, Sequence[str]] = {}
        for log in LOGS:
            writers = {
                writer: [
                    line
                    for line in lines
                    if not merge.is_forgotten(str(merge.json_object(line).get("memory") or ""), self._forgotten)
                ]
                for writer, lines in self._there.logs.get(log, {}).items()
            }
            foreign = {line for writer, lines in writers.items() if writer != state.writer for line in lines}
            here = list(state.logs.get(log, ()))
            mine = [line for line in here if line.text not in foreign]
            unsent = self._unsent_guards(here, writers) if log == GUARDS else frozenset()
            shared = [line.text for line in mine if line.in_scope and (not line.memory or line.memory in keys)]
            shared = [line for line in shared if not unsent or merge.json_object(line).get("id") not in unsent]
            if state.team and log not in _TEAM_LOGS:
                shared = []
            own = list(dict.fromkeys([*writers.get(state.writer, ()), *shared]))
            self._files.pop(writer_file(state.writer, log), None)
            if own:
                self._files[writer_file(state.writer, log)] = _join(own)
            if not state.team:
                merged = merge.merge_logs(state.writer, {**writers, state.writer: [line.text for line in mine]})
                fresh = foreign - {line.text for line in here}
                known = self._guard_ids(merged, foreign, fresh) if log == GUARDS else keys
                wanted = [line for line in merged if line not in foreign or self._may_add(log, line, known)]
                if wanted != [line.text for line in here]:
                    changed[log] = wanted
        return changed

    def _may_add(self, log: str, line: str, known: Collection[str]) -> bool:
        """Return True for lines about memories or guards that are here. A guard's line that cannot be read would stop them all."""
        values = merge.json_object(line)
        if log != GUARDS:
            return isinstance(values.get("at"), str) and str(values.get("memory", "")) in known
        return _is_guard_event(values) and values["id"] in known

    def _guard_ids(self, lines: Iterable[str], foreign: Collection[str], fresh: Collection[str]) -> set[str]:
        """Return the ids of guards that were added here, or elsewhere for a project that is here; `fresh` lines are checked."""
        found, refused = set[str](), set[str]()
        for line in lines:
            event = merge.json_object(line)
            identity, project = str(event.get("id")), str(event.get("project") or "") or GLOBAL_NAME
            if event.get("event") != "add" or not (line not in foreign or project in self._state.entries):
                continue
            found.add(identity)
            if line in fresh and _is_guard_event(event):
                name = f"{identity} ({event.get('message')})"
                if problem := self._state.check_guard(event):
                    self._problems.append(f"the guard {name} is not taken over: {problem}")
                    refused.add(identity)
                self._guards[identity] = name
        self._guards = {identity: name for identity, name in self._guards.items() if identity not in refused}
        return found - refused

    def _unsent_guards(self, here: Iterable[SyncLogLine], writers: Mapping[str, Sequence[str]]) -> frozenset[str]:
        """Return the ids of guards that were removed before the exchange had them: there is nothing to send of them."""
        removed: dict[str, bool] = {}
        for line in here:
            event = merge.json_object(line.text)
            if event.get("event") in {"add", "remove"}:
                removed[str(event.get("id"))] = event["event"] == "remove"
        known = {str(merge.json_object(line).get("id")) for lines in writers.values() for line in lines}
        return frozenset(identity for identity, is_gone in removed.items() if is_gone and identity not in known)

    def _plan_records(self) -> dict[str, Any]:
        """Write the chain of this writer, and return the fields of a plan that are about records."""
        state, there = self._state, self._there
        seen = dict(state.seen)
        chain = there.chains.get(state.writer, merge.RecordChain())
        count, head = seen.get(state.writer, (0, ""))
        unknown = [record for record in chain.records if str(record.get("id")) not in state.record_ids]
        if chain.fault or unknown or not merge.extends(chain, count, head):
            return {"records": (), "seen": seen, "is_fork": True}
        fresh: dict[str, Mapping[str, Any]] = {}
        elsewhere: set[str] = set()
        for writer, other in sorted(there.chains.items()):
            if writer == state.writer:
                continue
            elsewhere |= {str(record.get("id")) for record in other.records}
            who = there.users.get(writer) or writer
            if not merge.extends(other, *seen.get(writer, (0, ""))):
                self._problems.append(
                    f"the records of {who} ({writer}) were rewritten since the last sync: none is taken over"
                )
                continue
            if other.fault:
                self._problems.append(
                    f"the records of {who} ({writer}) are broken, {other.fault}: those before it are taken over"
                )
            seen[writer] = (len(other.lines), other.head)
            for record in other.records:
                identity, project = str(record.get("id", "")), str(record.get("project", "")) or GLOBAL_NAME
                is_known = not identity or identity in state.record_ids
                is_erased = identity in self._forgotten and "redacted" not in record
                if not is_known and not is_erased and project in state.entries:
                    fresh[identity] = record
            self._redact_chain(writer, other)
        own = {identity: record for identity, record in state.records.items() if identity not in elsewhere}
        extended = merge.extend_chain(chain, own)
        if extended.lines[: len(chain.lines)] != chain.lines:
            self._erases = True
        if extended.lines:
            self._files[writer_file(state.writer, "ledger")] = _join(extended.lines)
        seen[state.writer] = (len(extended.lines), extended.head)
        sent = len(extended.lines) - len(chain.lines)
        return {"records": tuple(fresh.values()), "seen": seen, "sent_records": sent}

    def _redact_chain(self, writer: str, chain: merge.RecordChain) -> None:
        """Take records that were redacted here out of the chain of another writer."""
        own = {identity: record for identity, record in self._state.records.items() if "redacted" in record}
        lines = [
            merge.redacted_line(line, own[name]) if name in own and "redacted" not in record else line
            for line, record in zip(chain.lines, chain.records, strict=True)
            for name in [str(record.get("id"))]
        ]
        if tuple(lines) != chain.lines and not chain.fault:
            self._files[writer_file(writer, "ledger")] = _join(lines)
            self._erases = True


def _is_guard_event(values: Mapping[str, Any]) -> bool:
    try:
        parse_event(values)
    except ValueError:
        return False
    return True


def _by_file(entries: Iterable[merge.SyncEntry]) -> dict[str, list[merge.SyncEntry]]:
    return group_by(sorted(entries, key=lambda entry: entry.order), lambda entry: entry.file)


def _join(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
