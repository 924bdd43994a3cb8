/**
 * What leads from each version that is still read to the next, as statements in which names stand without their schema;
 * the last one leads to `schemaVersion`. All that a schema needs run in one transaction. Never changed once released,
 * only added to. Processes of the older version may go on writing until they end, so no migration asks of them what
 * they do not know. Empty: only `schemaVersion` is read.
 */
export const migrations: readonly string[] = [];

/**
 * Statements of the ledger one by one, in the schema `at`. Texts are compared byte by byte, whatever the server's
 * locale.
 */
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
