"""Operations on records: write, rate, search, compile, exchange. The ledger itself is in `lorelog.records`."""
