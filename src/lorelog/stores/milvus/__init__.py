"""The Milvus store: the catalog stays here, and what finds things is kept in Milvus (Lite, a server, Zilliz Cloud).

The local catalog is authoritative for what this machine has indexed. The rows in Milvus follow its change log and can be
pushed anew from it at any time, vectors included, so nothing that happens to a server loses anything. `docs/milvus.md`.
"""

from lorelog.stores.milvus.store import MilvusStore

__all__ = ["MilvusStore"]
