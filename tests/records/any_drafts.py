"""Hypothesis strategies for record drafts."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from lorelog.core.record import ORIGINS, RecordDraft
from lorelog.records.kinds import FIELDS, KINDS, FieldType, allowed_fields

TEXT = st.text(max_size=30)
SAID = TEXT.filter(str.strip)
ID = st.from_regex(r"\A[a-z0-9-]{1,20}\Z")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
VALUES: dict[FieldType, st.SearchStrategy[Any]] = {
    FieldType.TEXT: SAID,
    FieldType.TEXTS: st.lists(SAID, min_size=1, max_size=3),
    FieldType.IDS: st.lists(ID, min_size=1, max_size=3),
    FieldType.NUMBER: st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False),
    FieldType.SHARE: st.floats(0, 1),
    FieldType.OBJECT: st.dictionaries(TEXT, JSON, max_size=3),
    FieldType.VALUE: SAID | st.integers(0, 9) | st.dictionaries(TEXT, JSON, max_size=2),
    FieldType.DATASETS: st.lists(st.fixed_dictionaries({"name": SAID}, optional={"version": TEXT}), max_size=2),
    FieldType.ENTITIES: st.lists(st.fixed_dictionaries({"name": SAID, "entity_type": SAID}), max_size=2),
    FieldType.PROVENANCE: st.dictionaries(st.sampled_from(["uri", "repo", "path"]), TEXT, max_size=2),
}


@st.composite
def drafts(draw: st.DrawFn) -> RecordDraft:
    """Any draft that can be written."""
    kind = draw(st.sampled_from(list(KINDS)))
    chosen = draw(st.sets(st.sampled_from(allowed_fields(kind)), max_size=4)) | set(KINDS[kind].required)
    fields = {name: draw(VALUES[FIELDS[name].type]) for name in sorted(chosen)}
    if kind == "wiki_page":
        fields["artifact_role"] = draw(st.sampled_from(["concept", "entity"]))
    return RecordDraft(
        kind,
        project=draw(TEXT),
        task=draw(ID),
        thread=draw(st.just("") | ID),
        agent=draw(TEXT),
        session=draw(TEXT),
        reply_to=draw(st.just("") | ID),
        relation=draw(TEXT),
        supports_claim=draw(st.sampled_from([None, True, False])),
        supersedes=draw(st.just("") | ID),
        origin=draw(st.sampled_from(ORIGINS)),
        status=draw(SAID),
        fields=fields,
    )
