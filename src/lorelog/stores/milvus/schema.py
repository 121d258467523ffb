"""Milvus collections: their names and fields, the encoding of words, and filter expressions.

Every text in an expression goes through `quote`.

Milvus Lite has no tokenizer that splits at blanks only, so words are encoded in lower-case letters and digits, which
none splits: one word of ours is one token. Words with other characters become a hash; so do words that begin with "z",
which marks hashes.

The field names are those of memsearch. The key is not the chunk's id, which depends on lines and so passes from chunk
to chunk as a file is edited: it is the index and the row in its catalog, which is never reused. A chunk that has no
vector yet has zeros and `has_vector` false: Milvus accepts no row without a vector, and separate collections would
double a resource that clusters limit.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

from lorelog.core.document import DATE_IN_TEXT, DATE_OF_FILE, Anchor, Chunk, StoredChunk
from lorelog.core.ports import MIN_BM25_WORDS
from lorelog.core.query import Filters, Term
from lorelog.core.sqlite_file import batches, placeholders
from lorelog.stores.embedded import vector_file
from lorelog.stores.embedded.catalog_reader import space_model
from lorelog.stores.embedded.rows import CHUNK_COLUMNS, day_number, read_chunk

if TYPE_CHECKING:
    from pymilvus import MilvusClient

LAST_CHARACTER = "\U0010ffff"
"""The last Unicode code point."""
_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quote(text: str) -> str:
    """Return a text as a literal. Escapes only characters that Milvus and Milvus Lite read alike."""
    return '"' + "".join(_ESCAPED.get(character, character) for character in text) + '"'


def in_values(field: str, values: Iterable[str]) -> str:
    """Return the expression: the field is one of these texts."""
    return f"{field} in [{', '.join(map(quote, values))}]"


def owned_by(home: str, projects: Iterable[str] | None = None) -> str:
    """Return the expression: the row belongs to this index and to one of these projects; collections may be shared."""
    own = f"home == {quote(home)}"
    if projects is None:
        return own
    return f"{own} and {in_values('project', (fit_text(project, MAX_PATH_BYTES) for project in projects))}"


def starts_with(field: str, text: str) -> str:
    """Return the expression: the field has a prefix. Two comparisons, so that no character is a wildcard."""
    return f"({field} >= {quote(text)} and {field} < {quote(text + LAST_CHARACTER)})"


def shared_by(homes: Iterable[str], names: Iterable[str]) -> str:
    """Return the expression: the row is shared by one of these indexes, about a project with one of these names."""
    return f"{in_values('home', homes)} and {in_values('shared', names)}"


def filter_expression(filters: Filters, owner: str, *, embedded: bool = False) -> str:
    """Return the expression for filters on the rows that match `owner`; with `embedded`, only rows with a vector.

    `owner` includes the projects, whose ids differ between machines. A source prefix is two comparisons, as in the catalog,
    and never a pattern: quotes, `%` and `_` have no special meaning.
    """
    clauses = [owner]
    if embedded:
        clauses.append("has_vector == true")
    if filters.source_prefix:
        prefix = filters.source_prefix.rstrip("/")
        # '0' is the character after '/', so this range is everything below the directory.
        below = f"(source >= {quote(prefix + '/')} and source < {quote(prefix + '0')})"
        clauses.append(f"(source == {quote(filters.source_prefix)} or {below})")
    if filters.since:
        clauses.append(f"day >= {day_number(filters.since)}")
    if filters.until:
        clauses.append(f"(day > 0 and day <= {day_number(filters.until)})")
    if filters.types:
        clauses.append(in_values("type", (fit_text(type_, MAX_TYPE_BYTES) for type_ in filters.types)))
    clauses += [f"array_contains(tags, {quote(fit_text(tag, MAX_TAG_BYTES))})" for tag in filters.tags]
    return " and ".join(clauses)


ANALYSER_PARAMS = {"tokenizer": "standard"}
BM25_K1, BM25_B = 1.2, 0.75
FILLER = "zz"
"""Pads a short text to the minimum length of BM25; no word is encoded like this."""

_PLAIN_WORD = re.compile(r"[a-y0-9][a-z0-9]{0,39}")
_MAX_FIELD_BYTES = 65_000


@lru_cache(maxsize=65_536)
def encode_word(word: str) -> str:
    if _PLAIN_WORD.fullmatch(word):
        return word
    return "z" + hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


def encode_query(terms: Sequence[Term]) -> str:
    """Return a query for Milvus' BM25: terms with a higher weight are repeated."""
    lowest = min(term.weight for term in terms) or 1.0
    copies = [max(1, min(8, round(term.weight / lowest))) for term in terms]
    return " ".join(encode_word(term.text) for term, count in zip(terms, copies, strict=True) for _ in range(count))


def encode_words(words: Sequence[str]) -> str:
    """Return a text of words, padded to the minimum length. If it is too long for a field, each word once, truncated."""
    names = [encode_word(word) for word in words]
    text = " ".join([*names, *[FILLER] * (MIN_BM25_WORDS - len(names))])
    if len(text) <= _MAX_FIELD_BYTES:
        return text
    once = " ".join(dict.fromkeys(names))
    return once if len(once) <= _MAX_FIELD_BYTES else once[:_MAX_FIELD_BYTES].rpartition(" ")[0]


COLLECTION_FORMAT = 2
"""Part of every collection's name, so that rows of another format are in another collection."""
UNKNOWN_WIDTH = 2
"""Width of vectors as long as no model has returned one."""
MAX_TEXT_BYTES = 65_000
MAX_TAGS = 1024
MAX_TAG_BYTES = 2000
MAX_TYPE_BYTES = 1000
MAX_PATH_BYTES = 8000
_MAX_NAME_LETTERS = 40


def collection_name(prefix: str, tenant: str, project: str | None, space: str, width: int) -> str:
    """Return the collection of a project, or of all projects (None). Two tenants or two models never share one.

    `project` is the name that all machines use, if there is one: then they share the collection.
    """
    readable = "all" if project is None else _slug(project.rstrip("/").removesuffix("/.git").rpartition("/")[2])
    return _name(prefix, tenant, readable or "global", space, _digest(project, width))


def registry_name(prefix: str, tenant: str, space: str) -> str:
    """Return the collection in which machines publish what they share."""
    return _name(prefix, tenant, "machines", space, _digest("machines"))


def is_collection_of(name: str, tenant: str, space: str) -> bool:
    """Return True if a collection belongs to this tenant and model, whatever its prefix."""
    return name.rpartition("_")[2].startswith(_digest(tenant, space, COLLECTION_FORMAT))


def make_collection(client: MilvusClient, name: str, width: int) -> None:
    """Create a collection, ready to be searched."""
    from pymilvus import DataType, Function, FunctionType

    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)

    def add(field: str, kind: Any, **more: Any) -> None:
        schema.add_field(field, kind, **more)

    add("key", DataType.VARCHAR, max_length=64, is_primary=True)
    for field in ("chunk_hash", "content_hash"):
        add(field, DataType.VARCHAR, max_length=64)
    add("dense_vector", DataType.FLOAT_VECTOR, dim=width)
    add("content", DataType.VARCHAR, max_length=65_535, enable_analyzer=True, analyzer_params=ANALYSER_PARAMS)
    add("sparse_vector", DataType.SPARSE_FLOAT_VECTOR)
    for field in ("text", "about"):
        add(field, DataType.VARCHAR, max_length=65_535)
    for field in ("source", "heading", "project", "shared"):
        add(field, DataType.VARCHAR, max_length=MAX_PATH_BYTES + 192)
    for field in ("heading_level", "start_line", "end_line", "day", "row"):
        add(field, DataType.INT64)
    for field in ("type", "memory"):
        add(field, DataType.VARCHAR, max_length=1024)
    add("tags", DataType.ARRAY, element_type=DataType.VARCHAR, max_capacity=MAX_TAGS, max_length=2048)
    add("home", DataType.VARCHAR, max_length=64)
    add("has_vector", DataType.BOOL)
    schema.add_function(Function("words", FunctionType.BM25, ["content"], ["sparse_vector"]))
    indexes = client.prepare_index_params()
    indexes.add_index("dense_vector", index_type="AUTOINDEX", metric_type="COSINE")
    indexes.add_index(
        "sparse_vector",
        index_type="SPARSE_INVERTED_INDEX",
        metric_type="BM25",
        params={"bm25_k1": BM25_K1, "bm25_b": BM25_B},
    )
    for field in ("home", "project", "shared", "source", "type", "memory", "day"):
        indexes.add_index(field, index_type="INVERTED")
    client.create_collection(name, schema=schema)
    # Not waited for: the collection is empty, and each check for completion takes half a second.
    client.create_index(name, indexes, sync=False)
    client.load_collection(name)


def fit_text(text: str, max_bytes: int) -> str:
    """Return a text for a field that is only compared for equality: a text that is too long ends with its hash."""
    if len(text) <= max_bytes // 4 or len(text.encode("utf-8", "replace")) <= max_bytes:
        return truncate_text(text, max_bytes)
    return truncate_text(text, max_bytes - 20) + "#" + _digest(text)


def truncate_text(text: str, max_bytes: int) -> str:
    """Return a text truncated to the size of a field, without lone surrogates."""
    encoded = text.encode("utf-8", "replace")
    return encoded[:max_bytes].decode("utf-8", "ignore")


def _name(prefix: str, tenant: str, readable: str, space: str, suffix: str) -> str:
    return f"{prefix}_{_slug(tenant)}_{readable}_{_digest(tenant, space, COLLECTION_FORMAT)}{suffix}"


def _digest(*values: object) -> str:
    return hashlib.sha256(json.dumps(values).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:_MAX_NAME_LETTERS]


Row = dict[str, Any]

_DATE = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?)?")

_MAX_CALL_BYTES = 4_000_000
"""Of one call. Servers accept 64 MB, but many rows at once make them slow."""
READ_FIELDS = (
    "key", "chunk_hash", "content_hash", "home", "shared", "source", "heading", "heading_level", "start_line", "end_line", "text", "type", "tags",
    "has_vector", "about",
)  # fmt: skip
"""Fields that a chunk of another machine is read from."""


class RowOwner(Struct, frozen=True):
    """The index and model that rows are sent for."""

    home: str
    space: str
    width: int
    words: Callable[[str], Sequence[str]]
    """Returns the words of a text."""
    shared_name: Callable[[str, str], str]
    """Returns the shared name of a file's project, by project and source; empty for files that are not shared."""


def rows_to_send(database: sqlite3.Connection, rows: Sequence[int], owner: RowOwner) -> Iterator[list[Row]]:
    """Yield the rows to send in batches of one project each; rows that no longer exist are skipped."""
    for part in batches(rows):
        # CROSS JOIN fixes the order: the few given rows first, then the one vector of each key.
        found = database.execute(
            f"SELECT v.slot, {CHUNK_COLUMNS} FROM chunks c CROSS JOIN documents d ON d.id = c.document "
            "LEFT JOIN vectors v ON v.space = (SELECT id FROM spaces WHERE name = ?) AND v.key = c.vector_key "
            f"WHERE c.row IN ({placeholders(part)}) ORDER BY c.project, c.row",
            (owner.space, *part),
        ).fetchall()
        slots = [slot for slot, *_ in found if slot is not None]
        stored_vectors = vector_file.read_vectors(database, vector_file.find_space(database, owner.space), slots)
        vectors = dict(zip(slots, stored_vectors, strict=True))
        batch: list[Row] = []
        size = 0
        for slot, *columns in found:
            stored = read_chunk(tuple(columns), current_space=True)
            row = _row(int(stored.key), stored.chunk, vectors.get(slot), owner.home, owner.width)
            row["content"] = encode_words(owner.words(stored.chunk.matched_text))
            row["project"] = fit_text(stored.project, MAX_PATH_BYTES)
            row["shared"] = fit_text(owner.shared_name(stored.project, stored.chunk.source), MAX_PATH_BYTES)
            # Rows are pushed before their model is served, so they get the ids of that model.
            row["chunk_hash"] = stored.chunk.identify(space_model(owner.space))
            if batch and (size > _MAX_CALL_BYTES or batch[-1]["project"] != row["project"]):
                yield batch
                batch, size = [], 0
            batch.append(row)
            size += 4 * owner.width + len(row["content"]) + 2 * (len(row["text"]) + len(row["about"])) + 500
        if batch:
            yield batch


def text_row(home: str, number: int, text: str, width: int) -> Row:
    """Return a row with a text about an index; it is not a chunk, and neither words nor vectors find it.

    Row 0 marks a collection as ours.
    """
    return {**_row(number, Chunk("", "", 0, (), 0, 0, text, text), None, home, width), "content_hash": ""}


def row_key(home: str, row: int) -> str:
    return f"{home}:{row}"


def _row(number: int, chunk: Chunk, vector: bytes | None, home: str, width: int) -> Row:
    """Return the row of a chunk without its words, its project and its id."""
    import numpy as np

    return {
        "key": row_key(home, number),
        "chunk_hash": "",
        "content_hash": chunk.content_hash,
        "dense_vector": [0.0] * width if vector is None else np.frombuffer(vector, dtype="<f4"),
        "has_vector": vector is not None,
        "content": "",
        "text": truncate_text(chunk.content, MAX_TEXT_BYTES),
        "source": truncate_text(chunk.source, MAX_PATH_BYTES),
        "heading": truncate_text(chunk.heading, MAX_PATH_BYTES),
        "project": "",
        "heading_level": chunk.heading_level,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "day": day_number(chunk.date),
        "row": number,
        "type": fit_text(chunk.type, MAX_TYPE_BYTES),
        "tags": [fit_text(tag, MAX_TAG_BYTES) for tag in chunk.tags[:MAX_TAGS]],
        "home": home,
        "shared": "",
        "memory": truncate_text(chunk.memory, 1000),
        "about": _about_json(chunk),
    }


def _about_json(chunk: Chunk) -> str:
    """Return the rest of a chunk that other machines need, as JSON, reduced to the size of a field."""
    least = {"date": chunk.date, "piece": chunk.piece}
    basics = {**least, "context": chunk.context, "heading_path": chunk.heading_path}
    if chunk.date_source == DATE_OF_FILE:
        basics["date_source"] = chunk.date_source
    if chunk.anchor is not None:
        # Without the memories it covers, which only its own machine needs: there can be thousands.
        basics["anchor"] = {name: value for name, value in asdict(chunk.anchor).items() if value and name != "covers"}
    whole = basics if chunk.text == chunk.content else {**basics, "text": chunk.text}
    for fields in (whole, basics, least):
        encoded = json.dumps(fields, ensure_ascii=False)
        if len(encoded.encode("utf-8", "replace")) <= MAX_TEXT_BYTES:
            return truncate_text(encoded, MAX_TEXT_BYTES)
    return "{}"


def read_row(row: Mapping[str, Any], machine: str, project: str) -> StoredChunk | None:
    """Return the chunk of another machine's row, with the machine's name before its path; None if it is not valid.

    All of it is untrusted text: invalid fields are skipped, and no path of it is taken for a local one.
    """
    if len(str(row["chunk_hash"])) != 16 or not set(str(row["chunk_hash"])) <= set("0123456789abcdef"):
        return None
    try:
        about = json.loads(row["about"])
        content = str(row["text"])
        chunk = Chunk(
            source=f"{machine}:{str(row['source']).replace(chr(0), '?')}",
            heading=str(row["heading"]),
            heading_level=max(0, int(row["heading_level"])),
            heading_path=tuple(map(str, about.get("heading_path", ()))),
            start_line=max(1, int(row["start_line"])),
            end_line=max(1, int(row["end_line"])),
            content=content,
            text=str(about.get("text", content)),
            context=str(about.get("context", "")),
            date=date if isinstance(date := about.get("date"), str) and _DATE.fullmatch(date) else "",
            type=str(row["type"]),
            tags=tuple(map(str, row["tags"])),
            anchor=_read_anchor(about.get("anchor") or {}),
            piece=int(about.get("piece", 0)),
            content_hash=str(row["content_hash"]),
            date_source=DATE_OF_FILE if about.get("date_source") == DATE_OF_FILE else DATE_IN_TEXT,
        )
        return StoredChunk(row["key"], row["chunk_hash"], chunk, project, bool(row["has_vector"]), machine)
    except (ValueError, TypeError, AttributeError, KeyError):
        return None


def _read_anchor(fields: Mapping[str, Any]) -> Anchor:
    """Return an anchor without the transcript's path, which is a file of the other machine.

    The text came from outside, as with every import: the origin says so, and agents see it quoted as such.
    """
    names = [
        name for name in Anchor.__struct_fields__ if name not in ("tags", "covers", "cues", "transcript", "origin")
    ]
    texts: dict[str, Any] = {name: str(fields.get(name, "")) for name in names}
    return Anchor(**texts, origin="import", tags=tuple(map(str, fields.get("tags", ()))))
