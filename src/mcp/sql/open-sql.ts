import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { startChild } from '../../child/start-child.ts';
import { SyncError, usage } from '../../core/errors.ts';
import { makeTemporaryFolder } from '../../files/private-file.ts';
import { orAborted, within } from '../../http/or-aborted.ts';
import { connectorsOf, type ShownEntities, shownEntities } from '../shown-entities.ts';
import { sinksOf } from '../../settings/choices.ts';
import type { LocalSettings, SinkSettings } from '../../settings/settings.ts';
import type { OfferedTable, OfferedView } from '../../sinks/records/offered-views.ts';
import { deadlineMs, fittingRows, mostColumns, mostOfCell, readStates } from './query-limits.ts';
import type { SqlCalls, SqlQuery } from './sql-process.ts';

export type Sql = ReturnType<typeof openSql>;

type Query = Pick<SqlQuery, 'sql' | 'limit' | 'offset'>;
type OfferedQuery = Query & Pick<SqlQuery, 'offered'>;

const maxHeapMiB = 256;
const graceMs = 5_000;

/** Queries over what agents may see. `role`: see `mcp.sqlUser` of a config. */
export function openSql(role: LocalSettings['mcp']['sqlRole'], shown: ShownEntities) {
  return {
    /** The sink of a connector; without a name the only one that there is. Throws USAGE. */
    sinkOf: (name: string | undefined): QueriedSink => {
      const named = name === undefined ? null : shown.connectorNamed(name);
      const [sink, ...others] = named === null ? sinksOf(shown.connectors) : [named.sink];
      if (sink === undefined) throw usage('There is no connector, so there is nothing to query.');
      if (others.length > 0) {
        throw usage(
          'connector: is missing. What is stored lies in several databases: name a connector of one.',
        );
      }
      if (sink.type === 'jsonl') {
        throw usage(
          'sql reads SQLite and PostgreSQL; this connector is stored in files of lines. get, explain and changes read it.',
        );
      }
      return sink;
    },
    /** The views of a sink. Throws as opening the sink does. */
    views: async (sink: QueriedSink): Promise<readonly OfferedView[]> => {
      const offered = offeredIn(sink, shown);
      if (sink.type === 'sqlite') {
        const { listViews } = await import('../../sinks/sqlite/sqlite-query.ts');
        return await listViews(sink.path, offered);
      }
      const { listViews } = await import('../../sinks/postgres/postgres-query.ts');
      return await listViews(sink, offered);
    },
    /** Rejects with USAGE for a query that is none, with SEARCH_TOO_SLOW, SINK_FAILED, and with the signal's reason. */
    query: async (sink: QueriedSink, query: Query, signal: AbortSignal) =>
      await within(deadlineMs, signal, tooSlow, (own) => {
        const offered = offeredIn(sink, shown);
        return sink.type === 'sqlite'
          ? querySqlite(sink.path, { ...query, offered }, own)
          : queryPostgres(sink, { ...query, offered, role }, own);
      }),
  };
}

type QueriedSink = Exclude<SinkSettings, { readonly type: 'jsonl' }>;
type PostgresSink = Extract<SinkSettings, { readonly type: 'postgres' }>;

/** Runs in a separate process that ends with the query, because better-sqlite3 cannot interrupt a statement. */
async function querySqlite(file: string, query: OfferedQuery, signal: AbortSignal) {
  const folder = await makeTemporaryFolder('connector-sync-sql-');
  try {
    await using child = startChild<SqlCalls>({ module: 'mcp/sql/sql-process', maxHeapMiB, signal, died });
    return await orAborted(child.ask('query', { ...query, file, copy: join(folder, 'views.db') }), signal);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function queryPostgres(
  sink: PostgresSink,
  { role, limit, ...query }: OfferedQuery & { readonly role: LocalSettings['mcp']['sqlRole'] },
  signal: AbortSignal,
) {
  if (role === null) {
    throw usage(
      `sql on ${sink.name}, a PostgreSQL sink, needs a role that may read the shown views alone: a person makes it with the SQL that "mcp grant" prints, and names it in mcp.sqlUser and mcp.sqlPassword of the config.`,
    );
  }
  const { queryViews } = await import('../../sinks/postgres/postgres-query.ts');
  const { facts, found } = await queryViews(
    {
      ...query,
      place: sink,
      role,
      limit: limit + 1,
      mostChars: mostOfCell + 1,
      mostColumns,
      // If this process has died, the server ends the query by itself.
      timeoutMs: deadlineMs + graceMs,
      signal,
    },
    readStates,
  );
  const values = found.rows.map((cells) =>
    cells.map((text, index) => valueOf(text, found.columns[index]?.type ?? 0)),
  );
  return { columns: found.columns.map(({ name }) => name), read: facts, ...fittingRows(values, limit) };
}

/** Object ids of the PostgreSQL types that JSON has too: integers, fractions, booleans. */
const [integers, fractions, truth] = [new Set([20, 21, 23, 26]), new Set([700, 701]), 16];

function valueOf(text: string | null, type: number): unknown {
  if (text === null) return null;
  if (type === truth) return text === 'true';
  if (integers.has(type)) return BigInt(text);
  return fractions.has(type) ? Number(text) : text;
}

/** The tables of the sink that agents see. */
function offeredIn(sink: SinkSettings, shown: ShownEntities): readonly OfferedTable[] {
  return shown.connectors
    .filter((connector) => connector.sink.name === sink.name)
    .flatMap((connector) => shown.of(connector))
    .map(({ target, only }) => ({
      label: target.name,
      connector: target.connector.name,
      owner: target.entity.name,
      entity: target.table.entity,
      only: only === null ? null : [...only],
    }));
}

function tooSlow(): SyncError {
  return new SyncError(
    `The query took longer than ${deadlineMs / 1000} s and was ended. Ask for less: fewer columns (no *), fewer rows to read, no join without a condition.`,
    { code: 'SEARCH_TOO_SLOW', recovery: 'stop' },
  );
}

function died(how: string): SyncError {
  return new SyncError(
    `The query was ended because it needed too much memory, or its process ended (${how}). Ask for less: shorter values, fewer rows to sort.`,
    { code: 'SEARCH_TOO_SLOW', recovery: 'stop', context: { how } },
  );
}

const defaultUser = 'connector_sync_agents';

/**
 * Statements that make the role with which agents query PostgreSQL sinks, for a person to run: it reads what agents
 * see, and nothing else. Throws USAGE where there is no such sink, and what opening a sink throws.
 */
export async function grantSql(settings: LocalSettings): Promise<readonly string[]> {
  const shown = shownEntities(connectorsOf(settings));
  const { listViews, grantViews, makeRole } = await import('../../sinks/postgres/postgres-query.ts');
  const user = settings.mcp.sqlRole?.user ?? defaultUser;
  const grants: string[] = [];
  for (const sink of sinksOf(shown.connectors)) {
    if (sink.type !== 'postgres') continue;
    const offered = offeredIn(sink, shown);
    grants.push(...grantViews(user, sink.schema, await listViews(sink, offered)));
  }
  if (grants.length > 0) return [...makeRole(user), ...grants];
  throw usage('mcp grant is for PostgreSQL sinks, and no connector that agents see is stored in one.');
}
