import type { OpenHistory, OpenHow } from '../sink-access.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { ledgerReader } from '../ledger/history/history.ts';
import { ledgerSink } from '../ledger/ledger-sink.ts';
import type { Sink } from '../sink.ts';
import { openLeases } from './lease/leases.ts';
import { openLedger, openLedgerToRead, type OpenedSchema, type PostgresPlace } from './open-ledger.ts';
import { findSink } from './open-schema.ts';
import { postgresTables } from './records/record-tables.ts';

/** A sink in a schema of a PostgreSQL server. */
export async function openPostgresSink(place: PostgresPlace, how: OpenHow): Promise<Sink> {
  return ledgerSink(postgresLedger(await openLedger(place, how)));
}

export function postgresLedger(opened: OpenedSchema): Ledger {
  const { server, at, schema, clock, sinkId } = opened;
  const leases = openLeases(opened);
  return {
    db: server,
    clock,
    sinkId,
    records: postgresTables(at),
    // A transaction costs a dozen round trips, whatever its size.
    deletedAtOnce: 20_000,
    take: async (connector, holder, work) => await leases.take(connector, holder, work),
    isInPlace: async () => {
      try {
        return (await server.read(async (tx) => await findSink(tx, schema, server.place)))?.sinkId === sinkId;
      } catch {
        return false; // Opening it again says what is wrong there.
      }
    },
    // The table's lock keeps others from taking a number in between.
    reserveNumbers: async (tx, of, count) => {
      if (count === 0) return 0;
      const table = `${at}_sync_${of}`;
      await tx.run(`LOCK TABLE ${table} IN SHARE ROW EXCLUSIVE MODE`);
      const sequence = `pg_get_serial_sequence('${table}', '${of === 'runs' ? 'number' : 'id'}')`;
      const reserved = await tx.first<{ last: number }>(
        `SELECT setval(${sequence}, nextval(${sequence}) + :count) AS last`,
        { count },
      );
      return (reserved?.last ?? 0) - count;
    },
    highestPartition: async (tx) => {
      const found = await tx.first<{ last: number }>(
        `SELECT last_value AS last FROM ${at}_sync_partitions_id_seq`,
      );
      return found?.last ?? 0;
    },
    newestSeq: async (tx, connector) => {
      const found = await tx.first<{ seq: number }>(
        `SELECT seq FROM ${at}_sync_counters WHERE connector = :connector`,
        { connector },
      );
      return found?.seq ?? 0;
    },
    raiseSeq: async (tx, connector, least) =>
      void (await tx.run(
        `UPDATE ${at}_sync_counters SET seq = greatest(seq, :least::bigint) WHERE connector = :connector`,
        { connector, least },
      )),
    [Symbol.asyncDispose]: async () => {
      await leases[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

/** Opens the ledger of a sink that is there, for reading alone. Throws `SyncError` SINK_FAILED where there is none. */
export async function openPostgresHistory(place: PostgresPlace): Promise<OpenHistory> {
  const { server, at, sinkId } = await openLedgerToRead(place);
  return {
    ...ledgerReader(postgresTables(at), (work) => server.read(work)),
    sinkId,
    [Symbol.asyncDispose]: async () => await server[Symbol.asyncDispose](),
  };
}
