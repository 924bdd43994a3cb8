import { wholeJson } from '../core/canonical-json.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import type { EntityName } from '../core/names.ts';
import type { Column } from '../core/records.ts';
import { usage } from '../core/errors.ts';
import { describeTables } from '../definitions/describe-tables.ts';
import { type EntityTarget, targetsOf } from '../settings/choices.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { ShownRows, StatedAnswer } from '../search/search-target.ts';
import type { ShownValue } from '../search/field-value.ts';
import { openExistingHistory } from '../sinks/registry.ts';
import { recordKey } from './stored-fields.ts';
import type { Searches } from './stored-search.ts';

/* Stored records as a person looks at them: rows, one record, and the records above and below it. */

export type { ShownValue } from '../search/field-value.ts';
export type Which = ShownRows['which'];

/** A record's values by column, its `_changed_at`, `_deleted_at` and, where no mask covers the entity, `_extra`. */
export type ShownRecord = ReadonlyMap<string, ShownValue>;

/** Reader of stored records for pages. */
export interface RecordsWorld {
  readonly searches: Searches;
  readonly signal: AbortSignal;
  readonly program: string;
}

interface AskedRows extends Omit<ShownRows, 'of'> {
  readonly filter: JsonObject | null;
  readonly limit: number;
  /** `name:asc`, or empty: in the order of arrival. */
  readonly sort?: string;
  readonly cursor?: string;
  /** Left out: all columns. */
  readonly columns?: readonly string[];
}

/** One page of rows. A column that a mask covers is not read, whatever is stored in it. */
export async function readRows(world: RecordsWorld, target: EntityTarget, asked: AskedRows) {
  const { filter, limit, sort = '', cursor = '', columns, ...rows } = asked;
  const masked = maskedColumns(target);
  const only = target.table.columns.map(({ name }) => name).filter((name) => !masked.has(name));
  const [, by = '', direction = 'asc'] = /^(.+):(asc|desc)$/s.exec(sort) ?? [];
  const answer = await world.searches.search({
    target,
    rows,
    only: masked.size === 0 ? null : new Set(only),
    params: {
      query: {
        ...(filter === null ? {} : { filter }),
        ...(by === '' ? {} : { sort: [member(by, direction)] }),
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
    rows: answer.data.map(shownRecord),
    next: answer.meta.cursor,
    table: answer.table ?? null,
    masked,
  };
}

/** A value as an address, a key and a cell write it; empty for none. */
export function plainText(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : value === null || value === undefined ? '' : wholeJson(value);
}

export type ShownTable = StatedAnswer['table'];

/** `as`: a search for people gives every value as a `ShownValue`. */
function shownRecord(record: JsonObject): ShownRecord {
  return new Map(Object.entries(record) as unknown as readonly [string, ShownValue][]);
}

/** The record with the key, deleted or not; null: none is stored. Throws USAGE where it is no key of the table. */
export async function readRecord(
  world: RecordsWorld,
  target: EntityTarget,
  key: ReadonlyMap<string, string>,
  mostChars: number,
) {
  const { keyText, fields } = recordKey(target.table, key, { flag: 'key', each: 'key.<name>=<value>' });
  const filter = { and: [...fields].map(([name, value]) => ({ eq: member(name, value) })) };
  const found = await readRows(world, target, { which: 'all', since: '', mostChars, filter, limit: 5 });
  // Times that are written in several ways count as equal in a search.
  const record = found.rows.find((row) =>
    [...fields].every(([name, value]) => plainText(row.get(name)?.[0]) === plainText(value)),
  );
  const hasMask = target.connector.masks.has(target.entity.name);
  return { record: record ?? null, key: fields, keyText, table: found.table, masked: found.masked, hasMask };
}

/** Entities whose rows the record leads to or comes from, as their joins say: columns of theirs, and its values. */
export function relativesOf(target: EntityTarget, record: ShownRecord) {
  const { connector, table } = target;
  const joinsOf = (one: EntityTarget) => {
    const parents = one.entity.parents
      .map(({ entity }) => entity)
      .filter((name) => connector.entities.has(name));
    return describeTables(one.entity, parents).find(({ entity }) => entity === one.table.entity)?.joins ?? [];
  };
  const values = (names: readonly string[], as: readonly string[]): ReadonlyMap<string, JsonValue> | null => {
    const found = names.map((name, index) => [as[index] ?? '', record.get(name)] as const);
    const whole = found.flatMap(([name, value]) =>
      value === undefined || value[1] > 0 || value[0] === null ? [] : [[name, value[0]] as const],
    );
    return whole.length === names.length ? new Map(whole) : null;
  };
  const all = targetsOf(connector);
  const above = joinsOf(target).flatMap(({ columns, parent, parentColumns }) => {
    const found = all.find((one) => one.table.entity === parent);
    const key = found?.table.key.join() === parentColumns.join() ? values(columns, parentColumns) : null;
    return found === undefined || key === null ? [] : [{ target: found, values: key }];
  });
  const read = all.filter(({ entity }) => connector.entities.has(entity.name));
  const below = read.flatMap((one) =>
    joinsOf(one).flatMap(({ columns, parent, parentColumns }) => {
      const found = parent === table.entity ? values(parentColumns, columns) : null;
      return found === null ? [] : [{ target: one, values: found }];
    }),
  );
  return { above, below };
}

/** Columns of which a rule of a mask covers the value or a part of it. */
export function maskedColumns({ connector, entity, table, isExploded }: EntityTarget): ReadonlySet<string> {
  const rules = connector.masks.get(entity.name)?.rules;
  if (rules === undefined) return new Set();
  const paths = [...rules.fields].filter(([, rule]) => rule.kind !== 'keep').map(([path]) => path.split('.'));
  const isIn = (name: string, place: number, path: readonly string[]): boolean =>
    path[place] === name || path[place] === '*';
  return new Set(
    table.columns
      .map(({ name }) => name)
      .filter((name) => !table.key.includes(name))
      .filter((name) =>
        paths.some(
          (path) =>
            isIn(name, 0, path) ||
            (isExploded && isIn(entity.explode?.field ?? '', 0, path) && isIn(name, 1, path)),
        ),
      ),
  );
}

/** How the entities of a connector stand in its sink; null where nothing is stored. */
export async function readStoredState(connector: ConnectorSettings) {
  await using history = await openExistingHistory(connector.sink);
  const [status = null] = (await history?.connectors([connector.name])) ?? [];
  return { status, freshness: (await history?.freshness(connector.name)) ?? [] };
}

/** The newest records of an entity that could not be stored, of each the beginning. */
export async function readRefused(connector: ConnectorSettings, entity: EntityName, limit: number) {
  await using history = await openExistingHistory(connector.sink);
  return (await history?.quarantine(connector.name, limit, { entity, mostChars: mostOfRefused })) ?? [];
}

const mostOfRefused = 4_000;

// --- Filters as people type them

const mostWords = 4;
/** Conditions of one search, without those that join them. */
const mostConditions = 56;

/**
 * Reads a filter: JSON in the language of searches, `status = paid and total > 100`, or words that a record must have.
 * Null: none. Throws USAGE.
 */
export function readTypedFilter(target: EntityTarget, text: string): JsonObject | null {
  const typed = text.trim();
  if (typed === '') return null;
  if (typed.startsWith('{')) return readJsonFilter(typed);
  const { columns } = target.table;
  const parts = typed
    .split(/\s+and\s+/i)
    .map((part) => /^([^\s=!<>]+)\s*(!=|>=|<=|=|>|<)\s*(.*)$/s.exec(part));
  const compared = parts.flatMap((part) => {
    const [, name = '', sign = '', value = ''] = part ?? [];
    const column = columns.find((one) => one.name === name || name.startsWith(`${one.name}.`));
    return column === undefined
      ? []
      : [member(operators.get(sign) ?? '', member(name, valueOf(column, name, value)))];
  });
  return compared.length === parts.length ? { and: compared } : wordFilter(target, typed);
}

const operators = new Map([
  ['=', 'eq'],
  ['!=', 'neq'],
  ['>', 'gt'],
  ['>=', 'gte'],
  ['<', 'lt'],
  ['<=', 'lte'],
]);

function readJsonFilter(text: string): JsonObject {
  let filter: unknown;
  try {
    filter = JSON.parse(text);
  } catch (error) {
    const why = error instanceof Error ? error.message : '';
    throw usage(`The filter begins with { but is no JSON: ${why}. Example: {"eq": {"status": "sent"}}`);
  }
  // `as`: it was JSON.
  const value = filter as JsonValue;
  if (isJsonObject(value)) return value;
  throw usage('The filter is no JSON object. Example: {"eq": {"status": "sent"}}');
}

function valueOf({ name: column, type }: Column, name: string, text: string): JsonValue {
  const bare = /^(["'])(.*)\1$/s.exec(text)?.[2] ?? text;
  if (text === 'null') return null;
  if (name === column && type === 'string') return bare;
  const isNumber = /^-?\d+(\.\d+)?$/.test(text);
  if (name === column && (type === 'integer' || type === 'number') && !isNumber) {
    throw usage(`${name}: expected a number, got "${text}".`);
  }
  if (isNumber) return Number.isSafeInteger(Number(text)) || text.includes('.') ? Number(text) : BigInt(text);
  return text === 'true' || text === 'false' ? text === 'true' : bare;
}

/** Every word must be a word of some text, or a number of some column. */
function wordFilter(target: EntityTarget, typed: string): JsonObject {
  const words = [...new Set(typed.split(/[^\p{L}\p{N}\p{M}]+/u).filter((word) => word !== ''))].slice(
    0,
    mostWords,
  );
  if (words.length === 0) throw usage('The filter has no letter and no digit to look for.');
  const masked = maskedColumns(target);
  const columns = target.table.columns.filter(({ name }) => !masked.has(name));
  const each = Math.floor(mostConditions / words.length);
  return {
    and: words.map((word) => ({
      or: columns
        .flatMap(({ name, type }): readonly JsonObject[] => {
          if (type === 'boolean') return [];
          if (type !== 'integer' && type !== 'number') return [{ keyword: member(name, word) }];
          return /^\d{1,15}$/.test(word) ? [{ eq: member(name, Number(word)) }] : [];
        })
        .slice(0, each),
    })),
  };
}

/** A null prototype lets a field called `__proto__` be an ordinary name. */
function member(name: string, value: JsonValue): JsonObject {
  return Object.assign(Object.create(null) as JsonObject, Object.fromEntries([[name, value]]));
}

// --- SQL

/**
 * A statement that gives these rows in the sink; null where its filter, or a value that cannot be typed safely, has no
 * plain SQL.
 */
export function sqlOf(
  { connector: { sink } }: EntityTarget,
  table: ShownTable | null | undefined,
  { which, filter, limit }: Pick<AskedRows, 'which' | 'filter' | 'limit'>,
): string | null {
  const places = {
    all: '',
    stored: '_deleted_at IS NULL',
    deleted: '_deleted_at IS NOT NULL',
    changed: null,
    missing: null,
  };
  const chosen = places[which];
  const conditions = filter === null ? '' : sqlCondition(filter);
  if (sink.type === 'jsonl' || !table || chosen === null || conditions === null) return null;
  const name =
    sink.type === 'postgres'
      ? `${quotedName(sink.schema)}.${quotedName(table.name)}`
      : quotedName(table.name);
  const where = [chosen, conditions].filter((part) => part !== '').join(' AND ');
  return `SELECT * FROM ${name}${where === '' ? '' : ` WHERE ${where}`} LIMIT ${limit}`;
}

const sqlSigns = new Map([
  ['eq', '='],
  ['gt', '>'],
  ['gte', '>='],
  ['lt', '<'],
  ['lte', '<='],
]);

/** SQL of an `and` of comparisons with plain values, as `readTypedFilter` makes them; null for anything else. */
function sqlCondition(filter: JsonObject): string | null {
  const { and } = filter;
  if (!Array.isArray(and) || Object.keys(filter).length !== 1) return null;
  const parts = (and as readonly JsonValue[]).map((condition) => {
    const [[operator, fields] = ['', null], ...others] = isJsonObject(condition)
      ? Object.entries(condition)
      : [];
    const [[name, value] = ['', null], ...more] = isJsonObject(fields) ? Object.entries(fields) : [];
    const sign = sqlSigns.get(operator);
    const isPlain = others.length + more.length === 0 && sign !== undefined && !name.includes('.');
    if (!isPlain) return null;
    if (value === null) return sign === '=' ? `${quotedName(name)} IS NULL` : null;
    if (typeof value === 'string') {
      // A control character could leave the statement when it is pasted into a terminal.
      return /\p{C}/u.test(value) ? null : `${quotedName(name)} ${sign} '${value.replaceAll("'", "''")}'`;
    }
    return typeof value === 'object' ? null : `${quotedName(name)} ${sign} ${String(value)}`;
  });
  return parts.includes(null) ? null : parts.join(' AND ');
}

function quotedName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
