"""The operations on what becomes of memories: superseded, expired, judged, folded together, as the catalogue lists them."""

from __future__ import annotations

from typing import Any

from lorelog.core.errors import Capped, ModelError, NotFound, StoreBusy, StoreUnwritable
from lorelog.operations import compact, lifecycle, lifecycle_replies, lifecycle_requests
from lorelog.operations.operation import Operation

_SPENDS = "it may ask a model that costs money; a person decides that at a shell, or a program in Python"

LIFECYCLE: tuple[Operation[Any, Any], ...] = (
    Operation(
        "memory.supersede",
        lifecycle_requests.SupersedeRequest,
        lifecycle_replies.SupersedeShape,
        lifecycle.supersede,
        lambda reply, _: lifecycle.supersede_shape(reply),
        errors=(NotFound, StoreUnwritable, StoreBusy),
        writes=True,
        warms=True,
    ),
    Operation(
        "memory.set_expiry",
        lifecycle_requests.ExpiryRequest,
        lifecycle_replies.ExpiryShape,
        lifecycle.set_expiry,
        lambda reply, _: lifecycle.expiry_shape(reply),
        errors=(NotFound, StoreUnwritable),
        writes=True,
    ),
    Operation(
        "memory.feedback",
        lifecycle_requests.FeedbackRequest,
        lifecycle_replies.FeedbackShape,
        lifecycle.feedback,
        lambda reply, _: lifecycle.feedback_shape(reply),
        errors=(NotFound, StoreUnwritable),
        writes=True,
    ),
    Operation(
        "memory.find_near_duplicates",
        lifecycle_requests.NearRequest,
        lifecycle_replies.TwinsShape,
        lifecycle.find_near_duplicates,
        lambda reply, _: lifecycle.twins_shape(reply),
    ),
    Operation(
        "memory.consolidate_episode",
        lifecycle_requests.EpisodeRequest,
        lifecycle_replies.EpisodeShape,
        lifecycle.consolidate_episode,
        lambda reply, _: lifecycle.episode_shape(reply),
        errors=(NotFound, StoreUnwritable, StoreBusy),
        writes=True,
        warms=True,
    ),
    Operation(
        "memory.compact",
        compact.CompactRequest,
        compact.CompactShape,
        compact.compact,
        lambda reply, _: compact.compact_shape(reply),
        errors=(NotFound, ModelError, Capped, StoreUnwritable, StoreBusy),
        writes=True,
        warms=True,
        absent={"http": _SPENDS, "mcp": _SPENDS},
    ),
)
