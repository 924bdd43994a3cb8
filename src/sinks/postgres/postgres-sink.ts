import { cellOf } from '../../sql/database.ts';
import { vacuumTables } from '../../sql/postgres/vacuum-tables.ts';
import type { OpenHow, Sink } from '../sink-access.ts';
import { processUser } from '../actions.ts';
import { numbered, valuedTables } from '../ledger/driver.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { ledgerSink } from '../ledger/ledger-sink.ts';
import { newestSeq, raiseSeq } from './lease/lease-rows.ts';
import { openLeases } from './lease/leases.ts';
import { openLedger, type OpenedSchema, type PostgresPlace, findSink } from './open-ledger.ts';
import { postgresTables } from './records/record-tables.ts';
import { toSinkError } from './sink-error.ts';

/** A sink in a schema of a PostgreSQL server. */
export async function openPostgresSink(place: PostgresPlace, how: OpenHow): Promise<Sink> {
  return ledgerSink(postgresLedger(await openLedger(place, how), how.who));
}

export function postgresLedger(opened: OpenedSchema, who = processUser()): Ledger {
  const { server, schema, clock, sinkId } = opened;
  const leases = openLeases(opened);
  return {
    db: server,
    clock,
    who,
    sinkId,
    records: postgresTables(schema),
    // A transaction costs a dozen round trips, whatever its size.
    deletedAtOnce: 20_000,
    take: leases.take,
    isInPlace: async () => {
      try {
        return (await server.read(async (tx) => await findSink(tx, schema, server.place)))?.sinkId === sinkId;
      } catch {
        return false; // Opening it again reports what is wrong there.
      }
    },
    // The table's lock keeps others from taking a number in between.
    reserveNumbers: async (tx, of, count) => {
      if (count === 0) return 0;
      const { table, column } = numbered[of];
      await tx.run(`LOCK TABLE ${table} IN SHARE ROW EXCLUSIVE MODE`);
      const sequence = `pg_get_serial_sequence('${table}', '${column}')`;
      const sql = `SELECT setval(${sequence}, nextval(${sequence}) + :count)`;
      return ((await cellOf<number>(tx, sql, { count })) ?? 0) - count;
    },
    highestPartition: async (tx) => {
      const { table, column } = numbered.partitions;
      return (await cellOf<number>(tx, `SELECT last_value FROM ${table}_${column}_seq`)) ?? 0;
    },
    newestSeq,
    raiseSeq,
    alone: async (tx, table) => {
      await tx.run(`LOCK TABLE ${table} IN SHARE ROW EXCLUSIVE MODE`);
      return (
        (await cellOf<number>(tx, 'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint')) ??
        clock.now()
      );
    },
    giveBack: async (tables) => {
      const explain = (error: unknown): unknown => toSinkError(error, server.place);
      await vacuumTables(server, { schema, tables: [...tables, ...valuedTables], explain });
    },
    [Symbol.asyncDispose]: async () => {
      await leases[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}
