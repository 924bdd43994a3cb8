-- Loads listed files of one entity into BigQuery; then the MERGE of load-snowflake.sql, with its columns written out.
-- Not run by our tests.
LOAD DATA OVERWRITE sync.loaded
FROM FILES (format = 'PARQUET', uris = ['gs://acme-raw/newsletter/list_members/g1/changes/00000007-0001-4567cdef.parquet']);
