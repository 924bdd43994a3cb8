import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import path from 'node:path';
import * as z from 'zod';
import { type Instant, inTries, instant, type Clock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import { createPrivateFile } from '../files/private-file.ts';
import { createSealer } from '../files/sealer.ts';
import type { SinkPlace } from '../sinks/sink-access.ts';
import { toSinkError } from '../sinks/sqlite/open-database.ts';
import { type Database, type Tx, write, cellOf } from '../sql/database.ts';
import type { Server } from '../sql/postgres/server.ts';
import { type Lock, takeLock } from '../sql/sqlite/lock.ts';
import { openSqliteDatabase, type SqliteDatabase } from '../sql/sqlite/open-sqlite-database.ts';
import { openSqlite, type Connection } from '../sql/sqlite/open-sqlite.ts';
import { blockingMs, whenUnlocked } from '../sql/sqlite/sqlite-error.ts';

/** Tokens that a service has issued to a person for one connector. Every value is secret. */
export interface SignInTokens {
  readonly accessToken: string;
  /** Null: the service issued none. */
  readonly refreshToken: string | null;
  /** Additional values from the answer, by the credential fields that the definition keeps them in. */
  readonly kept: Readonly<Record<string, string>>;
  /** The hash of the app and of the place that the tokens were issued for: they work with no other. */
  readonly app: string;
}

/** Tokens as a service has just issued them. */
export interface IssuedTokens extends SignInTokens {
  /** The lifetime of each token from now on; null: the service does not say. */
  readonly accessSeconds: number | null;
  readonly refreshSeconds: number | null;
}

/** Facts about a sign-in without its tokens; none of them is secret. */
export interface SignInFacts {
  readonly signedInAt: Instant;
  /** Null: the tokens are those of the sign-in itself. */
  readonly renewedAt: Instant | null;
  /** The service's name of the account; null: it did not say. */
  readonly account: string | null;
  /** When the access token ends; null: the service did not say. */
  readonly accessUntil: Instant | null;
  /** When a person has to sign in again, unless the tokens are renewed before; null: the service did not say. */
  readonly endsAt: Instant | null;
  /** Start of a renewal with an unknown result: it may have used up the refresh token. Null: there is none. */
  readonly begunAt: Instant | null;
  /** The reason why the service refused to renew the tokens, without secrets. Null: it has not refused. */
  readonly refusal: string | null;
}

export interface StoredSignIn extends SignInFacts {
  readonly tokens: SignInTokens;
  /** Changes with every change of the tokens. */
  readonly revision: string;
}

/** The result of one renewal. `failed`: `isOpen` if the service may have renewed the tokens nevertheless. */
export type Renewal =
  | { readonly kind: 'renewed'; readonly tokens: IssuedTokens }
  | { readonly kind: 'refused'; readonly why: string }
  | { readonly kind: 'failed'; readonly error: unknown; readonly isOpen: boolean };

/** The sign-in of one connector, stored for all processes that read it. */
export type SignIn = ReturnType<typeof openSignIn>;

/** Operations that depend on where sign-ins are stored, in addition to SQL. */
export interface SignInDriver extends AsyncDisposable {
  /** Null: nothing was ever stored there. `makes`: creates the place. */
  open(makes: boolean): Promise<Database | null>;
  /** The time of the clock that all processes at this place share. */
  now(tx: Tx): Promise<number>;
  /**
   * A lock for one process at a time, which ends with the process: every earlier renewal is over then. Null: another
   * process holds it. Absent: a renewal counts as over when its time is up.
   */
  readonly lock?: () => Lock | null;
}

interface SignInOptions {
  readonly connector: string;
  /** The place of the connector's records; the sign-in is stored next to them. */
  readonly sink: SinkPlace;
  /** 32 bytes that seal the tokens; null: they are stored as they are. */
  readonly key: Buffer | null;
  readonly clock: Clock;
  /** The longest time of a renewal, for places without a lock that ends with its holder. */
  readonly claimMs?: number;
}

/** More than the longest answer of a token endpoint takes. */
const defaultClaimMs = 90_000;
const firstPauseMs = 20;
const longestPauseMs = 1_000;

/** Opens nothing until it is used. The caller disposes it. */
export function openSignIn({ connector, sink, key, clock, claimMs = defaultClaimMs }: SignInOptions) {
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

  /** Null: another process renews, or the stored tokens have changed. */
  const claim = async (revision: string) => {
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

  /** `before`: the sign-in that these tokens replace; null: none. */
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

  /** Tokens that the service has just issued are the newest ones, even if the claim was lost. */
  const settle = async (
    { stored, begunAt, by }: NonNullable<Awaited<ReturnType<typeof claim>>>,
    ask: Ask,
  ): Promise<StoredSignIn | null> => {
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
    /** Null: no person has signed in. */
    read,
    /** Stores a new sign-in of a person, replacing the former one. Durable when it resolves. */
    store: async (tokens: IssuedTokens): Promise<void> => {
      const db = await made();
      const row = { connector, revision: randomUUID(), ...written(tokens, null) };
      await db.transact(async (tx) => storeRow(tx, row), durable);
    },
    /** Stores the name that the service gives to the signed-in account. */
    nameAccount: async (account: string): Promise<void> => {
      const db = await driver.open(false);
      await db?.transact(async (tx) => nameRow(tx, { connector, account }));
    },
    /** Removes the sign-in, and returns it. */
    remove: async (): Promise<StoredSignIn | null> => {
      const db = await driver.open(false);
      if (db === null) return null;
      return await db.transact(async (tx) => {
        const was = await found(tx);
        await removeRow(tx, { connector });
        return was;
      }, durable);
    },
    /**
     * Lets `ask` renew the tokens of this revision while no other process does; the result is durable when this
     * resolves. If they were renewed meanwhile, refused or removed, `ask` is not called. Returns the stored sign-in.
     * `signal` ends the wait for another process, but not a renewal. Rejects with the error of `ask`.
     */
    renew: async (revision: string, ask: Ask, signal: AbortSignal): Promise<StoredSignIn | null> => {
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
        if (clock.now() >= giveUpAt) {
          throw new SyncError(
            `Another process has been renewing the sign-in of ${connector} for ${Math.round(waitMs / 1_000)} s. Try again; if it stays so, end that process.`,
            { code: 'AUTH_FAILED', recovery: 'retry', context: { connector } },
          );
        }
        await clock.sleep(pauseMs, signal);
      }
    },
    [Symbol.asyncDispose]: async (): Promise<void> => await driver[Symbol.asyncDispose](),
  };
}

/**
 * Reads the facts about the sign-ins of these connectors of one sink; connectors without a sign-in are absent. Decrypts
 * no token and creates nothing.
 */
export async function readSignInFacts(sink: SinkPlace, connectors: readonly string[], clock: Clock) {
  // A schema has one table for all connectors, a folder one file for each.
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

type Ask = (found: StoredSignIn) => Promise<Renewal>;

const durable = { isDurable: true } as const;

const tokensShape = z.object({
  accessToken: z.string().min(1),
  refreshToken: z.string().min(1).nullable(),
  kept: z.record(z.string(), z.string()),
  app: z.string(),
});

/**
 * Reads and writes stored tokens: JSON, sealed if there is a key. Tokens that were stored before there was a key can
 * still be read.
 */
function openSealed(connector: string, key: Buffer | null) {
  const again = `Sign in again: connector-sync login ${connector}.`;
  const damaged = `The stored sign-in of ${connector} is damaged. ${again}`;
  const sealer = createSealer(key, {
    purpose: 'sign-ins',
    otherKey: `The stored sign-in of ${connector} was sealed with another key than signIns.key of the config. Put that one back. Or: ${again}`,
    damaged,
  });
  const incompatible = (message: string): SyncError =>
    new SyncError(message, { code: 'SINK_INCOMPATIBLE', recovery: 'stop', context: { connector } });
  return {
    seal: (tokens: SignInTokens): string => {
      const text = JSON.stringify(tokensShape.parse(tokens));
      return key === null ? text : sealer.seal(text, connector).toString('base64');
    },
    open: (stored: string): SignInTokens => {
      const isPlain = stored.startsWith('{');
      if (!isPlain && key === null) {
        throw incompatible(
          `The stored sign-in of ${connector} is sealed, and the config has no signIns.key. Put the key back. Or: ${again}`,
        );
      }
      const text = isPlain ? stored : sealer.open(Buffer.from(stored, 'base64'), connector);
      try {
        return tokensShape.parse(JSON.parse(text));
      } catch {
        // The parser's message may quote part of a token.
        throw incompatible(damaged);
      }
    },
  };
}

interface SignInRow extends Omit<StoredSignIn, 'tokens'> {
  readonly tokens: string;
}

const signInsSql = `CREATE TABLE IF NOT EXISTS _sync_sign_ins (
  connector TEXT PRIMARY KEY,
  revision TEXT NOT NULL,
  tokens TEXT NOT NULL,
  signed_in_at TEXT NOT NULL,
  renewed_at TEXT,
  account TEXT,
  access_until TEXT,
  ends_at TEXT,
  begun_at TEXT,
  begun_by TEXT,
  begun_until BIGINT,
  refusal TEXT
)`;

const facts = 'signed_in_at, renewed_at, account, access_until, ends_at, begun_at, refusal';

const readSql = `SELECT tokens, revision, ${facts} FROM _sync_sign_ins WHERE connector = :connector`;

const readFactsSql = `SELECT ${facts} FROM _sync_sign_ins WHERE connector = :connector`;

type RowKey = { readonly connector: string; readonly revision: string };

/** Tokens, sealed or not, and until when they serve. */
type NewRow = Pick<SignInFacts, 'accessUntil' | 'endsAt'> & {
  readonly tokens: string;
  readonly at: Instant;
};

const storeRow = write<RowKey & NewRow>(
  `INSERT INTO _sync_sign_ins (connector, revision, tokens, signed_in_at, access_until, ends_at)
   VALUES (:connector, :revision, :tokens, :at, :accessUntil, :endsAt)
   ON CONFLICT (connector) DO UPDATE SET revision = excluded.revision, tokens = excluded.tokens,
     signed_in_at = excluded.signed_in_at, renewed_at = NULL, account = NULL, access_until = excluded.access_until,
     ends_at = excluded.ends_at, begun_at = NULL, begun_by = NULL, begun_until = NULL, refusal = NULL`,
);

const nameRow = write<{ readonly connector: string; readonly account: string }>(
  'UPDATE _sync_sign_ins SET account = :account WHERE connector = :connector',
);

const claimRow = write<
  RowKey & {
    readonly by: string;
    readonly at: Instant;
    readonly now: number;
    readonly until: number;
    readonly isAlone: 0 | 1;
  }
>(
  `UPDATE _sync_sign_ins SET begun_at = :at, begun_by = :by, begun_until = :until
   WHERE connector = :connector AND revision = :revision AND refusal IS NULL
     AND (:isAlone = 1 OR begun_until IS NULL OR begun_until < :now)`,
);

const renewRow = write<RowKey & NewRow & { readonly next: string }>(
  `UPDATE _sync_sign_ins SET revision = :next, tokens = :tokens, renewed_at = :at, access_until = :accessUntil,
     ends_at = :endsAt, begun_at = NULL, begun_by = NULL, begun_until = NULL, refusal = NULL
   WHERE connector = :connector AND revision = :revision`,
);

const endRow = write<
  RowKey & { readonly by: string; readonly refusal: string | null; readonly begunAt: Instant | null }
>(
  `UPDATE _sync_sign_ins SET refusal = :refusal, begun_at = :begunAt, begun_by = NULL, begun_until = NULL
   WHERE connector = :connector AND revision = :revision AND begun_by = :by`,
);

const removeRow = write<{ readonly connector: string }>(
  'DELETE FROM _sync_sign_ins WHERE connector = :connector',
);

/** One table in the schema of the sink, which is made with the first sign-in. The sink must exist by then. */
function postgresSignIns(place: Extract<SinkPlace, { readonly type: 'postgres' }>): SignInDriver {
  let opening: Promise<Server> | null = null;
  let isMade = false;
  return {
    open: async (makes) => {
      const server = await (opening ??= openServerOf(place));
      if (isMade) return server;
      isMade = makes ? await make(server) : await server.read(isThere);
      return isMade ? server : null;
    },
    now: async (tx) =>
      Math.floor(
        (await cellOf<number>(tx, 'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8')) ?? 0,
      ),
    [Symbol.asyncDispose]: async () => {
      const server = await opening?.catch(() => null);
      await server?.[Symbol.asyncDispose]();
    },
  };
}

/** The client library is loaded here. */
async function openServerOf(place: Parameters<typeof postgresSignIns>[0]): Promise<Server> {
  const { openServer } = await import('../sql/postgres/server.ts');
  const { toSinkError } = await import('../sinks/postgres/postgres-schema.ts');
  return openServer({ ...place, connections: 2, explain: toSinkError, durability: 'full' });
}

async function isThere(tx: Tx): Promise<boolean> {
  return (await cellOf<boolean>(tx, "SELECT to_regclass('_sync_sign_ins') IS NOT NULL AS is_there")) === true;
}

async function make(server: Server): Promise<boolean> {
  return await server.transact(async (tx) => {
    // Two processes that create a table at the same time would fail in spite of IF NOT EXISTS.
    await tx.run("SELECT pg_advisory_xact_lock(hashtextextended('connector-sync sign-ins', 0))");
    await tx.run(signInsSql);
    return true;
  });
}

const lockTimeoutMs = 30_000;

/** A file for each connector, which only its owner can read. */
function sqliteSignIns(folder: string, connector: string, clock: Clock): SignInDriver {
  const file = path.join(folder, `${connector}.db`);
  const wait = { clock, lockTimeoutMs };
  const explain = (error: unknown): unknown => toSinkError(error, file);
  const open = async (): Promise<SqliteDatabase> => {
    const writer = await whenUnlocked(wait, () => openWriter(file));
    const openReader = (): Connection => openSqlite(file, { readonly: true, timeout: blockingMs });
    return openSqliteDatabase({ ...wait, file, writer, openReader, explain });
  };
  let opening: Promise<SqliteDatabase> | null = null;
  return {
    open: async (makes) => {
      if (opening === null && !makes && !existsSync(file)) return null;
      try {
        return await (opening ??= open());
      } catch (error) {
        opening = null;
        throw explain(error);
      }
    },
    now: async () => clock.now(),
    lock: () => {
      try {
        return takeLock(path.join(folder, `${connector}.lock`));
      } catch (error) {
        throw explain(error);
      }
    },
    [Symbol.asyncDispose]: async () => {
      const opened = await opening?.catch(() => null);
      await opened?.[Symbol.asyncDispose]();
    },
  };
}

function openWriter(file: string): Connection {
  createPrivateFile(file);
  const db = openSqlite(file, { timeout: blockingMs });
  try {
    db.pragma('journal_mode = WAL');
    db.pragma('synchronous = FULL');
    db.pragma('trusted_schema = OFF');
    // Tokens that were replaced or removed are overwritten.
    db.pragma('secure_delete = ON');
    db.exec(signInsSql);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}
