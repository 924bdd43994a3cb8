import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { instant, type Clock, type Instant, inTries } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { SinkPlace } from '../sinks/sink-access.ts';
import type { Database, Tx } from '../sql/database.ts';
import { openSealed } from './open-sealed.ts';
import { postgresSignIns } from './postgres-sign-ins.ts';
import {
  claimRow,
  endRow,
  nameRow,
  readFactsSql,
  readSql,
  removeRow,
  renewRow,
  storeRow,
  type SignInRow,
} from './sign-in-rows.ts';
import type { IssuedTokens, SignIn, SignInDriver, SignInFacts, StoredSignIn } from './sign-in.ts';
import { sqliteSignIns } from './sqlite-sign-ins.ts';

export interface SignInOptions {
  readonly connector: string;
  /** Where the connector's records are: beside them. */
  readonly sink: SinkPlace;
  /** 32 bytes that seal the tokens; null: they are stored as they are. */
  readonly key: Buffer | null;
  readonly clock: Clock;
  /** How long a renewal may take where the place has no lock that ends with its holder. */
  readonly claimMs?: number;
}

/** More than the longest answer of a token endpoint takes. */
const defaultClaimMs = 90_000;
const firstPauseMs = 20;
const longestPauseMs = 1_000;

/** Opens nothing before it is asked. The caller disposes it. */
export function openSignIn({ connector, sink, key, clock, claimMs = defaultClaimMs }: SignInOptions): SignIn {
  const driver = driverOf(sink, connector, clock);
  const sealed = openSealed(connector, key);
  const found = async (tx: Tx): Promise<StoredSignIn | null> => {
    const row = await tx.first<SignInRow>(readSql, { connector });
    return row === undefined ? null : { ...row, tokens: sealed.open(row.tokens) };
  };
  const read = async (): Promise<StoredSignIn | null> => {
    const db = await driver.open(false);
    return db === null ? null : await db.read(found);
  };
  const made = async (): Promise<Database> => {
    const db = await driver.open(true);
    if (db === null) throw new TypeError('the place of sign-ins was not made');
    return db;
  };

  /** Null: another process renews, or what is stored has changed. */
  const claim = async (revision: string): Promise<Claim | null> => {
    const lock = driver.lock?.() ?? null;
    if (lock === null && driver.lock !== undefined) return null;
    const release = (): void => lock?.release();
    try {
      const by = randomUUID();
      const db = await made();
      const was = await db.transact(async (tx) => {
        const stored = await found(tx);
        if (stored === null) return null;
        const now = await driver.now(tx);
        const times = { now, until: now + claimMs, at: stored.begunAt ?? instant(now) };
        const isAlone = lock === null ? 0 : 1;
        const count = await claimRow(tx, { connector, revision, by, isAlone, ...times });
        return count === 0 ? null : { stored, begunAt: times.at };
      }, durable);
      if (was !== null) return { ...was, by, release };
    } catch (error) {
      release();
      throw error;
    }
    release();
    return null;
  };

  /** `before`: what these tokens replace; null: nothing. */
  const written = (tokens: IssuedTokens, before: StoredSignIn | null) => {
    const now = clock.now();
    const after = (seconds: number | null): Instant | null =>
      seconds === null ? null : instant(now + seconds * 1_000);
    const { refreshToken, accessSeconds, refreshSeconds } = tokens;
    const isKept = refreshToken === before?.tokens.refreshToken && refreshSeconds === null;
    return {
      tokens: sealed.seal(tokens),
      at: instant(now),
      accessUntil: after(accessSeconds),
      endsAt: refreshToken === null ? after(accessSeconds) : isKept ? before.endsAt : after(refreshSeconds),
    };
  };

  /** Tokens that the service has just issued are the newest ones, whatever has become of the claim. */
  const settle = async ({ stored, begunAt, by }: Claim, ask: Ask): Promise<StoredSignIn | null> => {
    const renewal = await ask(stored);
    const db = await made();
    const { revision } = stored;
    const row = { connector, revision };
    if (renewal.kind === 'renewed') {
      const next = { next: randomUUID(), ...written(renewal.tokens, stored) };
      await inTries(async () => db.transact(async (tx) => renewRow(tx, { ...row, ...next }), durable), clock);
      return await read();
    }
    const ended =
      renewal.kind === 'refused'
        ? { refusal: renewal.why, begunAt: null }
        : { refusal: null, begunAt: renewal.isOpen ? begunAt : stored.begunAt };
    await inTries(
      async () => db.transact(async (tx) => endRow(tx, { ...row, by, ...ended }), durable),
      clock,
    );
    if (renewal.kind === 'failed') throw renewal.error;
    return await read();
  };

  return {
    read,
    store: async (tokens) => {
      const db = await made();
      const row = { connector, revision: randomUUID(), ...written(tokens, null) };
      await db.transact(async (tx) => storeRow(tx, row), durable);
    },
    nameAccount: async (account) => {
      const db = await driver.open(false);
      await db?.transact(async (tx) => nameRow(tx, { connector, account }));
    },
    remove: async () => {
      const db = await driver.open(false);
      if (db === null) return null;
      return await db.transact(async (tx) => {
        const was = await found(tx);
        await removeRow(tx, { connector });
        return was;
      }, durable);
    },
    renew: async (revision, ask, signal) => {
      const waitMs = 2 * claimMs;
      const giveUpAt = clock.now() + waitMs;
      for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
        signal.throwIfAborted();
        const stored = await read();
        if (stored?.revision !== revision || stored.refusal !== null) return stored;
        const held = await claim(revision);
        if (held !== null) {
          try {
            return await settle(held, ask);
          } finally {
            held.release();
          }
        }
        if (clock.now() >= giveUpAt) throw busy(connector, waitMs);
        await clock.sleep(pauseMs, signal);
      }
    },
    [Symbol.asyncDispose]: async () => await driver[Symbol.asyncDispose](),
  };
}

/**
 * What is known of the sign-ins of these connectors of one sink; one that no person has signed in is absent. Opens no
 * token, and makes nothing.
 */
export async function readSignInFacts(
  sink: SinkPlace,
  connectors: readonly string[],
  clock: Clock,
): Promise<ReadonlyMap<string, SignInFacts>> {
  // A schema has one table for all of them, a folder one file for each.
  const groups = sink.type === 'postgres' ? [connectors] : connectors.map((one) => [one]);
  const facts = new Map<string, SignInFacts>();
  for (const group of groups) {
    await using driver = driverOf(sink, group[0] ?? '', clock);
    const db = await driver.open(false);
    for (const connector of db === null ? [] : group) {
      const row = await db?.read(async (tx) => await tx.first<SignInFacts>(readFactsSql, { connector }));
      if (row !== undefined) facts.set(connector, row);
    }
  }
  return facts;
}

function driverOf(sink: SinkPlace, connector: string, clock: Clock): SignInDriver {
  switch (sink.type) {
    case 'sqlite':
      return sqliteSignIns(`${sink.path}.sign-ins`, connector, clock);
    case 'jsonl':
      return sqliteSignIns(path.join(sink.directory, '_sign-ins'), connector, clock);
    case 'postgres':
      return postgresSignIns(sink);
  }
}

type Ask = Parameters<SignIn['renew']>[1];

interface Claim {
  /** As it was before. */
  readonly stored: StoredSignIn;
  readonly begunAt: Instant;
  readonly by: string;
  readonly release: () => void;
}

const durable = { isDurable: true } as const;

function busy(connector: string, waitedMs: number): SyncError {
  return new SyncError(
    `Another process has been renewing the sign-in of ${connector} for ${Math.round(waitedMs / 1_000)} s. Try again; if it stays so, end that process.`,
    { code: 'AUTH_FAILED', recovery: 'retry', context: { connector } },
  );
}
