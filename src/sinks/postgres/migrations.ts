import { catalogSql } from './catalog-sql.ts';

/**
 * What leads from each version to the next: the first one from 1 to 2. Processes of the older version may go on writing until they end, so no
 * migration asks of them what they do not know.
 */
export const migrations: readonly string[] = [toVersion2()];

/** Tables that are there are told apart by the sink that they were made in. */
function toVersion2(): string {
  return `
ALTER TABLE _sync_tables ADD COLUMN table_id TEXT NOT NULL DEFAULT gen_random_uuid()::text;
ALTER TABLE _sync_tables ADD COLUMN described TEXT NOT NULL DEFAULT '{}';
ALTER TABLE _sync_tables ADD COLUMN current_view TEXT;
UPDATE _sync_tables SET table_id = (SELECT sink_id FROM _sync_meta);
${catalogSql}
`;
}

/** Statements of the ledger one by one, in the schema `at`. Texts are compared byte by byte, whatever the server's locale. */
export function statementsAt(at: string, sql: string): readonly string[] {
  return sql
    .replaceAll(/\bTEXT\b/g, 'text COLLATE "C"')
    .replaceAll(
      /\b(CREATE TABLE|ALTER TABLE|CREATE VIEW|UPDATE|FROM|JOIN|ON) (_(?:sync|catalog)_\w+)/g,
      (_, before: string, table: string) => `${before} ${at}${table}`,
    )
    .split(';')
    .filter((statement) => statement.trim() !== '');
}
