-- Loads listed files of one entity into Redshift, by a manifest of its own format (`url` and `meta.content_length` of
-- each file). It reads Parquet by position: publish a snapshot after a column was added. Not run by our tests.
BEGIN;
COPY loaded FROM 's3://acme-raw/redshift/list_members.manifest' IAM_ROLE default FORMAT AS PARQUET MANIFEST;
DELETE FROM list_members USING loaded WHERE list_members.list_id = loaded.list_id AND list_members.id = loaded.id
  AND list_members._seq < loaded._seq;
INSERT INTO list_members
SELECT * FROM loaded WHERE NOT _deleted AND NOT EXISTS (
  SELECT 1 FROM loaded AS later WHERE later.list_id = loaded.list_id AND later.id = loaded.id AND later._seq > loaded._seq)
  AND NOT EXISTS (SELECT 1 FROM list_members AS kept WHERE kept.list_id = loaded.list_id AND kept.id = loaded.id);
COMMIT;
