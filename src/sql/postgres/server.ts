import type pg from 'pg';
import { systemClock } from '../../core/clock.ts';
import { openConnections, type ConnectionsOptions } from './connections.ts';
import { watchOutage, type Away } from './outage.ts';
import { placeOf } from './place.ts';
import { failingOf, lostConnection } from './postgres-error.ts';
import { durableSettingsIn, normalSettingsIn, readSettingsIn } from './transaction-settings.ts';
import type { Database, TransactHow } from '../database.ts';
import { explained } from '../explained.ts';
import { postgresDialect, txOn, type PostgresTx } from './session.ts';
import { openPostgresSnapshot } from './snapshot.ts';
import { withoutTimeout } from './without-timeout.ts';

/** A PostgreSQL server that may have several hosts, one of which is no standby. */
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
   * From now on called in front of the first transaction after a lost connection, behind those that were given before:
   * the server may be another one, or have lost commits. `look` is given the server as it is then.
   */
  afterLoss(look: (found: Pick<Server, 'place' | 'read' | 'transact'>) => Promise<unknown>): void;
  /**
   * A separate connection, to the host that is no standby; the caller ends it. Straight to the server where the
   * settings name a way. Where it breaks, its next question fails.
   */
  connect(): Promise<pg.Client>;
}

export interface WriteTx extends PostgresTx {
  /**
   * How another transaction sees whether this one has been stored. Not by the number of the transaction: a server that
   * was killed may give the number of what it has lost again.
   */
  proveBy(wasStored: (tx: PostgresTx) => Promise<boolean>): void;
}

interface ServerOptions extends Omit<ConnectionsOptions, 'onLoss' | 'explain'> {
  readonly schema: string;
  /** What an error of the server, or on the way to it, means to the caller; others come back as they are. */
  readonly explain: (error: unknown, place: string) => unknown;
  readonly durability: 'full' | 'normal';
  readonly signal?: AbortSignal | undefined;
  readonly onAway?: ((away: Away | null) => void) | undefined;
  /** For tests: resolves in front of each round trip. */
  readonly delay?: (() => Promise<void>) | undefined;
}

const mostConflicts = 5;

export function openServer(options: ServerOptions): Server {
  const { connection, schema, signal, delay } = options;
  const place = placeOf(connection, schema);
  const explain = (error: unknown): unknown => options.explain(error, place);
  const durableSettings = durableSettingsIn(schema);
  const normalSettings = normalSettingsIn(schema);
  const readSettings = readSettingsIn(schema);
  const outage = watchOutage(place, explain, options.onAway);
  /** Since `look` was called last. */
  let isLost = false;
  const looks: Parameters<Server['afterLoss']>[0][] = [];
  let looking: Promise<void> | null = null;
  const onLoss = (): void => void (isLost = true);
  const { withClient, connect, end } = openConnections({ ...options, onLoss, explain });

  const lookAtAll = async (): Promise<void> => {
    isLost = false;
    try {
      for (const look of looks) {
        await look({ place, read, transact: (work, how) => transact(work, how, true) });
      }
    } catch (error) {
      isLost = true;
      throw error;
    }
  };
  const lookFirst = async (): Promise<void> => {
    // `finally` runs after the assignment even where there was nothing to look at.
    if (isLost) looking ??= lookAtAll().finally(() => (looking = null));
    await looking;
  };

  const attempt = async <Result>(
    work: (tx: WriteTx) => Promise<Result>,
    isLooking: boolean,
    { isLong = false, isDurable = options.durability === 'full' }: TransactHow = {},
  ): Promise<Outcome<Result>> =>
    await withClient(async (client, heard): Promise<Outcome<Result>> => {
      // Noticed only now: the server that answers must be checked before it is written to.
      if (!isLooking && looks.length > 0 && (isLost || looking !== null)) {
        throw lostConnection('the connection was lost');
      }
      let evidence: Evidence | null = null;
      const session = txOn(client, heard, delay);
      const rollBack = async (error: unknown): Promise<void> => {
        session.close();
        if (failingOf(error) !== 'connection') await client.query('ROLLBACK');
      };
      const inTx = async (): Promise<Result> =>
        await work({ ...session, proveBy: (given) => void (evidence = given) });
      let result: Result;
      try {
        session.put('BEGIN ISOLATION LEVEL READ COMMITTED');
        session.put(isDurable ? durableSettings : normalSettings);
        result = isLong
          ? await withoutTimeout({ client, session, heard, connect, signal }, inTx)
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
        onLoss();
        return { kind: 'unknown', result, evidence, error };
      }
    });

  /**
   * Whether a transaction whose COMMIT was not answered has been stored. Throws where that cannot be known: what has
   * been stored must not be stored again, nor what has not be taken for stored.
   */
  const wasStored = async (evidence: Evidence | null, error: unknown): Promise<boolean> => {
    if (evidence === null) throw explain(error);
    const { result } = await explained(explain, async () =>
      whileUnanswered(async () => await attempt(evidence, true)),
    );
    return result;
  };

  const transact = async <Result>(
    work: (tx: WriteTx) => Promise<Result>,
    how: TransactHow = {},
    isLooking = false,
  ): Promise<Result> => {
    const mayRetry = outage.begin();
    for (let conflicts = 0, pauseMs = 100; ;) {
      try {
        if (!isLooking) await lookFirst();
        const outcome = await attempt(work, isLooking, how);
        if (outcome.kind === 'committed' || (await wasStored(outcome.evidence, outcome.error))) {
          outage.answered('committed');
          return outcome.result;
        }
      } catch (error) {
        const failing = failingOf(error);
        conflicts += failing === 'conflict' ? 1 : 0;
        const isOver = failing === 'connection' && (!mayRetry(error) || signal?.aborted === true);
        if (failing === 'other' || conflicts > mostConflicts || isOver) {
          throw explain(error);
        }
      }
      how.restart?.();
      await systemClock.sleep(pauseMs * (0.5 + Math.random()), signal);
      pauseMs = Math.min(2 * pauseMs, 2_000);
    }
  };

  /** While the connection is lost, or the transaction in question still runs, for a minute. */
  const whileUnanswered = async <Result>(ask: () => Promise<Result>): Promise<Result> => {
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
  };

  const read: Server['read'] = async (work) =>
    await explained(explain, async () =>
      withClient(async (client, heard) => {
        const session = txOn(client, heard, delay);
        session.put('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
        session.put(readSettings);
        try {
          return await work(session);
        } finally {
          session.close();
          await client.query('ROLLBACK').catch(() => undefined);
        }
      }),
    );

  return {
    dialect: postgresDialect,
    place,
    transact: (work, how) => transact(work, how),
    afterLoss: (look) => void looks.push(look),
    read,
    whileAway: async (work) => await explained(explain, async () => whileUnanswered(work)),
    connect,
    openSnapshot: async (until) =>
      await openPostgresSnapshot({ connect, schema, explain, signal: until, delay }),
    [Symbol.asyncDispose]: end,
  };
}

type Outcome<Result> =
  | { readonly kind: 'committed'; readonly result: Result }
  | {
      readonly kind: 'unknown';
      readonly result: Result;
      readonly evidence: Evidence | null;
      readonly error: unknown;
    };

type Evidence = Parameters<WriteTx['proveBy']>[0];
