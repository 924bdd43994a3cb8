/**
 * Definitions of tables and indexes that are written for PostgreSQL, in the words of SQLite. Tables are STRICT; those with a primary key of their own lie in its order.
 * What says how PostgreSQL is to store something is left out. Nulls come first by themselves.
 */
export function sqliteDdl(sql: string): string {
  return sql
    .replace(/^ALTER TABLE .* SET STORAGE .*\n/gm, '')
    .replace(/ NULLS FIRST/g, '')
    .replace(/^CREATE TABLE [^;]*;/gm, tableOf);
}

function tableOf(sql: string): string {
  const isInOrder = sql.includes('PRIMARY KEY') && !sql.includes(' IDENTITY ');
  return sql
    .replace('BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY', 'INTEGER PRIMARY KEY AUTOINCREMENT')
    .replace('gen_random_uuid()::text', '(lower(hex(randomblob(16))))')
    .replace(/\bBIGINT\b/g, 'INTEGER')
    .replace(/\bBYTEA\b/g, 'BLOB')
    .replace(/\)(?: WITH \([^)]*\))?;$/, `) STRICT${isInOrder ? ', WITHOUT ROWID' : ''};`);
}
