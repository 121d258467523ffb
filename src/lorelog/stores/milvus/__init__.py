"""The Milvus store: a local catalog, with the search index in Milvus (Lite, a server, Zilliz Cloud).

The local catalog is authoritative for everything this machine has indexed. The rows in Milvus follow its change log and can be
pushed again from it at any time, vectors included, so a failure of the server loses nothing. See `docs/milvus.md`.
"""

from lorelog.stores.milvus.store import MilvusStore

__all__ = ["MilvusStore"]
