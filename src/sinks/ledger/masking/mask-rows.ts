import { keyTextOf, type ColumnValue } from '../../../core/records.ts';
import type { CopiedRecord, CopiedTable, CopiedVersion } from '../../copies.ts';
import type { PurgingTx } from '../purges/find-below.ts';
import { removeRows } from '../purges/remove-found.ts';
import { emptyRaw } from '../raw-rows.ts';
import { renewTable } from '../tables.ts';
import { rowsAtOnce, type Masked, type Rewriting } from './rewriting.ts';

/** Gives how many rows change or go. */
export async function maskRows(rewriting: Rewriting, { masking, table }: Masked): Promise<number> {
  const { connector, records, signal, step } = rewriting;
  const { entity, stored } = table;
  return await inBatches(signal, (from) =>
    step(
      async (tx) => {
        const rows = await records.readWhole(tx, connector, table, from, rowsAtOnce);
        const changed = rows.flatMap((was): ChangedRow[] => {
          const cells = masking.cells(stored, was);
          return cells === null ? [] : [{ was, row: { ...was, ...cells, volatileHash: null } }];
        });
        return { last: rows.at(-1)?.row, changed, count: changed.length };
      },
      async (tx, { changed }) => {
        await rewriteRows({ tx, records, connector }, table, changed);
      },
      entity,
    ),
  );
}

export interface ChangedRow {
  readonly was: CopiedRecord;
  readonly row: CopiedRecord;
}

/** A row whose new key another one has goes: that one is of the same record. */
export async function rewriteRows(
  purging: PurgingTx,
  table: CopiedTable,
  changed: readonly ChangedRow[],
): Promise<void> {
  const { tx, records, connector } = purging;
  const { entity, stored, key } = table;
  const of = { connector, entity };
  const keyOf = keyReader(table);
  const columns = { entity, columns: stored, key };
  const moving = changed.flatMap(({ was, row }) => (keyOf(was) === keyOf(row) ? [] : [keyOf(row)]));
  const taken = new Set(
    (await records.open({ connector, table: columns, stored }).rowsOf(tx, [...new Set(moving)])).keys(),
  );
  const kept: CopiedRecord[] = [];
  const gone = new Map<number, CopiedRecord & { readonly keyText: string }>();
  for (const { was, row } of changed) {
    const keyText = keyOf(row);
    const isTaken = keyOf(was) !== keyText && taken.has(keyText);
    if (isTaken) gone.set(was.row, { ...was, keyText: keyOf(was) });
    else kept.push(row);
    taken.add(keyText);
  }
  await records.rewriteWhole(tx, connector, table, kept);
  await emptyRaw(
    tx,
    of,
    kept.map(({ row }) => row),
  );
  await removeRows(purging, { entity, table: columns, rows: gone, moved: [] });
  await renewTable(tx, of);
}

/** The same of closed versions. */
export async function maskVersions(
  { connector, records, signal, step }: Rewriting,
  { masking, table }: Masked,
): Promise<number> {
  const { entity, stored } = table;
  return await inBatches(signal, (from) =>
    step(
      async (tx) => {
        const versions = await records.readVersions(tx, connector, table, from, rowsAtOnce);
        const changed = versions.flatMap((version): CopiedVersion[] => {
          const cells = masking.cells(stored, version);
          return cells === null ? [] : [{ ...version, ...cells }];
        });
        return { last: versions.at(-1)?.seqTo, changed, count: changed.length };
      },
      async (tx, { changed }) => {
        await records.writeVersions(tx, connector, table, changed);
        await renewTable(tx, { connector, entity });
      },
      entity,
    ),
  );
}

/** `next` takes the rows behind a number, and gives the last number of its batch; undefined: there were none. */
async function inBatches(
  signal: AbortSignal,
  next: (from: number) => Promise<{ readonly last: number | undefined; readonly count: number }>,
): Promise<number> {
  let count = 0;
  for (let from: number | undefined = 0; from !== undefined;) {
    signal.throwIfAborted();
    const batch = await next(from);
    count += batch.count;
    from = batch.last;
  }
  return count;
}

export function keyReader({
  key,
  stored,
}: CopiedTable): (row: { readonly values: readonly ColumnValue[] }) => string {
  const indexes = key.map((name) => stored.findIndex((column) => column.name === name));
  return ({ values }) => keyTextOf(indexes.map((index) => values[index] ?? null));
}
