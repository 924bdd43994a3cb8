import { postgresTx, type PostgresTx as Tx } from '../../../sql/postgres/session.ts';
import { viewNames } from '../../decisions/current-view.ts';
import { columnsMissingIn } from '../../decisions/stored-table.ts';
import type { RecordTables, StoredRowFacts } from '../../ledger/driver.ts';
import { dropOwnViews, renewCurrentViews } from './current-views.ts';
import { ensureTable } from './ensure-tables.ts';
import { fillFromExtra, fittingColumns } from './fill-from-extra.ts';
import { tableAt, tableName } from './names.ts';
import { openRecordTable } from './open-record-table.ts';
import { columnsThatFit, usedColumns } from './row-limits.ts';
import { readWhole, writeWhole } from './whole-rows.ts';
import type { ConnectorName } from '../../../core/names.ts';
import type { EntityTable } from '../../../core/records.ts';
import { textHash } from '../../../sql/text-hash.ts';
import { canonicalKey } from '../column-types.ts';

/** Tables of records in the schema `at` (quoted, with the point behind it). */
export function postgresTables(at: string): RecordTables {
  return {
    tableName,
    open: (place) => openRecordTable(at, place),
    ensure: async (tx, place) => await ensureTable(postgresTx(tx), at, place),
    fitting: async (tx, { connector, table, stored }, columns) => {
      const name = tableAt(at, connector, table.entity);
      const fitting = await fittingColumns(postgresTx(tx), name, columns);
      const missing = columnsMissingIn(fitting, stored);
      const added = new Set(columnsThatFit(stored, missing, await usedColumns(postgresTx(tx), name)));
      return fitting.filter((column) => added.has(column) || !missing.includes(column));
    },
    fill: async (tx, { connector, table }, columns, stamp) =>
      await fillFromExtra(postgresTx(tx), tableAt(at, connector, table.entity), columns, stamp),
    renewViews: async (tx, connector) => await renewCurrentViews(postgresTx(tx), at, connector),
    drop: async (tx, connector, entities) => {
      if (entities.length === 0) return;
      const names = entities.map((entity) => tableName(connector, entity));
      await dropOwnViews(
        postgresTx(tx),
        at,
        names.flatMap((name) => viewNames(name, new Set())),
      );
      const tables = entities.map((entity) => tableAt(at, connector, entity)).toSorted();
      await tx.run(`DROP TABLE IF EXISTS ${tables.join(', ')}`);
    },
    row: async (tx, connector, table, keyText) =>
      await readRow(postgresTx(tx), at, connector, table, keyText),
    readWhole: async (tx, connector, table, after, limit) =>
      await readWhole(postgresTx(tx), at, connector, table, { after, limit }),
    writeWhole: async (tx, connector, table, rows, shift) =>
      writeWhole(postgresTx(tx), at, connector, table, { rows, shift }),
  };
}

/** The row of a key in a table that is there; undefined where the key is not stored, or is no key of the table. */
export async function readRow(
  tx: Tx,
  at: string,
  connector: ConnectorName,
  table: EntityTable,
  keyText: string,
): Promise<StoredRowFacts | undefined> {
  const canonical = canonicalKey(table, keyText);
  if (canonical === null) return undefined;
  return await tx.first<StoredRowFacts>(
    `SELECT _row AS row, _first_seen_at AS first_seen_at, _changed_at AS changed_at, _run_id AS run, _deleted_at AS deleted_at,
       _seq AS seq, _partition AS home
     FROM ${tableAt(at, connector, table.entity)} WHERE _key = :key`,
    { key: textHash(canonical) },
  );
}
