import { keyTextOf, type ColumnValue } from '../../../core/records.ts';
import {
  readRows,
  replaceRows,
  rowsTable,
  versionsTable,
  type ReplacedRow,
} from '../../records/whole-rows.ts';
import type { PurgingTx } from '../purges/find-below.ts';
import { removeRows } from '../purges/remove-found.ts';
import { emptyRaw } from '../raw-rows.ts';
import { renewTable, type WholeTable } from '../tables.ts';
import { rowsAtOnce, type Masked, type Rewriting } from './rewriting.ts';

/** Gives how many rows change or go. */
export async function maskRows(rewriting: Rewriting, masked: Masked): Promise<number> {
  const { connector, records } = rewriting;
  const rows = rowsTable(records, connector, masked.table);
  return await maskTable(rewriting, masked, rows, async (purging, changed) => {
    await rewriteRows(purging, masked.table, changed);
  });
}

/** The same of closed versions. */
export async function maskVersions(rewriting: Rewriting, masked: Masked): Promise<number> {
  const { connector, records } = rewriting;
  const { table } = masked;
  const versions = versionsTable(records, connector, table);
  return await maskTable(rewriting, masked, versions, async ({ tx }, changed) => {
    await replaceRows(tx, records, versions, changed);
    await renewTable(tx, { connector, entity: table.entity });
  });
}

async function maskTable(
  { connector, records, signal, step }: Rewriting,
  { masking, table: { entity, stored } }: Masked,
  rows: ReturnType<typeof rowsTable>,
  write: (purging: PurgingTx, changed: readonly ReplacedRow[]) => Promise<void>,
): Promise<number> {
  let count = 0;
  for (let after: number | undefined = 0; after !== undefined;) {
    signal.throwIfAborted();
    const span = { after, limit: rowsAtOnce };
    const found = await step(
      async (tx) => {
        const read = await readRows(tx, rows, span);
        const changed = read.flatMap((was): ReplacedRow[] => {
          const cells = masking.cells(stored, was);
          return cells === null ? [] : [{ was, now: { values: cells.values, others: cells } }];
        });
        return { last: read.at(-1)?.number, changed, count: changed.length };
      },
      async (tx, { changed }) => {
        await write({ tx, records, connector }, changed);
      },
      entity,
    );
    count += found.count;
    after = found.last;
  }
  return count;
}

/** A row whose new key another one has goes: that one is of the same record. */
export async function rewriteRows(
  { tx, records, connector }: PurgingTx,
  table: WholeTable,
  changed: readonly ReplacedRow[],
): Promise<void> {
  const { entity, stored, key } = table;
  const of = { connector, entity };
  const keyOf = keyReader(table);
  const columns = { entity, columns: stored, key };
  const opened = records.open({ connector, table: columns, stored });
  const moving = changed.flatMap(({ was, now }) => (keyOf(was) === keyOf(now) ? [] : [keyOf(now)]));
  const taken = new Set((await opened.rowsOf(tx, [...new Set(moving)])).keys());
  const kept: ReplacedRow[] = [];
  const gone: number[] = [];
  for (const row of changed) {
    const keyText = keyOf(row.now);
    if (keyOf(row.was) !== keyText && taken.has(keyText)) gone.push(row.was.number);
    else kept.push(row);
    taken.add(keyText);
  }
  const rows = new Map(await opened.rows(tx, gone));
  await replaceRows(tx, records, rowsTable(records, connector, table), kept);
  await emptyRaw(
    tx,
    of,
    kept.map(({ was }) => was.number),
  );
  await removeRows({ tx, records, connector }, { entity, table: columns, rows, moved: [] });
  await renewTable(tx, of);
}

export function keyReader({
  key,
  stored,
}: WholeTable): (row: { readonly values: readonly ColumnValue[] }) => string {
  const indexes = key.map((name) => stored.findIndex((column) => column.name === name));
  return ({ values }) => keyTextOf(indexes.map((index) => values[index] ?? null));
}
