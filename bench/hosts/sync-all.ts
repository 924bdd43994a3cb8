import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import pg from 'pg';
import * as z from 'zod';
import type { ConnectorName } from '../../src/core/names.ts';
import { addSync, sinksKey, syncsQueue } from '../../src/jobs/open-queue-set.ts';
import { tableName } from '../../src/sinks/postgres/column-types.ts';
import { quoted } from '../../src/sql/database.ts';
import { sinkName, type HostsWorld, type Shop } from './hosts-world.ts';
import { ordersOf } from './orders.ts';

/** The jobs of one area. */
export interface SyncAll extends AsyncDisposable {
  /** Those that wait or run. */
  open(): Promise<number>;
  failed(): Promise<number>;
}

/** Adds a sync of each of these connectors, as `schedule run` does. A worker must have begun to serve the area. */
export async function syncAll(
  { redisUrl }: Pick<HostsWorld, 'redisUrl'>,
  connectors: readonly Shop[],
  area: string,
): Promise<SyncAll> {
  const client = new Redis(redisUrl, { maxRetriesPerRequest: null });
  const registered: unknown = JSON.parse((await client.hget(sinksKey(area), sinkName)) ?? 'null');
  const { id } = z.looseObject({ id: z.string() }).parse(registered);
  const queue = new Queue(syncsQueue(id), { connection: client, prefix: area });
  await Promise.all(
    connectors.map(({ connector }) =>
      addSync(
        queue,
        { connector: connector as ConnectorName, reason: 'manual', due: null },
        { retryDelayMs: 2_000 },
      ),
    ),
  );
  return {
    open: async () => {
      const counts = await queue.getJobCounts('waiting', 'active', 'delayed', 'prioritized');
      return Object.values(counts).reduce((sum, jobs) => sum + jobs, 0);
    },
    failed: async () => await queue.getFailedCount(),
    [Symbol.asyncDispose]: async () => {
      await queue.close();
      client.disconnect();
    },
  };
}

/** Every row of every connector, held against the service; what differs, in words. */
export async function differences(
  { postgres, connectors }: Pick<HostsWorld, 'postgres' | 'connectors'>,
  area: string,
  pagesEach: number,
): Promise<readonly string[]> {
  const found: string[] = [];
  const client = new pg.Client({ connectionString: postgres.url });
  await client.connect();
  try {
    for (const { connector, shop } of connectors) {
      const { rows } = await client.query<Record<string, unknown>>(
        `SELECT id, customer, total, note, _seq FROM ${quoted(area)}.${quoted(tableName(connector, 'orders'))} WHERE _deleted_at IS NULL`,
      );
      const truth = Array.from({ length: pagesEach }, (_, page) => ordersOf(shop, page)).flat();
      const stored = new Map(rows.map(({ _seq, ...row }) => [row['id'], JSON.stringify(row)]));
      const lost = truth.filter((order) => stored.get(order.id) !== JSON.stringify(order)).length;
      const seqs = new Set(rows.map(({ _seq }) => _seq)).size;
      if (lost > 0 || rows.length !== truth.length || seqs !== rows.length) {
        found.push(
          `${connector}: ${rows.length} rows of ${truth.length}, ${lost} lost or torn, ${seqs} numbers`,
        );
      }
    }
  } finally {
    await client.end();
  }
  return found;
}
