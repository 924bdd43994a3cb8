import { createHash } from 'node:crypto';
import { searchedSink } from '../app/searched-sink.ts';
import type { Clock } from '../core/clock.ts';
import type { JsonObject } from '../core/json.ts';
import { openSearchProcesses } from '../search/process/open-search-processes.ts';
import type { StatedAnswer } from '../search/stored-target.ts';
import type { ShownEntity } from './shown-entities.ts';

/** A search runs in a process that is killed after so long. */
const deadlineMs = 20_000;
const processes = 2;
/** More than there are calls at a time. */
const maxWaiting = 16;

export type Searches = ReturnType<typeof openSearches>;

/** Searches of the fields that agents may see. The caller disposes it. */
export function openSearches(clock: Clock) {
  // No secret: a cursor only has to fit the sink that it came from, which its scope says.
  const cursorKey = createHash('sha256').update('search cursor of mcp').digest();
  const pool = openSearchProcesses({ processes, maxWaiting, deadlineMs, cursorKey, clock });
  return {
    /** Rejects as `search` of the processes does, and with USAGE where there is nothing to search. */
    search: async (
      { target, searched }: ShownEntity,
      params: JsonObject,
      signal: AbortSignal,
    ): Promise<StatedAnswer> => {
      const { connector, entity, name } = target;
      const { sink, sinkId } = await searchedSink(target, {
        ofType: () => 'get, explain and changes read it.',
        ofNothing: 'freshness says when it was read.',
      });
      const scope = `${sinkId} ${name}`;
      const only = searched === null ? undefined : [...searched];
      const asked = { connector: connector.name, entity, only, withState: true };
      if (sink.type === 'sqlite') {
        return await pool.search({ ...asked, file: sink.path, scope, params }, signal);
      }
      const { openPostgresSearch } = await import('../search/postgres-search.ts');
      await using opened = await openPostgresSearch(sink);
      return await opened.search(asked, params, { cursorKey, scope, clock, deadlineMs, signal });
    },
    [Symbol.asyncDispose]: () => pool[Symbol.asyncDispose](),
  };
}
