import { quoted } from '../../../sql/quoted.ts';
import { viewNames } from '../../decisions/current-view.ts';
import { tableName } from '../../decisions/stored-table.ts';
import type { RecordTables } from '../../ledger/driver.ts';
import { dropOwnView, renewCurrentViews } from './current-views.ts';
import { ensureTable } from './ensure-table.ts';
import { fillFromExtra, fittingColumns } from './fill-from-extra.ts';
import { openRecordTable } from './open-record-table.ts';
import { readRow } from './read-row.ts';
import { readWhole, writeWhole } from './whole-rows.ts';

/** Tables of records in the file that has the ledger. */
export function sqliteTables(): RecordTables {
  return {
    tableName,
    open: openRecordTable,
    ensure: ensureTable,
    fitting: async (tx, { connector, table }, columns) =>
      await fittingColumns(tx, tableName(connector, table.entity), columns),
    fill: async (tx, { connector, table }, columns, stamp) =>
      await fillFromExtra(tx, tableName(connector, table.entity), columns, stamp),
    renewViews: renewCurrentViews,
    drop: async (tx, connector, entities) => {
      for (const name of entities.map((entity) => tableName(connector, entity))) {
        for (const view of viewNames(name, new Set())) await dropOwnView(tx, view);
        await tx.run(`DROP TABLE IF EXISTS ${quoted(name)}`);
      }
    },
    row: readRow,
    readWhole: async (tx, connector, table, after, limit) =>
      await readWhole(tx, connector, table, { after, limit }),
    writeWhole: async (tx, connector, table, rows, shift) =>
      await writeWhole(tx, connector, table, { rows, shift }),
  };
}
