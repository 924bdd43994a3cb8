import type { Column } from '../../../core/records.ts';
import type { Tx } from '../../../sql/database.ts';
import { quoted } from '../../../sql/quoted.ts';
import { columnsMissingIn } from '../../decisions/stored-table.ts';
import type { TablePlace } from '../../ledger/record-table.ts';
import { historySelect } from '../../records/close-versions.ts';
import { sqlType } from '../column-types.ts';
import { asOfName, historyName, versionsName } from '../../records/version-names.ts';
import { tableName } from './names.ts';

/** Makes the table of closed versions and what shows all of them, or adds columns. */
export function ensureVersions(
  tx: Tx,
  schema: string,
  { connector, table, stored, versions }: TablePlace,
): void {
  const missing = columnsMissingIn(table.columns, stored);
  if (versions === undefined || (!versions.isNew && missing.length === 0)) return;
  const name = tableName(connector, table.entity);
  const closed = quoted(versionsName(name));
  const columns = [...stored, ...missing];
  if (versions.isNew) {
    alter(tx, quoted(name), ['ADD COLUMN _valid_from timestamptz', 'ADD COLUMN _valid_seq bigint']);
    const declared = columns.map((column) => `, ${quoted(column.name)} ${sqlType[column.type]}`);
    tx.put(`CREATE TABLE ${closed} (${ownColumns}${declared.join('')})`);
    tx.put(`CREATE UNIQUE INDEX ON ${closed} (_row, _seq)`);
  } else {
    addColumns(tx, closed, missing);
  }
  createViews(tx, schema, name, { columns, isNew: versions.isNew });
}

/** What shows all versions. Not new: columns were added to those that are there. */
export function createViews(
  tx: Tx,
  schema: string,
  name: string,
  { columns, isNew }: { readonly columns: readonly Column[]; readonly isNew: boolean },
): void {
  const [history, asOf] = [quoted(historyName(name)), quoted(asOfName(name))];
  const at = (one: string): string => `${quoted(schema)}.${one}`;
  const select = historySelect(at(quoted(name)), at(quoted(versionsName(name))), columns);
  tx.put(`CREATE OR REPLACE VIEW ${history} AS ${select}`);
  if (!isNew) return;
  tx.put(`CREATE FUNCTION ${asOf}(moment timestamptz) RETURNS SETOF ${history} LANGUAGE sql STABLE AS $$
    SELECT h.* FROM ${at(history)} AS h
    WHERE h._valid_from <= moment AND (h._valid_to > moment OR h._valid_to IS NULL) AND h._deleted_at IS NULL $$`);
}

const ownColumns = `
  _seq_to bigint PRIMARY KEY,
  _row bigint NOT NULL,
  _seq bigint NOT NULL,
  _valid_from timestamptz NOT NULL,
  _valid_to timestamptz NOT NULL,
  _run_id text COLLATE "C" NOT NULL,
  _deleted_at timestamptz,
  _hash text COLLATE "C" NOT NULL,
  _extra json`;

export function dropVersions(tx: Tx, name: string): void {
  dropViews(tx, name);
  tx.put(`DROP TABLE IF EXISTS ${quoted(versionsName(name))}`);
}

export function dropViews(tx: Tx, name: string): void {
  tx.put(`DROP FUNCTION IF EXISTS ${quoted(asOfName(name))}(timestamptz)`);
  tx.put(`DROP VIEW IF EXISTS ${quoted(historyName(name))}`);
}

/** Only nullable ones: the table is not rewritten. */
export function addColumns(tx: Tx, name: string, columns: readonly Column[]): void {
  if (columns.length === 0) return;
  alter(
    tx,
    name,
    columns.map((column) => `ADD COLUMN ${quoted(column.name)} ${sqlType[column.type]}`),
  );
}

/** It waits for every reader of the table, and later readers wait for it: therefore several short attempts. */
function alter(tx: Tx, name: string, changes: readonly string[]): void {
  tx.put(`SET LOCAL lock_timeout = '5s'`);
  tx.put(`ALTER TABLE ${name} ${changes.join(', ')}`);
  tx.put(`SET LOCAL lock_timeout = '10s'`);
}
