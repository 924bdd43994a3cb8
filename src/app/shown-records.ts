import { wholeJson } from '../core/canonical-json.ts';
import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import type { EntityName } from '../core/names.ts';
import type { Column } from '../core/records.ts';
import { usage } from '../core/errors.ts';
import { describeTables } from '../definitions/describe-tables.ts';
import { type EntityTarget, targetsOf } from '../settings/choices.ts';
import type { ConnectorSettings, LocalSettings } from '../settings/settings.ts';
import { firstNames, noSuch } from '../definitions/suggest-name.ts';
import type { ShownRows } from '../search/search-target.ts';
import type { ShownValue } from '../search/field-value.ts';
import type { EntityStatus } from '../sinks/ledger-reader.ts';
import { openExistingHistory } from '../sinks/registry.ts';
import { askSinks } from './find-run.ts';
import { integerOf, recordKey } from './stored-fields.ts';
import type { Searches } from './stored-search.ts';

/* Stored records as a person looks at them: rows, one record, and the records above and below it. */

export type { ShownValue } from '../search/field-value.ts';

/** A record's values by column, its `_changed_at`, `_deleted_at` and, where no mask covers the entity, `_extra`. */
export type ShownRecord = ReadonlyMap<string, ShownValue>;

/** Reader of stored records for pages. */
export interface RecordsWorld {
  readonly searches: Searches;
  readonly signal: AbortSignal;
  readonly program: string;
}

interface AskedRows extends Pick<ShownRows, 'which' | 'mostChars'>, Partial<Pick<ShownRows, 'since'>> {
  readonly filter: JsonObject | null;
  readonly limit: number;
  /** `name:asc`, or empty: in the order of arrival. */
  readonly sort?: string;
  readonly cursor?: string;
  /** Left out: all columns. */
  readonly columns?: readonly string[];
}

/**
 * One page of rows. `sql`: the statement that gives them in the sink, without its limit; null where there is no plain
 * one. A column that a mask covers is not read, whatever is stored in it.
 */
export async function readRows(world: RecordsWorld, target: EntityTarget, asked: AskedRows) {
  const { filter, which, since = '', mostChars, limit, sort = '', cursor = '', columns } = asked;
  const masked = maskedColumns(target);
  const only = target.table.columns.map(({ name }) => name).filter((name) => !masked.has(name));
  const [, by = '', direction = 'asc'] = /^(.+):(asc|desc)$/s.exec(sort) ?? [];
  const { data, meta, table } = await world.searches.search({
    target,
    rows: { which, since, mostChars },
    only: masked.size === 0 ? null : new Set(only),
    params: {
      query: {
        ...(filter && { filter }),
        ...(by === '' ? {} : { sort: [{ [by]: direction }] }),
      },
      limit,
      ...(cursor === '' ? {} : { cursor }),
      ...(columns && { fields: columns.filter((name) => !masked.has(name)).map((name) => [name]) }),
    },
    signal: world.signal,
    ofType: () => '',
    ofNothing: 'Run its connector first.',
  });
  return {
    // `as`: a search for people gives every value as a `ShownValue`.
    rows: data.map((one): ShownRecord => new Map(Object.entries(one) as unknown as [string, ShownValue][])),
    next: meta.cursor,
    columns: [...new Set([...target.table.columns, ...(table?.columns ?? [])].map(({ name }) => name))],
    masked,
    sql: table ? sqlOf(target, table.name, asked) : null,
  };
}

const rowsInSql = {
  all: '',
  stored: '_deleted_at IS NULL',
  deleted: '_deleted_at IS NOT NULL',
  changed: null,
  missing: null,
};

function sqlOf({ connector: { sink } }: EntityTarget, table: string, { which, filter }: AskedRows) {
  const conditions = [rowsInSql[which], ...(filter === null ? [] : conditionsInSql(filter))];
  if (sink.type === 'jsonl' || conditions.includes(null)) return null;
  const name = sink.type === 'postgres' ? `${quoted(sink.schema)}.${quoted(table)}` : quoted(table);
  const where = conditions.filter((part) => part !== '').join(' AND ');
  return `SELECT * FROM ${name}${where === '' ? '' : ` WHERE ${where}`}`;
}

/** Conditions that all hold; null for what plain SQL does not say. The search has checked the filter. */
function conditionsInSql(filter: JsonObject): readonly (string | null)[] {
  return Object.entries(filter).flatMap(([operator, operand]) => {
    const sign = signs.get(operator);
    if (sign !== undefined && isJsonObject(operand)) {
      return Object.entries(operand).map(([name, value]) => comparisonInSql(name, sign, value));
    }
    if (operator !== 'and' || !isJsonArray(operand)) return [null];
    return operand.flatMap((one) => (isJsonObject(one) ? conditionsInSql(one) : [null]));
  });
}

function comparisonInSql(name: string, sign: string, value: JsonValue): string | null {
  if (sign === '!=' || name.includes('.')) return null;
  if (value === null) return sign === '=' ? `${quoted(name)} IS NULL` : null;
  // A control character could leave the statement when it is pasted into a terminal.
  if (typeof value === 'object' || /\p{C}/u.test(String(value))) return null;
  const written = typeof value === 'string' ? `'${value.replaceAll("'", "''")}'` : String(value);
  return `${quoted(name)} ${sign} ${written}`;
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** A value as an address, a key and a cell write it; empty for none. */
export function plainText(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : value === null || value === undefined ? '' : wholeJson(value);
}

/** How a key is given in an address. */
export const keyFlag = { flag: 'key', each: 'key.<name>=<value>' } as const;

/** The record with the key, deleted or not; null: none is stored. Throws USAGE where it is no key of the table. */
export async function readRecord(
  world: RecordsWorld,
  target: EntityTarget,
  key: ReadonlyMap<string, string>,
  mostChars: number,
) {
  const { keyText, fields } = recordKey(target.table, key, keyFlag);
  const asked = { which: 'all', mostChars, filter: equalTo(fields), limit: 5 } as const;
  const { rows, ...found } = await readRows(world, target, asked);
  // Times that are written in several ways count as equal in a search.
  const record = rows.find((row) =>
    [...fields].every(([name, value]) => plainText(row.get(name)?.[0]) === plainText(value)),
  );
  const hasMask = target.connector.masks.has(target.entity.name);
  return { ...found, record: record ?? null, key: fields, keyText, hasMask };
}

/** Entities whose rows the record leads to or comes from, as their joins say: columns of theirs, and its values. */
export function relativesOf(target: EntityTarget, record: ShownRecord) {
  const { connector, table } = target;
  const all = targetsOf(connector);
  const joinsOf = ({ entity, table: of }: EntityTarget) => {
    const parents = entity.parents.map((one) => one.entity).filter((name) => connector.entities.has(name));
    return describeTables(entity, parents).find((one) => one.entity === of.entity)?.joins ?? [];
  };
  /** The record's values of these columns under other names; none where one of them is absent or cut. */
  const related = (to: EntityTarget | undefined, from: readonly string[], names: readonly string[]) => {
    const values = from.flatMap((column, index): readonly (readonly [string, JsonValue])[] => {
      const [value, size] = record.get(column) ?? [null, 0];
      return value === null || size > 0 ? [] : [[names[index] ?? '', value]];
    });
    return to === undefined || values.length < from.length ? [] : [{ target: to, values: new Map(values) }];
  };
  const above = joinsOf(target).flatMap(({ columns, parent, parentColumns }) => {
    const found = all.find((one) => one.table.entity === parent);
    return found?.table.key.join() === parentColumns.join() ? related(found, columns, parentColumns) : [];
  });
  const below = all
    .filter(({ entity }) => connector.entities.has(entity.name))
    .flatMap((one) =>
      joinsOf(one).flatMap(({ columns, parent, parentColumns }) =>
        parent === table.entity ? related(one, parentColumns, columns) : [],
      ),
    );
  return { above, below };
}

/** Columns of which a rule of a mask covers the value or a part of it. */
export function maskedColumns({ connector, entity, table, isExploded }: EntityTarget): ReadonlySet<string> {
  const fields = [...(connector.masks.get(entity.name)?.rules.fields ?? [])];
  const paths = fields.filter(([, rule]) => rule.kind !== 'keep').map(([path]) => path.split('.'));
  const covers = ([first, second]: readonly string[], name: string): boolean =>
    [name, '*'].includes(first ?? '') ||
    (isExploded && [entity.explode?.field, '*'].includes(first) && [name, '*'].includes(second ?? ''));
  const names = table.columns.map(({ name }) => name).filter((name) => !table.key.includes(name));
  return new Set(names.filter((name) => paths.some((path) => covers(path, name))));
}

/** How the entities of a connector stand in its sink; null where nothing is stored. */
export async function readStoredState(connector: ConnectorSettings) {
  await using history = await openExistingHistory(connector.sink);
  const [status = null] = (await history?.connectors([connector.name])) ?? [];
  const failures = (await history?.failures(connector.name, mostFailures)) ?? [];
  return { status, failures, freshness: (await history?.freshness(connector.name)) ?? [] };
}

const mostFailures = 100;

/** The newest records of an entity that could not be stored, of each the beginning. */
export async function readRefused(connector: ConnectorSettings, entity: EntityName, limit: number) {
  await using history = await openExistingHistory(connector.sink);
  return (await history?.quarantine(connector.name, limit, { entity, mostChars: mostOfRefused })) ?? [];
}

/** Numbers of refused records, with the newest of each entity. `unreadable`: why sinks cannot be read. */
export async function readAllRefused(settings: LocalSettings, connectors: readonly ConnectorSettings[]) {
  const byName = new Map(connectors.map((one) => [one.name, one]));
  const unreadable: string[] = [];
  const numbers: (Pick<EntityStatus, 'entity'> & { connector: ConnectorSettings; number: number })[] = [];
  for await (const { found, sink, error } of askSinks(settings, (one) =>
    one.connectors([...byName.keys()]),
  )) {
    if (error !== null) unreadable.push(error.message);
    for (const { connector: name, entities } of found ?? []) {
      const connector = byName.get(name);
      if (connector?.sink !== sink) continue;
      for (const { entity, quarantined: number } of entities) {
        if (number > 0) numbers.push({ connector, entity, number });
      }
    }
  }
  const shown = numbers.slice(0, mostShown).map(async (one) => {
    return { ...one, records: await readRefused(one.connector, one.entity, newestShown) };
  });
  return { found: await Promise.all(shown), unreadable };
}

/** Entities of which refused records are shown together, and the newest of each. */
const [mostShown, newestShown] = [20, 5];

const mostOfRefused = 4_000;

// --- Filters as people type them

/** The operators of searches, and what people type for them. */
const signs = new Map([
  ['eq', '='],
  ['neq', '!='],
  ['gte', '>='],
  ['gt', '>'],
  ['lte', '<='],
  ['lt', '<'],
]);

/**
 * Reads a filter: JSON in the language of searches, `status = paid and total > 100`, or words that a record must have.
 * Null: none. Throws USAGE with the names of the columns.
 */
export function readTypedFilter(target: EntityTarget, text: string): JsonObject | null {
  const typed = text.trim();
  if (typed === '') return null;
  if (typed.startsWith('{')) return readJsonFilter(typed);
  if (!/[=<>]/.test(typed)) return wordFilter(target, typed);
  return { and: typed.split(/\s+and\s+(?=\S+\s*[=!<>])/i).map((part) => comparison(target, part)) };
}

function comparison({ table: { entity, columns } }: EntityTarget, text: string): JsonObject {
  const [, name = '', sign, value = ''] = /^([^\s=!<>]+)\s*([=!<>]+)\s*(.*)$/s.exec(text) ?? [];
  const column = columns.find((one) => one.name === name || name.startsWith(`${one.name}.`));
  const [operator] = [...signs].find(([, one]) => one === sign) ?? [];
  if (column !== undefined && operator !== undefined && value !== '') {
    return { [operator]: { [name]: valueOf(column, name, value) } };
  }
  const names = columns.map((one) => one.name);
  const problem =
    name === ''
      ? `expected a comparison such as ${names[0]} = 5, or words without = < >, got "${text}"`
      : column === undefined
        ? noSuch(`column of ${entity}`, name, names)
        : operator === undefined
          ? `${name}: expected one of ${[...signs.values()].join(' ')}, got ${sign}`
          : `${name} ${sign}: expected a value behind it, or null for rows without one`;
  throw usage(`${problem} (columns: ${firstNames(names, mostNamed)})`);
}

/** Columns that a message names. */
const mostNamed = 40;

/** Rows that have these values. */
export function equalTo(values: ReadonlyMap<string, JsonValue>): JsonObject {
  return { and: [...values].map(([name, value]) => ({ eq: { [name]: value } })) };
}

function readJsonFilter(text: string): JsonObject {
  const example = 'Example: {"eq": {"status": "sent"}}';
  try {
    // `as`: an object, since it begins with a brace.
    return JSON.parse(text) as JsonObject;
  } catch (error) {
    const why = error instanceof Error ? error.message : '';
    throw usage(`The filter begins with { but is no JSON: ${why}. ${example}`);
  }
}

function valueOf({ name: column, type }: Column, name: string, text: string): JsonValue {
  const bare = /^(["'])(.*)\1$/s.exec(text)?.[2] ?? text;
  if (text === 'null') return null;
  if (name === column && type === 'string') return bare;
  const isNumber = /^-?\d+(\.\d+)?$/.test(text);
  if (name === column && (type === 'integer' || type === 'number') && !isNumber) {
    throw usage(`${name}: expected a number, got "${text}".`);
  }
  if (isNumber) return text.includes('.') ? Number(text) : integerOf(text);
  return text === 'true' || text === 'false' ? text === 'true' : bare;
}

const mostWords = 4;
/** Conditions of one search, without those that join them. */
const mostConditions = 56;

/** Every word must be a word of some text, or a number of some column. */
function wordFilter(target: EntityTarget, typed: string): JsonObject {
  const words = [...new Set(typed.match(/[\p{L}\p{N}\p{M}]+/gu))].slice(0, mostWords);
  if (words.length === 0) throw usage('The filter has no letter and no digit to look for.');
  const masked = maskedColumns(target);
  const columns = target.table.columns.filter(({ name, type }) => !masked.has(name) && type !== 'boolean');
  const each = Math.floor(mostConditions / words.length);
  return {
    and: words.map((word) => {
      const conditions = columns.flatMap(({ name, type }): readonly JsonObject[] => {
        if (type !== 'integer' && type !== 'number') return [{ keyword: { [name]: word } }];
        return /^\d{1,15}$/.test(word) ? [{ eq: { [name]: Number(word) } }] : [];
      });
      return { or: conditions.slice(0, each) };
    }),
  };
}
