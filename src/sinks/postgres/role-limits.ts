import type { QuerySession } from '../../sql/postgres/run-query.ts';
import type { CopiedView } from '../../sql/sqlite/query-copy.ts';

const mostShown = 5;

/**
 * What the role of a session may do beyond reading these columns of views of the schema: a few of it, as texts. Empty:
 * nothing. The catalogs of the server are for every role to read.
 */
export async function beyondViews(
  session: QuerySession,
  schema: string,
  views: readonly CopiedView[],
): Promise<readonly string[]> {
  const names = views.map(({ name }) => name);
  const columns = views.flatMap(({ name, columns: shown }) => shown.map((column) => `${name}.${column}`));
  const { rows } = await session.ask(beyondSql, [schema, names, columns]);
  return rows.flatMap(([what]) => (typeof what === 'string' ? [what] : []));
}

/**
 * Functions: what reads files or the network is written in C and may have other results the next time, or runs with
 * the rights of its owner, or is a function of the server that is not for everybody, which was granted.
 */
const beyondSql = `
WITH me AS (SELECT * FROM pg_catalog.pg_roles WHERE rolname = session_user),
  spaces AS (SELECT oid, nspname FROM pg_catalog.pg_namespace WHERE nspname !~ '^pg_(toast|temp_|toast_temp_)'),
  open_spaces AS (SELECT * FROM spaces WHERE has_schema_privilege(oid, 'USAGE')),
  own AS (
    SELECT c.oid, c.relkind, c.relname::text AS name, n.nspname = $1 AND c.relname::text = ANY($2::text[]) AS is_shown,
      format('%I.%I', n.nspname, c.relname) AS place
    FROM pg_catalog.pg_class AS c JOIN open_spaces AS n ON n.oid = c.relnamespace
    WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')),
  functions AS (
    SELECT format('%I.%I', n.nspname, p.proname) AS place
    FROM pg_catalog.pg_proc AS p JOIN open_spaces AS n ON n.oid = p.pronamespace
      JOIN pg_catalog.pg_language AS l ON l.oid = p.prolang
    WHERE CASE WHEN n.nspname = 'pg_catalog' THEN p.proacl IS NOT NULL
        ELSE p.prosecdef OR (NOT l.lanpltrusted AND l.lanname <> 'sql' AND p.provolatile <> 'i'
          AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend AS d JOIN pg_catalog.pg_extension AS e ON e.oid = d.refobjid
            WHERE d.classid = 'pg_catalog.pg_proc'::regclass AND d.objid = p.oid
              AND d.refclassid = 'pg_catalog.pg_extension'::regclass AND e.extname = 'pg_trgm')) END
      AND has_function_privilege(p.oid, 'EXECUTE'))
SELECT what FROM (
  SELECT 1 AS n, 'is a superuser' AS what FROM me WHERE rolsuper
  UNION ALL SELECT 2, 'may make roles' FROM me WHERE rolcreaterole
  UNION ALL SELECT 2, 'may make databases' FROM me WHERE rolcreatedb
  UNION ALL SELECT 2, 'may replicate' FROM me WHERE rolreplication
  UNION ALL SELECT 2, 'reads rows past their policies' FROM me WHERE rolbypassrls
  UNION ALL SELECT 3, format('is a member of %I', r.rolname) FROM pg_catalog.pg_roles AS r
    WHERE r.rolname <> session_user AND pg_has_role(r.oid, 'MEMBER')
  UNION ALL SELECT 4, 'may make schemas' WHERE has_database_privilege(current_database(), 'CREATE')
  UNION ALL SELECT 4, format('may make tables in %I', nspname) FROM spaces WHERE has_schema_privilege(oid, 'CREATE')
  UNION ALL SELECT 5, 'may write ' || place FROM own WHERE CASE relkind
    WHEN 'S' THEN has_sequence_privilege(oid, 'USAGE, UPDATE')
    ELSE has_table_privilege(oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
      OR has_any_column_privilege(oid, 'INSERT, UPDATE, REFERENCES') END
  UNION ALL SELECT 6, 'may read ' || place FROM own WHERE NOT is_shown AND CASE relkind
    WHEN 'S' THEN has_sequence_privilege(oid, 'SELECT') ELSE has_any_column_privilege(oid, 'SELECT') END
  UNION ALL SELECT 7, format('may read %I of %s', a.attname, own.place)
    FROM own JOIN pg_catalog.pg_attribute AS a ON a.attrelid = own.oid
    WHERE own.is_shown AND a.attnum > 0 AND NOT a.attisdropped AND has_column_privilege(own.oid, a.attnum, 'SELECT')
      AND NOT (own.name || '.' || a.attname::text) = ANY($3::text[])
  UNION ALL SELECT 8, 'may call ' || place FROM functions
) AS found ORDER BY n, what LIMIT ${mostShown}`;
