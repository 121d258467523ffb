"""The operations on what is compiled from records, as the catalogue lists them."""

from __future__ import annotations

from typing import Any

from lorelog.core.errors import NotFound
from lorelog.operations import digest_replies as replies
from lorelog.operations import digest_requests as requests
from lorelog.operations import digests
from lorelog.operations.operation import Operation

_LIBRARIES = (
    ("artifact.find_failures", digests.find_failures),
    ("artifact.find_decisions", digests.find_decisions),
    ("artifact.find_evidence", digests.find_evidence),
    ("artifact.find_highlights", digests.find_highlights),
)

DIGESTS: tuple[Operation[Any, Any], ...] = (
    Operation(
        "task.resume",
        requests.ResumeRequest,
        replies.ResumeShape,
        digests.resume,
        lambda reply, _: replies.resume_shape(reply),
        errors=(NotFound,),
    ),
    *(
        Operation(
            name,
            requests.LibraryRequest,
            replies.LibraryShape,
            handle,
            lambda reply, _: replies.library_shape(reply),
        )
        for name, handle in _LIBRARIES
    ),
    Operation(
        "context.brief_project",
        requests.BriefRequest,
        replies.BriefShape,
        digests.brief_project,
        lambda reply, _: replies.brief_shape(reply),
    ),
)
