import { readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { openSearches } from '../../app/stored-search.ts';
import { usage } from '../../core/errors.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { Entity } from '../../definitions/definition.ts';
import { parseJsonText } from '../../http/lossless-json.ts';
import { listOf, pathOf, readSort } from '../../search/search-request.ts';
import { type EntityTarget, entityTarget } from '../../settings/choices.ts';
import { counted, duration, printable } from '../../telemetry/format.ts';
import { command, type CommandContext, readInput, wholeNumber } from '../command.ts';
import { jsonText, versioned } from '../output/json-text.ts';
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
  '--index-sql': 'print the SQL that makes trigram indexes for keyword and fuzzy (PostgreSQL)',
  '--all': 'all pages, a record per line as JSON; --limit is the page size',
} as const;

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
    const target = entityTarget(await context.settings(), name);
    if (flags.indexSql) {
      context.terminal.print(...(await wordIndexes(context, target)));
      return;
    }
    const { terminal } = context;
    const limit = flags.all || terminal.isJson ? recordsOfPage : rowsOfTable;
    const params = await readQuery(context, target.entity, flags, limit);
    await using searches = openSearches({ clock: context.clock, deadlineMs, processes: 1, maxWaiting: 1 });
    const search = async (asked: JsonObject): Promise<FoundPage> =>
      await searches.search({
        target,
        params: asked,
        signal: context.signal,
        ofType: (directory) => `Read the lines in ${directory}.`,
        ofNothing: `Run "${context.program} sync ${target.connector.name}" first.`,
      });
    if (flags.all) return await writeAllPages(context, search, params);
    const page = await search(params);
    const { key, explode } = target.entity;
    const named = flags.fields?.split(',').flatMap((path) => [path.trim(), path.trim().split('.')[0] ?? '']);
    await show(context, page, named ?? explode?.key ?? key);
    const { has_more: hasMore, cursor, took_ms: tookMs } = page.meta;
    const more =
      !hasMore || cursor === null ? '' : `; next page: the same with --cursor ${printable(cursor)}`;
    terminal.note(`${counted(page.data.length, 'record')} in ${duration(tookMs)}${more}`);
  },
});

const deadlineMs = 60_000;

type FoundPage = Awaited<ReturnType<ReturnType<typeof openSearches>['search']>>;

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

/** `--json` prints records exactly; a table is for people. */
async function show({ terminal }: CommandContext, { data, meta }: FoundPage, first: readonly string[]) {
  if (terminal.isJson) {
    await terminal.printRecords(`${jsonText(versioned({ data, meta }))}\n`);
  } else if (data.length > 0) {
    const { lines, omitted } = answerTable(data, terminal.columns(), first);
    terminal.print(...lines);
    const left = `no room for: ${omitted.map(printable).join(', ')}, see --fields or --json`;
    if (omitted.length > 0) terminal.note(...wrapped(left, terminal.columns()));
  }
}

/**
 * Prints every record of a search on standard output, a line of JSON each, one page at a time. Ends quietly when the
 * reader closes the pipe.
 */
async function writeAllPages(
  { terminal, signal }: CommandContext,
  search: (params: JsonObject) => Promise<FoundPage>,
  params: JsonObject,
): Promise<void> {
  let written = 0;
  let cursor: string | null = null;
  do {
    const page: FoundPage = await search(cursor === null ? params : { ...params, cursor });
    const text = page.data.map((record) => `${jsonText(record)}\n`).join('');
    if (!(await terminal.printRecords(text))) return;
    signal.throwIfAborted();
    written += page.data.length;
    cursor = page.meta.has_more ? page.meta.cursor : null;
  } while (cursor !== null);
  terminal.note(counted(written, 'record'));
}

type QueryFlags = Readonly<Record<'filter' | 'sort' | 'limit' | 'cursor' | 'fields', string | undefined>>;

const maxBytes = 1024 * 1024;
const mostRecords = 1_000;

/**
 * Reads the parameters of a search in the form that the API takes. The search interprets them; only text that is not
 * JSON, a number or a list is refused here, with USAGE.
 */
async function readQuery(context: CommandContext, entity: Entity, flags: QueryFlags, defaultLimit: number) {
  const { filter, sort, limit, cursor, fields } = flags;
  return {
    query: {
      ...(filter === undefined ? {} : { filter: await readFilter(context, filter) }),
      ...(sort === undefined ? {} : { sort: readSort(sort, '--sort') }),
    },
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
        ? await textOf(resolve(context.cwd, given.slice(1)), flag)
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

async function textOf(file: string, flag: string): Promise<string> {
  try {
    const { size } = await stat(file);
    if (size > maxBytes) throw usage(`${flag}: expected at most ${maxBytes} bytes, ${file} has ${size}.`);
    return await readFile(file, 'utf8');
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error)) throw error;
    throw usage(`${flag}: ${file} cannot be read: ${error.message}.`);
  }
}
