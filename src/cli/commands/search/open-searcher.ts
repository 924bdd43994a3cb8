import { createHash } from 'node:crypto';
import { searchedSink } from '../../../app/searched-sink.ts';
import { SyncError } from '../../../core/errors.ts';
import type { JsonObject, JsonValue } from '../../../core/json.ts';
import { usage } from '../../../core/usage-error.ts';
import { openSearchProcesses, type SearchCall } from '../../../search/process/open-search-processes.ts';
import type { SearchAnswer } from '../../../search/search-request.ts';
import type { EntityTarget } from '../../../settings/entity-target.ts';
import type { SettingsWith, SinkSettings } from '../../../settings/settings.ts';
import { resolveConnector } from '../../../source/api/resolve-connector.ts';
import { searchCall } from '../../../source/api/search-call.ts';
import type { CommandContext } from '../../command.ts';
import { openPatientApp } from '../../output/show-run.ts';

const deadlineMs = 60_000;

type SearchContext = Pick<CommandContext, 'clock' | 'signal'>;

/** Searches what a sync has stored, read only, beside any writer. Throws USAGE where there is nothing to search. */
export async function openLocalSearcher(
  context: SearchContext,
  target: EntityTarget,
  advice: Parameters<typeof searchedSink>[1],
): Promise<Searcher> {
  const { connector, entity } = target;
  const { sink, sinkId } = await searchedSink(target, advice);
  // No secret, and none is needed: a cursor only has to fit the sink it came from, and a process that can make
  // one can read the sink.
  const cursorKey = createHash('sha256').update(`search cursor of ${sinkId}`).digest();
  const scope = `${connector.name}/${entity.name}`;
  return sink.type === 'sqlite'
    ? searchFile(context, { file: sink.path, connector: connector.name, entity, scope }, cursorKey)
    : await searchServer(context, target, sink, { cursorKey, scope });
}

/** In a separate process, because a statement of SQLite cannot be interrupted and Ctrl-C must be. */
function searchFile(
  { clock, signal }: SearchContext,
  call: Omit<SearchCall, 'params'>,
  cursorKey: Buffer,
): Searcher {
  const processes = openSearchProcesses({ processes: 1, maxWaiting: 1, deadlineMs, cursorKey, clock });
  return {
    search: async (params) => foundPage(await processes.search({ ...call, params }, signal)),
    [Symbol.asyncDispose]: () => processes[Symbol.asyncDispose](),
  };
}

type Server = Extract<SinkSettings, { readonly type: 'postgres' }>;

async function searchServer(
  { clock, signal }: SearchContext,
  { connector: { name: connector }, entity }: EntityTarget,
  sink: Server,
  known: { readonly cursorKey: Buffer; readonly scope: string },
): Promise<Searcher> {
  const { openPostgresSearch } = await import('../../../search/postgres-search.ts');
  const opened = await openPostgresSearch(sink);
  const options = { ...known, clock, signal, deadlineMs };
  return {
    search: async (params) => foundPage(await opened.search({ connector, entity }, params, options)),
    [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
  };
}

function foundPage({ data, meta }: SearchAnswer): FoundPage {
  return { records: data, hasMore: meta.has_more, cursor: meta.cursor, tookMs: meta.took_ms };
}

/** Statements that make indexes for `keyword` and `fuzzy`. Throws USAGE where they are for no PostgreSQL sink. */
export async function wordIndexes(
  { signal }: CommandContext,
  { name, connector, entity }: EntityTarget,
): Promise<readonly string[]> {
  const { sink } = connector;
  if (sink.type !== 'postgres') {
    throw usage(
      `--index-sql is for a sink of type postgres; ${name} is in sink ${sink.name} of type ${sink.type}.`,
    );
  }
  const { openPostgresSearch } = await import('../../../search/postgres-search.ts');
  await using opened = await openPostgresSearch(sink);
  return await opened.indexSql({ connector: connector.name, entity }, signal);
}

/**
 * Asks the API's indexed store. Throws USAGE for an entity that is not in it, and what finding the connector throws.
 */
export async function openRemoteSearcher(
  context: CommandContext,
  settings: SettingsWith<'access'>,
  { name, connector, entity }: EntityTarget,
): Promise<Searcher> {
  const { definition, address } = connector;
  if (address.kind === 'direct') {
    throw usage(
      `${connector.name} is read directly, and only an API has an indexed store. Without --remote the stored records are searched.`,
    );
  }
  if (!entity.actions.has('context_store_search')) {
    const searchable = [...definition.entities.values()].filter(({ actions }) =>
      actions.has('context_store_search'),
    );
    const names = searchable.map((one) => one.name).join(', ');
    throw usage(
      `${name} cannot be searched at the API; ${names === '' ? 'no entity of the connector can' : `these can: ${names}`}. Without --remote the stored records are searched.`,
    );
  }
  if (entity.mask !== null) {
    throw usage(
      `${name} has a mask, and the API's indexed store answers with clear values. Without --remote the stored records are searched.`,
    );
  }
  const { signal } = context;
  const app = await openPatientApp(context, settings, 'search');
  try {
    const id = await resolveConnector(app.client, definition, address, signal);
    const budget = app.client.openBudget({ concurrency: 1, requestsPerSecond: connector.requestsPerSecond });
    return {
      search: async (params) => {
        const call = searchCall({ connector: id, definition, entity, params });
        try {
          return await app.client.call(call, budget, () => undefined, signal);
        } catch (error) {
          throw aboutSearch(error);
        }
      },
      [Symbol.asyncDispose]: () => app[Symbol.asyncDispose](),
    };
  } catch (error) {
    await app[Symbol.asyncDispose]();
    throw error;
  }
}

/** The service says "no" to a query in the same way as to everything else it cannot use. */
function aboutSearch(error: unknown): unknown {
  if (!(error instanceof SyncError) || error.code !== 'REQUEST_REFUSED') return error;
  const { context } = error;
  if (/not[_ ]ready|building preview|loading/i.test(error.message)) {
    return new SyncError(
      'The indexed store of this connector is not ready: the service is still filling it. Try again later; without --remote the stored records are searched.',
      { code: 'UPSTREAM', recovery: 'retry', context, cause: error },
    );
  }
  return new SyncError(error.message, { code: 'SEARCH_INVALID', recovery: 'stop', context, cause: error });
}

/** One page of a search, wherever it was made. */
export interface FoundPage {
  readonly records: readonly JsonValue[];
  readonly hasMore: boolean;
  /** For the next page of the same search. */
  readonly cursor: string | null;
  /** Milliseconds; null where it is not known. */
  readonly tookMs: number | null;
}

/** Where a search runs. */
export interface Searcher extends AsyncDisposable {
  /** `params`: query, limit, cursor, fields. Throws `SyncError`: SEARCH_INVALID for what cannot be asked. */
  search(params: JsonObject): Promise<FoundPage>;
}
