-- Loads listed files of one entity into Snowflake. Not run by our tests.
COPY INTO loaded FROM @published/newsletter/list_members/g1/changes/
  FILES = ('00000007-0001-4567cdef.parquet')
  FILE_FORMAT = (TYPE = PARQUET USE_LOGICAL_TYPE = TRUE) MATCH_BY_COLUMN_NAME = CASE_INSENSITIVE;
MERGE INTO list_members AS kept
USING (SELECT * FROM loaded QUALIFY row_number() OVER (PARTITION BY list_id, id ORDER BY _seq DESC) = 1) AS new
ON kept.list_id = new.list_id AND kept.id = new.id
WHEN MATCHED AND new._deleted AND kept._seq < new._seq THEN DELETE
WHEN MATCHED AND kept._seq < new._seq THEN UPDATE ALL BY NAME
WHEN NOT MATCHED AND NOT new._deleted THEN INSERT ALL BY NAME;
