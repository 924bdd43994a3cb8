import { createHash } from 'node:crypto';
import { usage } from '../../../core/usage-error.ts';
import { openSearchProcesses } from '../../../search/process/open-search-processes.ts';
import type { EntityTarget } from '../../../settings/entity-target.ts';
import { storedIn } from '../../../app/stored-fields.ts';
import type { CommandContext } from '../../command-context.ts';
import type { Searcher } from './searcher.ts';

const deadlineMs = 60_000;

/**
 * Searches what a sync has stored, read only, beside whoever writes. In a process of its own, because a statement of
 * SQLite cannot be interrupted and Ctrl-C must be. Throws USAGE where there is nothing to search.
 */
export async function openLocalSearcher(
  { clock, signal, program }: CommandContext,
  target: EntityTarget,
): Promise<Searcher> {
  const { name, connector, entity } = target;
  const { sink } = connector;
  if (sink.type !== 'sqlite') {
    throw usage(
      `${name} is in sink ${sink.name}, which cannot be searched (type ${sink.type}): expected one of type sqlite. Ask the API instead (--remote)${sink.type === 'jsonl' ? `, or read the lines in ${sink.directory}` : `, or the tables of schema ${sink.schema} with SQL`}.`,
    );
  }
  const sinkId = await storedIn(target);
  if (sinkId === null) {
    throw usage(
      `Nothing of ${name} is stored in sink ${sink.name} yet. Run "${program} sync ${connector.name}" first, or ask the API (--remote).`,
    );
  }
  // No secret, and none is needed: a cursor only has to fit the sink it came from, and whoever can make one can read
  // the file.
  const cursorKey = createHash('sha256').update(`search cursor of ${sinkId}`).digest();
  const processes = openSearchProcesses({ processes: 1, maxWaiting: 1, deadlineMs, cursorKey, clock });
  const call = {
    file: sink.path,
    connector: connector.name,
    entity,
    scope: `${connector.name}/${entity.name}`,
  };
  return {
    search: async (params) => {
      const { data, meta } = await processes.search({ ...call, params }, signal);
      return { records: data, hasMore: meta.has_more, cursor: meta.cursor, tookMs: meta.took_ms };
    },
    [Symbol.asyncDispose]: () => processes[Symbol.asyncDispose](),
  };
}
