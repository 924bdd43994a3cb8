import type { Snapshot } from '../../sql/database.ts';
import { ledgerReader } from '../ledger/history/history.ts';
import { keyReader, openRecordReader } from '../ledger/read-records.ts';
import { servedLedger } from '../ledger/served-ledger.ts';
import type { KeyReader, RecordReader } from '../record-reader.ts';
import type { OpenHistory, OpenHow, ServedLedger } from '../sink-access.ts';
import { openLedger, openLedgerToRead, type PostgresPlace } from './open-ledger.ts';
import { newestSeq } from './lease/lease-rows.ts';
import { findSink } from './open-schema.ts';
import { postgresTables } from './records/record-tables.ts';

/*
 * What reads a sink alone. Each throws `SyncError` SINK_FAILED where there is none, but for the served ledger, which
 * makes one.
 */

export async function openPostgresHistory(place: PostgresPlace): Promise<OpenHistory> {
  const { server, schema, sinkId } = await openLedgerToRead(place);
  return {
    ...ledgerReader(postgresTables(schema), (work) => server.read(work)),
    sinkId,
    [Symbol.asyncDispose]: async () => await server[Symbol.asyncDispose](),
  };
}

export async function openPostgresRecords(place: PostgresPlace): Promise<RecordReader> {
  return await openRecordReader({
    ...(await openSnapshot(place)),
    newestSeq,
  });
}

export async function openPostgresKeys(place: PostgresPlace): Promise<KeyReader> {
  return keyReader(await openSnapshot(place));
}

/** Opens the sink's ledger for days, and makes the sink where there is none. */
export async function openServedPostgres(place: PostgresPlace, how: OpenHow): Promise<ServedLedger> {
  const { server, sinkId } = await openLedger({ ...place, connections: 2 }, how);
  return await servedLedger({
    sinkId,
    look: async () => {
      const found = await server.read(async (tx) => await findSink(tx, place.schema, server.place));
      if (found?.sinkId === sinkId) return null;
      return `${found === null ? 'nothing' : 'another sink'} is at ${server.place}`;
    },
    read: (work) => server.read(work),
    mark: async () => null,
    [Symbol.asyncDispose]: async () => await server[Symbol.asyncDispose](),
  });
}

async function openSnapshot(place: PostgresPlace): Promise<{
  readonly snapshot: Snapshot;
  readonly records: ReturnType<typeof postgresTables>;
}> {
  const { server, schema } = await openLedgerToRead(place);
  await using _opening = server;
  return { snapshot: await server.openSnapshot(), records: postgresTables(schema) };
}
