import { createHash } from 'node:crypto';
import type { JsonObject } from '../core/json.ts';
import { usage } from '../core/errors.ts';
import { busy, openSearchProcesses } from '../search/process/open-search-processes.ts';
import type { ShownRows, StatedAnswer } from '../search/search-target.ts';
import type { EntityTarget } from '../settings/choices.ts';
import { accessSink } from '../sinks/registry.ts';
import { storedIn } from './stored-fields.ts';

interface StoredSearch {
  readonly target: EntityTarget;
  /** As they came from outside: query, limit, cursor, fields. */
  readonly params: JsonObject;
  readonly signal: AbortSignal;
  /** Advice for a sink that cannot be searched, and for a sink without data. */
  readonly ofType: (directory: string) => string;
  readonly ofNothing: string;
  /** The columns that the search may read; left out: all. */
  readonly only?: ReadonlySet<string> | null;
  /** Whether the answer includes the state of the connector. */
  readonly withState?: boolean;
  /** For a person: of any sink, as `Searched.rows`. */
  readonly rows?: Omit<ShownRows, 'of'>;
}

export type Searches = ReturnType<typeof openSearches>;

/**
 * Searches stored records, read-only, beside any writer. Searches of SQLite run in separate processes: a statement of
 * SQLite cannot be interrupted, and Ctrl-C must be. The caller disposes it.
 */
export function openSearches(limits: Omit<Parameters<typeof openSearchProcesses>[0], 'cursorKey'>) {
  const { clock, deadlineMs, maxWaiting } = limits;
  // No secret, and none is needed: a cursor only has to fit the sink that it came from, which its scope says.
  const cursorKey = createHash('sha256').update('search cursor of a sink').digest();
  const pool = openSearchProcesses({ ...limits, cursorKey });
  /** Searches of PostgreSQL, each on a connection. */
  let running = 0;
  return {
    /** Rejects as `search` of the processes does, and with USAGE where there is nothing to search. */
    search: async (search: StoredSearch): Promise<StatedAnswer> => {
      const { target, params, signal, only, withState } = search;
      const { connector, entity, name, table } = target;
      const { sink, sinkId } = await searchedSink(search);
      const rows = search.rows && { ...search.rows, of: table.entity };
      const scope = `${sinkId} ${name} ${rows?.which ?? ''}`;
      const searched = {
        connector: connector.name,
        entity,
        only: only ? [...only] : undefined,
        withState,
        rows,
      };
      if (sink.type !== 'postgres') {
        const isJsonl = sink.type === 'jsonl';
        const file = isJsonl ? accessSink(sink).ledgerPlace : sink.path;
        return await pool.search({ ...searched, file, isJsonl, scope, params }, signal);
      }
      if (running >= maxWaiting) throw busy(running);
      running += 1;
      try {
        const { openPostgresSearch } = await import('../search/postgres-search.ts');
        await using opened = await openPostgresSearch(sink);
        return await opened.search(searched, params, { cursorKey, scope, clock, deadlineMs, signal });
      } finally {
        running -= 1;
      }
    },
    [Symbol.asyncDispose]: () => pool[Symbol.asyncDispose](),
  };
}

async function searchedSink({ target, ofType, ofNothing, rows }: StoredSearch) {
  const { name, connector } = target;
  const { sink } = connector;
  if (sink.type === 'jsonl' && rows === undefined) {
    throw usage(
      `${name} is in sink ${sink.name}, which cannot be searched (type jsonl): expected one of type sqlite or postgres. ${ofType(sink.directory)}`,
    );
  }
  const sinkId = await storedIn(target);
  if (sinkId === null) {
    throw usage(`Nothing of ${name} is stored in sink ${sink.name} yet. ${ofNothing}`);
  }
  return { sink, sinkId };
}
