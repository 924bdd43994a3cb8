import * as z from 'zod';
import { parseParams, parsePosition } from '../../stored-json.ts';
import { readJson } from '../../../core/json-text.ts';
import type { Partition } from '../../partition.ts';
import type { LeftWork } from '../../run-report.ts';
import type { CurrentRun, HeldConnector } from '../ledger.ts';
import type { Tx } from '../../../sql/database.ts';
import { leftWork } from './read-partitions.ts';

/** `Sink.nextPartitions`: costs `limit` rows, however many are due. */
export async function nextPartitions(held: HeldConnector, limit: number): Promise<readonly Partition[]> {
  return await held.read(async (tx) => {
    const { connector, run } = held;
    if (run === null) return [];
    // Never read ones before all others, or deepest first, then in the order found.
    const [index, order] = run.isStalestFirst
      ? ['_sync_partitions_overdue', 'sealed_at NULLS FIRST, rank DESC, id']
      : ['_sync_partitions_ready', 'rank DESC, id'];
    const ready = await tx.rows<ReadyRow>(
      `SELECT id, entity, params, inject, rank, tree, tree_depth, position, mode, watermark, proof
       FROM _sync_partitions {index ${index}}
       WHERE connector = :connector AND backfill = :window AND ready = 1 ORDER BY ${order} LIMIT :limit`,
      { connector, window: run.window, limit },
    );
    const stored = await storedRows(tx, run, ready);
    return ready.map((row) => readPartition(row, stored.get(row.id) ?? 0));
  });
}

/** `Sink.left`: what is due and was not read, by entity. */
export async function left(held: HeldConnector): Promise<readonly LeftWork[]> {
  return await held.read(async (tx) => {
    const { connector, run } = held;
    if (run === null) return [];
    return await leftWork(tx, { connector, window: run.window, entities: [...run.entities] });
  });
}

interface ReadyRow extends Omit<
  Partition,
  'params' | 'inject' | 'position' | 'storedRows' | 'clockDifferences'
> {
  readonly params: string;
  readonly inject: string;
  readonly position: string | null;
  readonly proof: string | null;
}

/** No page is longer, and an empty partition costs one look at an index. */
const mostStoredRows = 1_001;

/** Of those that are read in full, by partition. */
async function storedRows(
  tx: Tx,
  { tables }: Pick<CurrentRun, 'tables'>,
  ready: readonly ReadyRow[],
): Promise<ReadonlyMap<number, number>> {
  const counts = new Map<number, number>();
  const full = ready.filter(({ mode }) => mode === 'full');
  for (const entity of new Set(full.map((row) => row.entity))) {
    const homes = full.filter((row) => row.entity === entity).map(({ id }) => ({ home: id, after: 0 }));
    const live = await tables.get(entity)?.table.countLive(tx, homes, mostStoredRows);
    for (const [id, rows] of live ?? []) counts.set(id, rows);
  }
  return counts;
}

function readPartition({ proof, ...row }: ReadyRow, rows: number): Partition {
  return {
    ...row,
    params: parseParams(row.params),
    inject: parseParams(row.inject),
    position: row.position === null ? null : parsePosition(row.position),
    storedRows: rows,
    clockDifferences: proof === null ? [] : (storedDifferences.parse(readJson(proof)).clockDifferences ?? []),
  };
}

const storedDifferences = z.object({ clockDifferences: z.array(z.number()).exactOptional() });
