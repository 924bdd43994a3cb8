import type pg from 'pg';
import { systemClock } from '../../core/clock.ts';
import { openConnections, type Connections, type ConnectionsOptions } from './connections.ts';
import { watchLosses, watchOutage, type Away } from './outage.ts';
import { placeOf } from './place.ts';
import { failingOf, lostConnection } from './postgres-error.ts';
import { durableSettingsIn, normalSettingsIn, readSettingsIn } from './transaction-settings.ts';
import {
  type Database,
  type TransactHow,
  cellOf,
  type Cells,
  type Snapshot,
  quoted,
  explained,
  lengthOf,
  mostRows,
  wantedLength,
} from '../database.ts';
import { postgresDialect, txOn, type PostgresTx, postgresTx } from './session.ts';
import { withoutTimeout, openEnding } from './without-timeout.ts';

/** A PostgreSQL server that may have several hosts, of which one is the primary. */
export interface Server extends Database {
  /**
   * Runs `work` in one transaction. It runs again, up to five times, where the server broke it off for another one, and
   * for a minute (`Outage`) where the connection was lost before it was committed; `restart` is called in front of
   * that. Whether a transaction whose commit was not answered has been stored is asked as `work` has declared with
   * `proveBy`.
   */
  transact<Result>(work: (tx: WriteTx) => Promise<Result>, how?: TransactHow): Promise<Result>;
  read<Result>(work: (tx: PostgresTx) => Promise<Result>): Promise<Result>;
  /** Runs `work` again, for the same minute, while it fails because the server cannot be reached. */
  whileAway<Result>(work: () => Promise<Result>): Promise<Result>;
  /**
   * Registers `check`, to be called before the first transaction after a lost connection, after the checks registered
   * earlier: the server may be another one, or have lost commits. `check` gets the server as it is then.
   */
  afterLoss(check: (found: FoundServer) => Promise<unknown>): void;
  /**
   * A separate connection, to the host that is no standby; the caller ends it. Straight to the server where the
   * settings name a way. Where it breaks, its next question fails.
   */
  connect(): Promise<pg.Client>;
  /**
   * Rewrites tables without their removed rows, and takes their samples for the planner again. Each waits for its
   * readers, and later readers wait for it. A table that was dropped has given its space back.
   */
  vacuum(tables: readonly string[]): Promise<void>;
}

type FoundServer = Pick<Server, 'place' | 'read' | 'transact'>;

export interface WriteTx extends PostgresTx {
  /**
   * Sets how another transaction sees whether this one has been stored. The number of the transaction cannot prove it:
   * a server that was killed may assign the number of a lost transaction again.
   */
  proveBy(wasStored: (tx: PostgresTx) => Promise<boolean>): void;
}

interface ServerOptions extends Omit<ConnectionsOptions, 'onLoss' | 'explain'> {
  readonly schema: string;
  /** Translates an error of the server, or of the connection to it, for the caller. Returns others unchanged. */
  readonly explain: (error: unknown, place: string) => unknown;
  readonly durability: 'full' | 'normal';
  readonly signal?: AbortSignal | undefined;
  readonly onAway?: ((away: Away | null) => void) | undefined;
}

export function openServer(options: ServerOptions): Server {
  const { connection, schema } = options;
  const place = placeOf(connection, schema);
  const explain = (error: unknown): unknown => options.explain(error, place);
  const losses = watchLosses<FoundServer>();
  const connections = openConnections({ ...options, onLoss: losses.notice, explain });
  const server: Opened = {
    ...options,
    place,
    explain,
    outage: watchOutage(place, explain, options.onAway),
    losses,
    connections,
    settings: {
      durable: durableSettingsIn(schema),
      normal: normalSettingsIn(schema),
      read: readSettingsIn(schema),
    },
  };
  return {
    dialect: postgresDialect,
    place,
    transact: (work, how) => transact(server, work, how),
    afterLoss: losses.afterLoss,
    read: (work) => read(server, work),
    whileAway: async (work) => await explained(explain, async () => whileUnanswered(server, work)),
    connect: connections.connect,
    vacuum: async (tables) => await explained(explain, async () => vacuum(server, schema, tables)),
    openSnapshot: (signal) => openPostgresSnapshot(server, signal),
    [Symbol.asyncDispose]: connections.end,
  };
}

/** Parts of an opened server. */
interface Opened extends Pick<ServerOptions, 'durability' | 'signal'> {
  readonly place: string;
  readonly explain: (error: unknown) => unknown;
  readonly outage: ReturnType<typeof watchOutage>;
  readonly losses: ReturnType<typeof watchLosses<FoundServer>>;
  readonly connections: Connections;
  readonly settings: { readonly durable: string; readonly normal: string; readonly read: string };
}

const mostConflicts = 5;

async function transact<Result>(
  server: Opened,
  work: (tx: WriteTx) => Promise<Result>,
  how: TransactHow = {},
  isCheck = false,
): Promise<Result> {
  const { outage, explain, signal } = server;
  const mayRetry = outage.begin();
  for (let conflicts = 0, pauseMs = 100; ;) {
    try {
      if (!isCheck) await checkFirst(server);
      const outcome = await attempt(server, work, isCheck, how);
      if (outcome.kind === 'committed' || (await wasStored(server, outcome))) {
        outage.answered('committed');
        return outcome.result;
      }
    } catch (error) {
      const failing = failingOf(error);
      conflicts += failing === 'conflict' ? 1 : 0;
      const isOver = failing === 'connection' && (!mayRetry(error) || signal?.aborted === true);
      if (failing === 'other' || conflicts > mostConflicts || isOver) throw explain(error);
    }
    how.restart?.();
    await systemClock.sleep(pauseMs * (0.5 + Math.random()), signal);
    pauseMs = Math.min(2 * pauseMs, 2_000);
  }
}

async function checkFirst(server: Opened): Promise<void> {
  await server.losses.checkFirst({
    place: server.place,
    read: (work) => read(server, work),
    transact: (work, how) => transact(server, work, how, true),
  });
}

async function attempt<Result>(
  { connections, losses, settings, durability, signal }: Opened,
  work: (tx: WriteTx) => Promise<Result>,
  isCheck: boolean,
  { isLong = false, isDurable = durability === 'full' }: TransactHow = {},
): Promise<Outcome<Result>> {
  return await connections.withClient(async (client, heard): Promise<Outcome<Result>> => {
    // Noticed only now: the server that answers must be checked before it is written to.
    if (!isCheck && losses.isUnchecked()) throw lostConnection('the connection was lost');
    let evidence: Evidence | null = null;
    const session = txOn(client, heard);
    const rollBack = async (error: unknown): Promise<void> => {
      session.close();
      if (failingOf(error) !== 'connection') await client.query('ROLLBACK');
    };
    const inTx = (): Promise<Result> => work({ ...session, proveBy: (given) => void (evidence = given) });
    let result: Result;
    try {
      session.put('BEGIN ISOLATION LEVEL READ COMMITTED');
      session.put(isDurable ? settings.durable : settings.normal);
      result = isLong
        ? await withoutTimeout({ client, session, heard, connect: connections.connect, signal }, inTx)
        : await inTx();
    } catch (error) {
      await rollBack(error);
      throw error;
    }
    try {
      session.put('COMMIT');
      await session.sent();
      session.close();
      return { kind: 'committed', result };
    } catch (error) {
      await rollBack(error);
      if (failingOf(error) !== 'connection') throw error;
      losses.notice();
      return { kind: 'unknown', result, evidence, error };
    }
  });
}

type Outcome<Result> = { readonly kind: 'committed'; readonly result: Result } | Unknown<Result>;

/** A transaction whose COMMIT was not answered. */
interface Unknown<Result> {
  readonly kind: 'unknown';
  readonly result: Result;
  readonly evidence: Evidence | null;
  readonly error: unknown;
}

type Evidence = Parameters<WriteTx['proveBy']>[0];

/**
 * Whether a transaction whose COMMIT was not answered has been stored. Throws where that cannot be determined: a stored
 * transaction must not be stored again, nor a lost one be taken for stored.
 */
async function wasStored(server: Opened, { evidence, error }: Unknown<unknown>): Promise<boolean> {
  if (evidence === null) throw server.explain(error);
  const { result } = await explained(server.explain, async () =>
    whileUnanswered(server, async () => await attempt(server, evidence, true)),
  );
  return result;
}

/** While the connection is lost, or the transaction in question still runs, for a minute. */
async function whileUnanswered<Result>({ outage, signal }: Opened, ask: () => Promise<Result>) {
  const mayRetry = outage.begin();
  for (;;) {
    try {
      const result = await ask();
      outage.answered('read');
      return result;
    } catch (error) {
      if (failingOf(error) === 'other' || !mayRetry(error)) throw error;
    }
    await systemClock.sleep(500, signal);
  }
}

async function read<Result>(
  { connections, settings, explain }: Opened,
  work: (tx: PostgresTx) => Promise<Result>,
): Promise<Result> {
  return await explained(explain, async () =>
    connections.withClient(async (client, heard) => {
      const session = txOn(client, heard);
      session.put('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
      session.put(settings.read);
      try {
        return await work(session);
      } finally {
        session.close();
        await client.query('ROLLBACK').catch(() => undefined);
      }
    }),
  );
}

/** Rows come by the index that has their order, where sorting a large table first would take as much space again. */
const snapshotSettings = `SET LOCAL cursor_tuple_fraction = 0.0001;
  SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0`;

/**
 * The state that the server has now, over a separate connection. Writers continue; the server cleans up nothing newer
 * until it is disposed.
 */
async function openPostgresSnapshot(
  { connections: { connect }, settings: { read: readSettings }, explain }: Opened,
  signal: AbortSignal | undefined,
): Promise<Snapshot> {
  const { client, server, end } = await openEnding(connect, signal);
  const ask: Snapshot['read'] = async (work) => {
    try {
      signal?.throwIfAborted();
      return await work(txOn(client));
    } catch (error) {
      signal?.throwIfAborted();
      throw explain(error);
    }
  };
  try {
    await ask(async (tx) => {
      const begin = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; ${readSettings}; ${snapshotSettings}`;
      await client.query(begin);
      // The state is that of the first reading.
      server.pid = (await cellOf<number>(tx, 'SELECT pg_backend_pid()')) ?? 0;
    });
  } catch (error) {
    await end();
    throw error;
  }
  return { read: ask, batches: cursorBatches(ask), [Symbol.asyncDispose]: end };
}

const firstRows = 100;

/** Number of rows to read next, after a batch that was not empty. */
function nextRows(batch: readonly Cells[]): number {
  const length = batch.reduce((sum, row) => sum + lengthOf(row), 0);
  return Math.max(1, Math.min(mostRows, Math.floor((batch.length * wantedLength) / (length + 1))));
}

/**
 * Statements side by side are each read through a cursor with a unique name, which is closed when its reader stops
 * early too.
 */
function cursorBatches(ask: Snapshot['read']): Snapshot['batches'] {
  let cursors = 0;
  return async function* (sql, values): AsyncGenerator<readonly Cells[]> {
    const cursor = `reading_${(cursors += 1)}`;
    await ask(async (tx) => await tx.run(`DECLARE ${cursor} NO SCROLL CURSOR FOR ${sql}`, values));
    let isOpen = true;
    try {
      for (let count = firstRows; ;) {
        const limit = count;
        const rows = await ask(async (tx) => await postgresTx(tx).arrays(`FETCH ${limit} FROM ${cursor}`));
        if (rows.length > 0) yield rows;
        if (rows.length < limit) return;
        count = nextRows(rows);
      }
    } catch (error) {
      isOpen = false;
      throw error;
    } finally {
      if (isOpen) await ask(async (tx) => await tx.run(`CLOSE ${cursor}`));
    }
  };
}

/** `Server.vacuum`. */
async function vacuum({ connections }: Opened, schema: string, tables: readonly string[]): Promise<void> {
  const client = await connections.connect();
  try {
    await client.query(`SET lock_timeout = '60s'`);
    const { rows } = await client.query<{ tablename: string }>(
      'SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = $1 AND tablename = ANY($2)',
      [schema, tables],
    );
    for (const { tablename: table } of rows) {
      await client.query(`VACUUM (FULL, ANALYZE) ${quoted(schema)}.${quoted(table)}`);
    }
  } finally {
    await client.end();
  }
}
