import { SyncError } from '../../core/errors.ts';
import { NoSinkYetError } from '../acquire-errors.ts';
import { servedLedger } from '../ledger/served-ledger.ts';
import type { OpenedToRead } from '../ledger-readers.ts';
import type { OpenHow, ServedLedger, SinkPlace } from '../sink-access.ts';
import { lastCommits, newestSeq } from './lease/lease-rows.ts';
import type { Clock } from '../../core/clock.ts';
import { findReadableSink, findSink, makeSink, markedSink, newestVersion } from './open-schema.ts';
import { postgresTables } from './records/record-tables.ts';
import { toSinkError } from './sink-error.ts';
import { openServer, type Server } from '../../sql/postgres/server.ts';

export type PostgresPlace = Extract<SinkPlace, { readonly type: 'postgres' }>;

/** A sink in a schema of a server. */
export interface OpenedSchema {
  readonly server: Server;
  readonly schema: string;
  readonly clock: Clock;
  readonly sinkId: string;
}

/**
 * Opens the sink for writing, and makes it where there is none. Throws `SyncError` SINK_INCOMPATIBLE, SINK_FAILED;
 * SINK_MOVED where another sink than `how.sinkId` is there, or none. The caller disposes its server.
 */
export async function openLedger(place: PostgresPlace, how: OpenHow): Promise<OpenedSchema> {
  const { schema } = place;
  const { clock, durability, signal, onAway, delay } = how;
  const server = openServer({ ...place, explain: toSinkError, durability, onAway, signal, delay });
  return await disposedOnFailure(server, async () => {
    if (how.sinkId !== undefined) await expectSink(server, schema, how.sinkId);
    const { sinkId } = await makeSink(server, schema, clock);
    server.afterLoss(async (found) => await makeSink(found, schema, clock));
    return { server, schema, clock, sinkId };
  });
}

/** Opens the sink for reading. Throws `NoSinkYetError` where there is none. The caller disposes its server. */
export async function openToRead(
  place: PostgresPlace & { readonly areShared?: boolean },
): Promise<OpenedToRead & { readonly db: Server }> {
  const { schema } = place;
  const server = openServer({ ...place, explain: toSinkError, durability: 'full' });
  return await disposedOnFailure(server, async () => {
    const found = await server.read(async (tx) => await findReadableSink(tx, schema, server.place));
    if (found === null) throw new NoSinkYetError(server.place);
    return { db: server, sinkId: found.sinkId, records: postgresTables(schema), newestSeq };
  });
}

/** Opens the sink's ledger for days, and makes the sink where there is none. */
export async function openServedPostgres(place: PostgresPlace, how: OpenHow): Promise<ServedLedger> {
  return await served(place, await openLedger({ ...place, connections: 2 }, how));
}

/** The same of a sink that exists. Throws `NoSinkYetError` where there is none. */
export async function openWatchedPostgres(place: PostgresPlace): Promise<ServedLedger> {
  const { db: server, sinkId } = await openToRead({ ...place, connections: 4, areShared: true });
  return await served(place, { server, sinkId });
}

async function served(
  { schema }: PostgresPlace,
  { server, sinkId }: Pick<OpenedSchema, 'server' | 'sinkId'>,
): Promise<ServedLedger> {
  /** Of the newest look that found the sink. */
  let mark: string | null = null;
  return await servedLedger({
    sinkId,
    look: async () => {
      const now = await server
        .read(async (tx) => await markedSink(tx, schema))
        .catch((error: unknown) => {
          if (error instanceof SyncError && error.recovery === 'retry') throw error;
          // Most likely its table is not there.
          return undefined;
        });
      mark = now?.sinkId === sinkId && now.version === newestVersion() ? now.mark : null;
      if (mark !== null) return null;
      const found = await server.read(async (tx) => await findSink(tx, schema, server.place));
      if (found?.sinkId === sinkId) return null;
      return `${found === null ? 'nothing' : 'another sink'} is at ${server.place}`;
    },
    read: (work) => server.read(work),
    mark: async () => Promise.resolve(mark),
    lastCommits,
    [Symbol.asyncDispose]: async () => await server[Symbol.asyncDispose](),
  });
}

/** Whether there is a sink. Rejects where that cannot be known, and where tables of another program are. */
export async function isSinkThere(place: PostgresPlace): Promise<boolean> {
  await using server = openServer({ ...place, explain: toSinkError, durability: 'full' });
  return (await server.read(async (tx) => await findSink(tx, place.schema, server.place))) !== null;
}

async function expectSink(server: Server, schema: string, sinkId: string): Promise<void> {
  const found = await server.read(async (tx) => await findSink(tx, schema, server.place));
  if (found?.sinkId === sinkId) return;
  throw new SyncError(
    `${server.place} holds ${found === null ? 'no sink' : 'another sink'} than before. Restore it, or restart what uses it to begin with what is there.`,
    { code: 'SINK_MOVED', recovery: 'stop', context: { place: server.place } },
  );
}

async function disposedOnFailure<Result>(server: Server, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    await server[Symbol.asyncDispose]();
    throw error;
  }
}
