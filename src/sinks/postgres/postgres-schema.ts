import { randomUUID } from 'node:crypto';
import { SyncError } from '../../core/errors.ts';
import { NoSinkYetError, checkMigrated, checkVersion, olderSink, unusableSink } from '../sink-errors.ts';
import { servedLedger } from '../ledger/history/overview.ts';
import type { OpenHow, ServedLedger, SinkPlace } from '../sink-access.ts';
import { lastCommits, newestSeq, overtakeAll } from './lease-rows.ts';
import { postgresTables } from './postgres-tables.ts';
import { openServer, type Server, type WriteTx } from '../../sql/postgres/server.ts';
import { quoted } from '../../sql/database.ts';
import type { PostgresTx as Tx } from '../../sql/postgres/session.ts';
import { postgresCatalogSql, ledgerSql, migrations, newestTable } from '../ledger/ledger-schema.ts';
import {
  awayText,
  codeOf,
  connectProblem,
  dropValues,
  failingOf,
  isServerError,
} from '../../sql/postgres/postgres-error.ts';

export type PostgresPlace = Extract<SinkPlace, { readonly type: 'postgres' }>;

/** A sink in a schema of a server. */
export type OpenedSchema = Readonly<Awaited<ReturnType<typeof openLedger>>>;

/**
 * Opens the sink for writing, and creates it where there is none. Throws `SyncError` SINK_INCOMPATIBLE, SINK_FAILED;
 * SINK_MOVED where a sink other than `how.sinkId` is there, or none. The caller disposes its server.
 */
export async function openLedger(place: PostgresPlace, how: OpenHow) {
  const { schema } = place;
  const { clock, durability, signal, onAway } = how;
  const server = openServer({ ...place, explain: toSinkError, durability, onAway, signal });
  return await disposedOnFailure(server, async () => {
    if (how.sinkId !== undefined) await expectSink(server, schema, how.sinkId);
    const { sinkId } = await makeSink(server, schema);
    server.afterLoss(async (found) => await makeSink(found, schema));
    return { server, schema, clock, sinkId };
  });
}

/** Opens the sink for reading. Throws `NoSinkYetError` where there is none. The caller disposes its server. */
export async function openToRead(place: PostgresPlace & { readonly areShared?: boolean }) {
  const { schema } = place;
  const server = openServer({ ...place, explain: toSinkError, durability: 'full' });
  return await disposedOnFailure(server, async () => {
    const found = await server.read(async (tx) => await findSink(tx, schema, server.place));
    if (found === null) throw new NoSinkYetError(server.place);
    checkMigrated(server.place, found.version, newestVersion());
    return { db: server, sinkId: found.sinkId, records: postgresTables(schema), newestSeq };
  });
}

/** Opens an existing sink's ledger for days. Throws `NoSinkYetError` where there is none. */
export async function openWatchedPostgres(place: PostgresPlace): Promise<ServedLedger> {
  const { schema } = place;
  const { db: server, sinkId } = await openToRead({ ...place, connections: 4, areShared: true });
  /** Mark of the sink at the newest look; null: the sink was not found. */
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

/**
 * `_sync_counters` is the change counter of each connector and its fence, with a token of the last transaction
 * (`lease-rows.ts`), and stays when the connector is forgotten; `_sync_leases` says who holds a connector, by the
 * server's clock.
 */
const driverSql = `
CREATE TABLE _sync_meta (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  sink_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  system_identifier TEXT,
  timeline INTEGER
);

CREATE TABLE _sync_counters (
  connector TEXT PRIMARY KEY,
  epoch BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  last_commit UUID
) WITH (fillfactor = 50);

CREATE TABLE _sync_leases (
  connector TEXT PRIMARY KEY,
  epoch BIGINT NOT NULL,
  holder TEXT NOT NULL,
  until TIMESTAMPTZ NOT NULL,
  backend_pid INTEGER
) WITH (fillfactor = 50);
`;

/** Tables of a sink in one version of the program. Names in its statements have no schema. */
export const schemaFormat = { sql: `${driverSql}${ledgerSql}${postgresCatalogSql}`, migrations };
type SchemaFormat = typeof schemaFormat;

function newestVersion(format = schemaFormat): number {
  return 1 + format.migrations.length;
}

/** Sink found in a schema. */
interface FoundSink {
  readonly sinkId: string;
  readonly version: number;
}

/** Oldest server that the statements are written for. */
const oldestVersion = 14;

/**
 * Makes the sink in `schema`, with the schema, where there is none, and migrates an older one. Several processes may do
 * so at once. Throws `SyncError` SINK_INCOMPATIBLE where tables of another program are there, or a sink of an unknown
 * version.
 */
export async function makeSink(
  server: Pick<Server, 'place' | 'read' | 'transact'>,
  schema: string,
  format = schemaFormat,
): Promise<FoundSink> {
  const { place } = server;
  const known = await server.read(async (tx) => {
    const found = await findSink(tx, schema, place, format);
    return found?.version === newestVersion(format) && isOf(found, await identifyServer(tx)) ? found : null;
  });
  return known ?? (await server.transact(async (tx) => await makeOnce(tx, place, schema, format)));
}

interface StoredMeta extends FoundSink, ServerIdentity {}

/** Null: the schema is not there, or empty. Throws as `makeSink`. */
export async function findSink(tx: Tx, schema: string, place: string, format = schemaFormat) {
  await checkServer(tx, place);
  const tables = await tx.rows<{ name: string }>(
    `SELECT c.relname::text AS name FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE n.nspname = :schema AND c.relkind IN ('r', 'p', 'v', 'm', 'f')`,
    { schema },
  );
  if (tables.length === 0) return null;
  if (!tables.some(({ name }) => name === '_sync_meta')) {
    throw unusableSink(
      place,
      `the schema holds ${tables.length} tables of another program`,
      'Name another schema.',
    );
  }
  if (!tables.some(({ name }) => name === newestTable)) throw olderSink(place);
  const meta = await tx.first<StoredMeta>(
    `SELECT sink_id, version, system_identifier, timeline FROM ${quoted(schema)}._sync_meta`,
  );
  if (meta === undefined) {
    throw unusableSink(place, 'its _sync_meta is empty', 'Restore the schema, or name another one.');
  }
  checkVersion(place, meta.version, newestVersion(format));
  return meta;
}

/**
 * The sink where it is known to be, with a mark that any commit on the server changes, and that another server or the
 * same one started again does not have. Rejects where the schema holds no sink.
 */
async function markedSink(tx: Tx, schema: string) {
  return await tx.first<FoundSink & { readonly mark: string }>(
    `SELECT pg_postmaster_start_time()::text || ' ' || pg_current_snapshot()::text AS mark, sink_id, version
     FROM ${quoted(schema)}._sync_meta`,
  );
}

async function makeOnce(tx: WriteTx, place: string, schema: string, format: SchemaFormat) {
  await tx.run('SELECT pg_advisory_xact_lock(hashtextextended(:schema, 0))', {
    schema: `connector-sync ${schema}`,
  });
  const version = newestVersion(format);
  const found = await findSink(tx, schema, place, format);
  const at = `${quoted(schema)}.`;
  const server = await identifyServer(tx);
  if (found === null) {
    // IF NOT EXISTS needs the right to create a schema, even where it exists.
    const known = await tx.rows('SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = :schema', { schema });
    if (known.length === 0) tx.put(`CREATE SCHEMA ${quoted(schema)}`);
    for (const statement of statementsAt(at, format.sql)) tx.put(statement);
    const sinkId = randomUUID();
    await tx.run(
      `INSERT INTO ${at}_sync_meta (one, sink_id, version, system_identifier, timeline)
       VALUES (1, :sinkId, :version, :systemIdentifier, :timeline)`,
      { ...server, sinkId, version },
    );
    return { sinkId, version };
  }
  if (found.version < version) await migrate(tx, at, found.version, format);
  const { sinkId } = isOf(found, server) ? found : await moveOn(tx, at, found, server);
  return { sinkId, version };
}

/**
 * Migrates in the transaction of the lock, so that a kill leaves the old version or the new one. Skips migrations that
 * another process has done meanwhile.
 */
async function migrate(tx: WriteTx, at: string, from: number, format: SchemaFormat): Promise<void> {
  for (const sql of format.migrations.slice(from - 1)) {
    for (const statement of statementsAt(at, sql)) tx.put(statement);
  }
  await tx.run(`UPDATE ${at}_sync_meta SET version = :version`, { version: newestVersion(format) });
}

/**
 * Handles a change of the server. A promoted standby (same system, another timeline) may lack the newest commits:
 * change numbers continue far above any that those may have had, and every holder is overtaken, because rows that it
 * relies on may be missing; the next run resumes from the stored state. A backup restored into another system is
 * another sink.
 */
async function moveOn(tx: WriteTx, at: string, found: StoredMeta, server: ServerIdentity) {
  const sinkId = found.systemIdentifier === server.systemIdentifier ? found.sinkId : randomUUID();
  await overtakeAll(tx, at);
  await tx.run(
    `UPDATE ${at}_sync_meta SET sink_id = :sinkId, system_identifier = :systemIdentifier, timeline = :timeline`,
    { ...server, sinkId },
  );
  return { sinkId };
}

/** Identity of the cluster, and the number of times that a standby of it was promoted. */
interface ServerIdentity {
  readonly systemIdentifier: string;
  readonly timeline: number;
}

function isOf(found: ServerIdentity, server: ServerIdentity): boolean {
  return found.systemIdentifier === server.systemIdentifier && found.timeline === server.timeline;
}

/** The timeline that the server writes on. The control file learns of a new one only with its next checkpoint. */
export const timelineSql =
  "('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::integer";

/** Ordinary users may ask for both. */
async function identifyServer(tx: Tx): Promise<ServerIdentity> {
  const found = await tx.first<ServerIdentity>(
    `SELECT (SELECT system_identifier::text FROM pg_control_system()) AS system_identifier, ${timelineSql} AS timeline`,
  );
  return found ?? { systemIdentifier: '', timeline: 0 };
}

async function checkServer(tx: Tx, place: string): Promise<void> {
  const found = await tx.first<{ number: string; encoding: string }>(
    `SELECT current_setting('server_version_num') AS number, current_setting('server_encoding') AS encoding`,
  );
  const major = Math.floor(Number(found?.number) / 10_000);
  if (major < oldestVersion) {
    throw unusableSink(place, `it is PostgreSQL ${major}`, `Use PostgreSQL ${oldestVersion} or later.`);
  }
  if (found?.encoding !== 'UTF8') {
    throw unusableSink(
      place,
      `the database is encoded as ${found?.encoding}`,
      "Create one with ENCODING 'UTF8'.",
    );
  }
}

/**
 * Statements of the ledger one by one, in the schema `at`. Texts are compared byte by byte, whatever the server's
 * locale.
 */
function statementsAt(at: string, sql: string): readonly string[] {
  return sql
    .replaceAll(/\bTEXT\b/g, 'text COLLATE "C"')
    .replaceAll(
      /\b(CREATE TABLE|ALTER TABLE|VIEW|INTO|UPDATE|FROM|JOIN|ON) (_(?:sync|catalog)_\w+)/g,
      (_, before: string, table: string) => `${before} ${at}${table}`,
    )
    .split(';')
    .filter((statement) => statement.trim() !== '');
}

/**
 * Translates a failure of the server for the sink at `place`. Returns `SyncError`s and programming errors unchanged.
 * The message never contains a statement's text and values, because they hold records.
 */
export function toSinkError(error: unknown, place: string): unknown {
  if (error instanceof SyncError) return error;
  const code = codeOf(error);
  const failing = failingOf(error);
  const reason = error instanceof Error ? error.message : String(error);
  const failed = (
    text: string,
    recovery: SyncError['recovery'],
    ofCode: SyncError['code'] = 'SINK_FAILED',
  ): SyncError => {
    const context = { place, cause: code === '' ? 'connection' : code };
    return new SyncError(`PostgreSQL at ${place} ${text}`, { code: ofCode, recovery, context, cause: error });
  };
  if (!isServerError(error) && failing === 'other') {
    const problem = connectProblem(code, reason);
    return problem === null ? error : failed(problem, 'stop');
  }
  // The table alone: other parts of where it happened may hold values.
  const [, table] = (isServerError(error) && /^COPY (\S+?),/.exec(error.where ?? '')) || [];
  dropValues(error);
  if (code === '53100' || code === '53200') {
    const lacking = code === '53100' ? 'disk space' : 'memory';
    return failed(
      `has no ${lacking} left; nothing of the last commit was stored. Free some and sync again.`,
      'retry',
      'SINK_FULL',
    );
  }
  if (failing === 'connection') {
    return failed(`${awayText(error)}. ${awayAdvice[code] ?? 'Check the server and the network.'}`, 'retry');
  }
  if (failing === 'conflict' || code === '57014') {
    return failed(
      `could not finish in time because of other transactions or load (${reason}). Sync again.`,
      'retry',
    );
  }
  const inTable = table === undefined ? '' : `, in table ${table}`;
  return failed(`refused (${code}: ${reason}${inTable}). ${advice(code, reason)}`, 'stop');
}

const awayAdvice: Readonly<Record<string, string>> = {
  '25006': 'Name the primary in the url, promote the standby, or set default_transaction_read_only to off.',
  '53300': 'Raise max_connections or the limit of the user or database, or lower connections in the config.',
  '57P03': 'Try again when it accepts connections.',
};

function advice(code: string, reason: string): string {
  if (code === '28000' && /no (SSL )?encryption|SSL off/i.test(reason)) {
    return 'If the server takes encrypted connections only, use sslmode=verify-full in the address; else let this machine in (pg_hba.conf).';
  }
  if (code.startsWith('28')) return "Check the user and the password of the sink's url.";
  if (code === '54011' || (code === '54000' && /row is too big/.test(reason))) {
    return 'A record has more fields than fit in a row: declare fewer of them in the definition; fields that are not declared are kept in _extra.';
  }
  return refusedAdvice[code] ?? 'Check the server and its log.';
}

const refusedAdvice: Readonly<Record<string, string>> = {
  '3D000': 'Create the database, or correct its name in the url.',
  '42501':
    'Let the user create the schema (GRANT CREATE ON DATABASE ... TO ...), or make it the owner of the schema.',
  '2BP01': 'Views of your own are made of it: drop them, and make them again afterwards.',
};
