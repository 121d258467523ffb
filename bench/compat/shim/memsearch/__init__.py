"""Names of memsearch over lorelog."""

from memsearch.core import MemSearch as MemSearch
