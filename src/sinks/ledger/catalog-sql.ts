/**
 * Views that describe the sink to a reader, with texts of the definitions: its tables, their columns, and which columns
 * lead from table to table. They are made of `_sync_tables` alone, so they are never out of date. In the words of
 * PostgreSQL.
 */
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
  (SELECT d.value FROM json_each_text(t.described::json -> 'columns') AS d(key, value) WHERE d.key = col.value ->> 'name') AS description,
  (col.value ->> 'name') IN (SELECT k.value FROM json_array_elements_text(t.key::json) AS k(value)) AS is_key, false AS is_derived
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
  (SELECT o.value FROM json_array_elements_text(j.value -> 'parentColumns') WITH ORDINALITY AS o(value, n) WHERE o.n = col.n) AS to_column
FROM _sync_tables AS t CROSS JOIN LATERAL json_array_elements(t.described::json -> 'joins') AS j(value)
  CROSS JOIN LATERAL json_array_elements_text(j.value -> 'columns') WITH ORDINALITY AS col(value, n)
  JOIN _sync_tables AS p ON p.connector = t.connector AND p.entity = j.value ->> 'parent';
`;

/**
 * The same views in the words of SQLite, whose JSON is text and is read by two functions. Older versions that can read
 * the file know no operators of JSON and no order in an aggregate: the schema would be malformed to them.
 */
export const sqliteCatalogSql = postgresCatalogSql
  .replaceAll(/json_(?:array_elements|each)(?:_text)?\(/g, 'json_each(')
  .replaceAll(/(?: WITH ORDINALITY)? AS (\w+)\((?:key, )?value(?:, n)?\)/g, ' AS $1')
  .replaceAll(/string_agg\((.*?) ORDER BY \w+\.n\)/g, 'group_concat($1)')
  .replaceAll(/\b(\w+)\.n\b/g, '($1.key + 1)')
  .replaceAll(/::json\b| LATERAL\b/g, '')
  .replaceAll(/([\w.]+) ->>? '(\w+)'/g, "json_extract($1, '$$.$2')");
