/** Views that tell a reader what is in the sink, as a SQLite sink has them (`src/sinks/sqlite/catalog-sql.ts`). */
export const catalogSql = `
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
  col.value ->> 'name', 'string',
  'Made of ' || (SELECT string_agg(f.value, ', ' ORDER BY f.n) FROM json_array_elements_text(col.value -> 'from') WITH ORDINALITY AS f(value, n))
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
