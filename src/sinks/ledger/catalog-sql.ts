/**
 * Views that describe the sink to a reader, with texts of the definitions: its tables, their columns, and which columns
 * lead from table to table. They are made of `_sync_tables` alone, so they are never out of date.
 */
export const sqliteCatalogSql = `
CREATE VIEW _catalog_tables AS
SELECT t.connector, t.entity, t.name AS table_name, t.current_view AS view_name,
  c.definition AS connector_type, json_extract(t.described, '$.description') AS description,
  (SELECT group_concat(value, ', ') FROM json_each(t.key)) AS key_columns, t.rows - t.deleted AS current_rows, t.as_of
FROM _sync_tables AS t LEFT JOIN _sync_connectors AS c ON c.connector = t.connector;

CREATE VIEW _catalog_columns AS
SELECT t.connector, t.entity, t.name AS table_name, t.current_view AS view_name,
  col.key + 1 AS position, json_extract(col.value, '$.name') AS column_name, json_extract(col.value, '$.type') AS type,
  (SELECT value FROM json_each(t.described, '$.columns') WHERE key = json_extract(col.value, '$.name')) AS description,
  json_extract(col.value, '$.name') IN (SELECT value FROM json_each(t.key)) AS is_key, 0 AS is_derived
FROM _sync_tables AS t, json_each(t.stored) AS col
UNION ALL
SELECT t.connector, t.entity, t.name, t.current_view,
  json_array_length(t.stored) + col.key + 1, json_extract(col.value, '$.name'),
  json_extract(col.value, '$.type'),
  'Made of ' || (SELECT group_concat(value, ', ') FROM json_each(col.value, '$.from')) || CASE WHEN json_extract(col.value, '$.as') = 'texts' THEN '' ELSE
    (SELECT coalesce(group_concat('.' || value, ''), '') FROM json_each(col.value, '$.path')) END || ' (in the view alone)', 0, 1
FROM _sync_tables AS t, json_each(t.described, '$.derived') AS col
WHERE t.current_view IS NOT NULL AND EXISTS (
  SELECT 1 FROM json_each(t.stored) AS s, json_each(col.value, '$.from') AS f WHERE json_extract(s.value, '$.name') = f.value
) AND NOT EXISTS (
  SELECT 1 FROM json_each(t.stored) AS s WHERE json_extract(s.value, '$.name') = json_extract(col.value, '$.name')
);

CREATE VIEW _catalog_joins AS
SELECT t.connector, t.entity AS from_entity, t.name AS from_table, col.value AS from_column,
  json_extract(j.value, '$.parent') AS to_entity,
  p.name AS to_table,
  json_extract(j.value, '$.parentColumns[' || col.key || ']') AS to_column
FROM _sync_tables AS t, json_each(t.described, '$.joins') AS j, json_each(j.value, '$.columns') AS col,
  _sync_tables AS p ON p.connector = t.connector AND p.entity = json_extract(j.value, '$.parent');
`;

/** The same with PostgreSQL's functions of JSON: no two statements here would mean the same in both. */
export const postgresCatalogSql = `
CREATE VIEW _catalog_tables AS
SELECT t.connector, t.entity, t.name AS table_name, t.current_view AS view_name, c.definition AS connector_type,
  t.described::json ->> 'description' AS description,
  (SELECT string_agg(k.value, ', ' ORDER BY k.n) FROM json_array_elements_text(t.key::json) WITH ORDINALITY AS k(value, n)) AS key_columns,
  t.rows - t.deleted AS current_rows, t.as_of
FROM _sync_tables AS t LEFT JOIN _sync_connectors AS c ON c.connector = t.connector;

CREATE VIEW _catalog_columns AS
SELECT t.connector, t.entity, t.name AS table_name, t.current_view AS view_name, col.n AS position,
  col.value ->> 'name' AS column_name, col.value ->> 'type' AS type,
  t.described::json -> 'columns' ->> (col.value ->> 'name') AS description,
  (col.value ->> 'name') IN (SELECT json_array_elements_text(t.key::json)) AS is_key, false AS is_derived
FROM _sync_tables AS t CROSS JOIN LATERAL json_array_elements(t.stored::json) WITH ORDINALITY AS col(value, n)
UNION ALL
SELECT t.connector, t.entity, t.name, t.current_view, json_array_length(t.stored::json) + col.n,
  col.value ->> 'name',
  col.value ->> 'type',
  'Made of ' || (SELECT string_agg(f.value, ', ' ORDER BY f.n) FROM json_array_elements_text(col.value -> 'from') WITH ORDINALITY AS f(value, n))
    || CASE WHEN col.value ->> 'as' = 'texts' THEN '' ELSE
    (SELECT coalesce(string_agg('.' || f.value, '' ORDER BY f.n), '') FROM json_array_elements_text(col.value -> 'path') WITH ORDINALITY AS f(value, n)) END
    || ' (in the view alone)', false, true
FROM _sync_tables AS t CROSS JOIN LATERAL json_array_elements(t.described::json -> 'derived') WITH ORDINALITY AS col(value, n)
WHERE t.current_view IS NOT NULL AND EXISTS (
  SELECT 1 FROM json_array_elements(t.stored::json) AS s(value), json_array_elements_text(col.value -> 'from') AS f(value)
  WHERE s.value ->> 'name' = f.value
) AND NOT EXISTS (
  SELECT 1 FROM json_array_elements(t.stored::json) AS s(value) WHERE s.value ->> 'name' = col.value ->> 'name'
);

CREATE VIEW _catalog_joins AS
SELECT t.connector, t.entity AS from_entity, t.name AS from_table, col.value AS from_column,
  j.value ->> 'parent' AS to_entity, p.name AS to_table,
  j.value -> 'parentColumns' ->> (col.n - 1)::integer AS to_column
FROM _sync_tables AS t CROSS JOIN LATERAL json_array_elements(t.described::json -> 'joins') AS j(value)
  CROSS JOIN LATERAL json_array_elements_text(j.value -> 'columns') WITH ORDINALITY AS col(value, n)
  JOIN _sync_tables AS p ON p.connector = t.connector AND p.entity = j.value ->> 'parent';
`;
