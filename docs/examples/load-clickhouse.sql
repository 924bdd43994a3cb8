-- Loads a listed file of one entity into ClickHouse: ReplacingMergeTree(_seq, _deleted) ordered by the key, with _seq as
-- UInt64 and _deleted as UInt8; read it with FINAL. Not run by our tests.
INSERT INTO list_members
SELECT * FROM s3('https://acme-raw.s3.amazonaws.com/newsletter/list_members/g1/changes/00000007-0001-4567cdef.parquet');
