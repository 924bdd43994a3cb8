import { SyncError } from '../../core/errors.ts';
import { type JsonValue, isJsonObject, type JsonObject } from '../../core/json.ts';
import { usage } from '../../core/usage-error.ts';
import type { Entity } from '../../definitions/definition.ts';
import { entityTarget } from '../../settings/entity-target.ts';
import { withParts } from '../../settings/load-settings.ts';
import { printable, counted, duration } from '../../telemetry/format.ts';
import { command, type CommandContext, type FlagsOf, oneOf } from '../command.ts';
import { jsonText, versioned } from '../output/json-text.ts';
import { wrapped } from '../output/text-table.ts';
import { answerTable } from './search/answer-table.ts';
import {
  openLocalSearcher,
  openRemoteSearcher,
  wordIndexes,
  type FoundPage,
  type Searcher,
} from './search/open-searcher.ts';
import { readQuery } from './search/read-query.ts';

type Format = 'table' | 'json' | 'jsonl';

const rowsOfTable = 20;
const recordsOfPage = 1_000;

const options = {
  '--filter <json>': 'which records; @file reads a file, - standard input (default: all of them)',
  '--sort <fields>': 'such as send_time:desc,id (default: by rank, else in the order they came)',
  '--limit <n>': `how many at most, up to 1000 (default: ${rowsOfTable} in a table, else 1000)`,
  '--cursor <text>': 'the next page of the same search',
  '--fields <paths>': 'only these, such as id,settings.title',
  '--format <format>': 'table, json or jsonl (default: table)',
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
    const format = formatOf(flags, context);
    const limit = format === 'table' ? rowsOfTable : recordsOfPage;
    const params = await readQuery(context, target.entity, flags, limit);
    await using searcher = flags.remote
      ? await openRemoteSearcher(context, withParts(settings, 'api', 'access'), target)
      : await openLocalSearcher(context, target, {
          ofType: (directory) => `Ask the API instead (--remote), or read the lines in ${directory}.`,
          ofNothing: `Run "${context.program} sync ${target.connector.name}" first, or ask the API (--remote).`,
        });
    if (flags.all) return await writeAllPages(context, searcher, params);
    const page = await searcher.search(params);
    await show(context, page, format, firstColumns(target.entity, flags, params['query'] ?? null));
    const { records, hasMore, cursor, tookMs } = page;
    const took = tookMs === null ? '' : ` in ${duration(tookMs)}`;
    const more =
      !hasMore || cursor === null ? '' : `; next page: the same with --cursor ${printable(cursor)}`;
    context.terminal.note(`${counted(records.length, 'record')}${took}${more}`);
  },
});

function formatOf({ format, all }: SearchFlags, { terminal }: CommandContext): Format {
  const otherwise = all ? 'jsonl' : terminal.isJson ? 'json' : 'table';
  const chosen = oneOf('--format', format ?? otherwise, ['table', 'json', 'jsonl']);
  if (all && chosen !== 'jsonl') throw usage(`--all writes jsonl, not ${chosen}.`);
  if (terminal.isJson && chosen === 'table') throw usage('--json goes with --format json or jsonl.');
  return chosen;
}

/** What was asked for, in that order; else what a record is known by, and what it was sorted and chosen by. */
function firstColumns(
  { key, explode }: Entity,
  { fields }: SearchFlags,
  query: JsonValue,
): readonly string[] {
  if (fields === undefined) return [...(explode?.key ?? key), ...askedFields(query)];
  return fields.split(',').flatMap((path) => [path.trim(), path.trim().split('.')[0] ?? '']);
}

/** Records are copied to the letter; a table is for people. */
async function show(
  { terminal }: CommandContext,
  page: FoundPage,
  format: Format,
  first: readonly string[],
): Promise<void> {
  const { records, hasMore, cursor, tookMs } = page;
  if (format === 'json') {
    const meta = { has_more: hasMore, cursor, took_ms: tookMs };
    await terminal.printRecords(`${jsonText(versioned({ data: records, meta }))}\n`);
  } else if (format === 'jsonl') {
    await terminal.printRecords(records.map((record) => `${jsonText(record)}\n`).join(''));
  } else if (records.length > 0) {
    const { lines, omitted } = answerTable(records, terminal.columns(), first);
    terminal.print(...lines);
    const left = `no room for: ${omitted.map(printable).join(', ')}, see --fields or --format jsonl`;
    if (omitted.length > 0) terminal.note(...wrapped(left, terminal.columns()));
  }
}

/**
 * The fields that a query sorts and chooses by, in this order: each by its whole name, and by the first name of its
 * path.
 */
export function askedFields(query: JsonValue): readonly string[] {
  if (!isJsonObject(query)) return [];
  const { sort = null, filter = null } = query;
  const sorted = Array.isArray(sort)
    ? sort.flatMap((one) => (isJsonObject(one) ? Object.keys(one) : []))
    : [];
  return [...sorted, ...fieldsOf(filter)].flatMap((path) => [path, path.split('.')[0] ?? path]);
}

function fieldsOf(filter: JsonValue): readonly string[] {
  if (!isJsonObject(filter)) return [];
  return Object.entries(filter).flatMap(([operator, operand]) => {
    if (Array.isArray(operand)) return operand.flatMap(fieldsOf);
    if (operator === 'not') return fieldsOf(operand);
    return isJsonObject(operand) ? Object.keys(operand) : [];
  });
}

/**
 * Every record of a search on standard output, a line of JSON each, one page at a time. Ends quietly when the reader
 * closes the pipe. Throws PAGING_BROKEN where a cursor comes again, and after ten pages in a row that have no record.
 */
async function writeAllPages(
  { terminal, signal }: CommandContext,
  searcher: Searcher,
  params: JsonObject,
): Promise<void> {
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
