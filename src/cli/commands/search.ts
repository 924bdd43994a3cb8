import { readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { openSearches } from '../../app/stored-search.ts';
import { SyncError, usage } from '../../core/errors.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { Entity } from '../../definitions/definition.ts';
import { parseJsonText } from '../../http/lossless-json.ts';
import { listOf, pathOf, readSort } from '../../search/search-request.ts';
import { type EntityTarget, entityTarget } from '../../settings/choices.ts';
import { withParts } from '../../settings/load-settings.ts';
import type { SettingsWith } from '../../settings/settings.ts';
import { resolveConnector } from '../../source/api/open-api-client.ts';
import { searchCall } from '../../source/api/open-api-source.ts';
import { counted, duration, printable } from '../../telemetry/format.ts';
import { command, type CommandContext, type FlagsOf, readInput, wholeNumber } from '../command.ts';
import { jsonText, versioned } from '../output/json-text.ts';
import { openPatientApp } from '../output/show-run.ts';
import { answerTable } from '../output/record-table.ts';
import { wrapped } from '../output/text-table.ts';

const rowsOfTable = 20;
const recordsOfPage = 1_000;

const options = {
  '--filter <json>': 'which records; @file reads a file, - standard input (default: all of them)',
  '--sort <fields>': 'such as send_time:desc,id (default: by rank, else in the order they came)',
  '--limit <n>': `how many at most, up to 1000 (default: ${rowsOfTable} in a table, else 1000)`,
  '--cursor <text>': 'the next page of the same search',
  '--fields <paths>': 'only these, such as id,settings.title',
  '--remote': "search the API's indexed store instead of the local sink",
  '--index-sql': 'print the SQL that makes trigram indexes for keyword and fuzzy (PostgreSQL)',
  '--all': 'all pages, a record per line as JSON; --limit is the page size',
} as const;

type SearchFlags = FlagsOf<typeof options>;

export const search = command({
  argument: ['<connector/entity>', 'such as newsletter/campaigns'],
  options,
  help: `
Operators: eq neq gt gte lt lte in like keyword fuzzy contains any, joined by and, or, not: {"operator": {"field": value}}.
docs/search.md has the language. Searching writes nothing and works during a sync. A JSONL sink cannot be searched.

Examples:
  $ connector-sync search newsletter/campaigns --filter '{"eq": {"status": "sent"}}' --sort send_time:desc
  $ connector-sync search newsletter/list_members --filter '{"like": {"email_address": "%@example.com"}}' --fields id,email_address
  $ connector-sync search wiki/pages --filter @filter.json --all > pages.jsonl`,
  run: async (context, flags, name) => {
    const settings = await context.settings();
    const target = entityTarget(settings, name);
    if (flags.indexSql) {
      context.terminal.print(...(await wordIndexes(context, target)));
      return;
    }
    const { terminal } = context;
    const limit = flags.all || terminal.isJson ? recordsOfPage : rowsOfTable;
    const params = await readQuery(context, target.entity, flags, limit);
    await using searcher = flags.remote
      ? await openRemoteSearcher(context, withParts(settings, 'api', 'access'), target)
      : openLocalSearcher(context, target);
    if (flags.all) return await writeAllPages(context, searcher, params);
    const page = await searcher.search(params);
    await show(context, page, firstColumns(target.entity, flags));
    const { records, hasMore, cursor, tookMs } = page;
    const took = tookMs === null ? '' : ` in ${duration(tookMs)}`;
    const more =
      !hasMore || cursor === null ? '' : `; next page: the same with --cursor ${printable(cursor)}`;
    terminal.note(`${counted(records.length, 'record')}${took}${more}`);
  },
});

/** The place where a search runs. `params`: query, limit, cursor, fields. */
interface Searcher extends AsyncDisposable {
  /** Throws `SyncError` SEARCH_INVALID for an invalid query. */
  search(params: JsonObject): Promise<FoundPage>;
}

/** One page of a search, whichever place it comes from. */
interface FoundPage {
  readonly records: readonly JsonValue[];
  readonly hasMore: boolean;
  readonly cursor: string | null;
  /** Milliseconds; null if unknown. */
  readonly tookMs: number | null;
}

const deadlineMs = 60_000;

/** Opens a searcher of stored records. Its searches throw USAGE where there is nothing to search. */
function openLocalSearcher({ clock, signal, program }: CommandContext, target: EntityTarget): Searcher {
  const searches = openSearches({ clock, deadlineMs, processes: 1, maxWaiting: 1 });
  return {
    search: async (params) => {
      const { data, meta } = await searches.search({
        target,
        params,
        signal,
        ofType: (directory) => `Ask the API instead (--remote), or read the lines in ${directory}.`,
        ofNothing: `Run "${program} sync ${target.connector.name}" first, or ask the API (--remote).`,
      });
      return { records: data, hasMore: meta.has_more, cursor: meta.cursor, tookMs: meta.took_ms };
    },
    [Symbol.asyncDispose]: () => searches[Symbol.asyncDispose](),
  };
}

/**
 * Makes the statements that create indexes for `keyword` and `fuzzy`. Throws USAGE where the sink is not PostgreSQL.
 */
async function wordIndexes({ signal }: CommandContext, { name, connector, entity }: EntityTarget) {
  const { sink } = connector;
  if (sink.type !== 'postgres') {
    throw usage(
      `--index-sql is for a sink of type postgres; ${name} is in sink ${sink.name} of type ${sink.type}.`,
    );
  }
  const { openPostgresSearch } = await import('../../search/postgres-search.ts');
  await using opened = await openPostgresSearch(sink);
  return await opened.indexSql({ connector: connector.name, entity }, signal);
}

/**
 * Searches the API's indexed store. Throws USAGE for an entity that is not in it, and the errors of finding the
 * connector.
 */
async function openRemoteSearcher(
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

/** The service refuses a query in the same way as any other invalid request. */
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

/** The fields of `--fields`, in that order; without it the key. */
function firstColumns({ key, explode }: Entity, { fields }: SearchFlags): readonly string[] {
  if (fields === undefined) return explode?.key ?? key;
  return fields.split(',').flatMap((path) => [path.trim(), path.trim().split('.')[0] ?? '']);
}

/** `--json` prints records exactly; a table is for people. */
async function show({ terminal }: CommandContext, page: FoundPage, first: readonly string[]) {
  const { records, hasMore, cursor, tookMs } = page;
  if (terminal.isJson) {
    const meta = { has_more: hasMore, cursor, took_ms: tookMs };
    await terminal.printRecords(`${jsonText(versioned({ data: records, meta }))}\n`);
  } else if (records.length > 0) {
    const { lines, omitted } = answerTable(records, terminal.columns(), first);
    terminal.print(...lines);
    const left = `no room for: ${omitted.map(printable).join(', ')}, see --fields or --json`;
    if (omitted.length > 0) terminal.note(...wrapped(left, terminal.columns()));
  }
}

/**
 * Prints every record of a search on standard output, a line of JSON each, one page at a time. Ends quietly when the
 * reader closes the pipe. Throws PAGING_BROKEN if a cursor repeats, and after ten pages in a row without a record.
 */
async function writeAllPages({ terminal, signal }: CommandContext, searcher: Searcher, params: JsonObject) {
  let written = 0;
  let next = params;
  let emptyPages = 0;
  const seen = new Set<string>();
  for (;;) {
    const { records, hasMore, cursor } = await searcher.search(next);
    const isTaken = await terminal.printRecords(records.map((record) => `${jsonText(record)}\n`).join(''));
    if (!isTaken) return;
    signal.throwIfAborted();
    written += records.length;
    if (!hasMore || cursor === null) break;
    if (seen.has(cursor)) throw broken(written, 'the same cursor again, expected a new one');
    emptyPages = records.length === 0 ? emptyPages + 1 : 0;
    if (emptyPages >= mostEmptyPages) {
      throw broken(written, `${emptyPages} pages without a record, each with a further cursor`);
    }
    seen.add(cursor);
    next = { ...params, cursor };
  }
  terminal.note(counted(written, 'record'));
}

const mostEmptyPages = 10;

function broken(written: number, what: string): SyncError {
  return new SyncError(
    `After ${counted(written, 'record')} the API returned ${what}: there may be more records, which cannot be reached.`,
    { code: 'PAGING_BROKEN', recovery: 'stop' },
  );
}

type QueryFlags = Readonly<Record<'filter' | 'sort' | 'limit' | 'cursor' | 'fields', string | undefined>>;

const maxBytes = 1024 * 1024;
const mostRecords = 1_000;

/**
 * Reads the parameters of a search in the form that the API takes. The place of the search interprets them; only text
 * that is not JSON, a number or a list is refused here, with USAGE.
 */
async function readQuery(context: CommandContext, entity: Entity, flags: QueryFlags, defaultLimit: number) {
  const { filter, sort, limit, cursor, fields } = flags;
  return {
    query: {
      ...(filter === undefined ? {} : { filter: await readFilter(context, filter) }),
      ...(sort === undefined ? {} : { sort: readSort(sort, '--sort') }),
    },
    // Always sent: services differ in their default.
    limit: limit === undefined ? defaultLimit : wholeNumber('--limit', limit, mostRecords, 1),
    ...(cursor === undefined ? {} : { cursor }),
    ...(fields === undefined
      ? {}
      : { fields: listOf(fields, '--fields').map((name) => pathOf(entity, name)) }),
  };
}

/** Reads JSON, `@file`, or `-` for standard input. */
export async function readFilter(context: CommandContext, given: string, flag = '--filter') {
  const text =
    given === '-'
      ? await readInput(context.input(), maxBytes, context.signal)
      : given.startsWith('@')
        ? await textOf(resolve(context.cwd, given.slice(1)))
        : given;
  let filter: JsonValue;
  try {
    filter = parseJsonText(text);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw usage(`${flag}: expected JSON such as {"eq": {"status": "sent"}}, got invalid JSON: ${why}`);
  }
  if (!isJsonObject(filter)) throw usage(`${flag}: expected a JSON object, got other JSON.`);
  return filter;
}

async function textOf(file: string): Promise<string> {
  try {
    const { size } = await stat(file);
    if (size > maxBytes) throw usage(`--filter: expected at most ${maxBytes} bytes, ${file} has ${size}.`);
    return await readFile(file, 'utf8');
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error)) throw error;
    throw usage(`--filter: ${file} cannot be read: ${error.message}.`);
  }
}
