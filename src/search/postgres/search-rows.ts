import type { Snapshot } from '../../sql/database.ts';
import { columnValue } from '../../sinks/records/mark-rows.ts';
import type { JsonValue } from '../../core/json.ts';
import { fromSql, openPage, projection, rowReader } from '../field-value.ts';
import { conditionMatcher } from '../match-condition.ts';
import { type KeyRule, orderRule, type OrderRule, type Position } from '../order-rule.ts';
import type { Condition, Scalar, SearchRequest } from '../search-request.ts';
import type { SearchField, SearchTarget } from '../search-target.ts';
import { allOf, always, type Bound, piece, type Piece } from '../sql-piece.ts';
import { bestRows } from './best-rows.ts';
import { narrowFilter } from './narrow-filter.ts';

interface Search {
  readonly snapshot: Snapshot;
  readonly target: SearchTarget;
  readonly request: SearchRequest;
}

/** Rows of the first stretch. Each further one is so many times as long, and the fifth one has no end. */
const firstStretch = 2_000;
const growth = 8;
const stretches = 5;

/**
 * One page. SQL says which rows may meet the filter; each of them is read, checked and put in its place here, by the
 * functions that SQLite's row functions call too. The rows are read in ranges of row numbers: in the order of
 * their arrival the page is often full after the first, and in another order the rows that were found bound those that
 * are worth reading. `next`: the last record's place where more follow.
 */
export async function searchPage(search: Search, after: Position | null) {
  const { target, request } = search;
  const rule = orderRule(request, target);
  const best = bestRows(rule, request.limit + 1);
  const candidates = openCandidates(search, rule);
  const isByRow = rule.keys.length === 0;
  let from = isByRow && after !== null ? after.row : -1;
  let length = Math.max(firstStretch, 2 * request.limit);
  for (let stretch = 1; ; stretch += 1) {
    const first = await firstRow(search, from);
    if (first === null) break;
    const to = stretch === stretches ? null : first + length;
    for await (const position of candidates(from, to, boundsOf(rule, after, best.worst()))) {
      if (after === null || best.compare(position, after) > 0) best.add(position);
    }
    if (to === null || (isByRow && best.worst() !== null)) break;
    from = to;
    length *= growth;
  }
  return await readRecords(search, best.rows(), best.areCut());
}

async function firstRow({ snapshot, target }: Search, after: number): Promise<number | null> {
  const sql = `SELECT min(r._row) AS row FROM ${fromSql({ ...target, parent: null })} WHERE r._row > :after`;
  const found = await snapshot.read(async (tx) => await tx.first<{ row: number | null }>(sql, { after }));
  return found?.row ?? null;
}

/** Reads the rows of a stretch that meet the filter, in any order. */
function openCandidates({ snapshot, target, request: { filter } }: Search, { keys }: OrderRule) {
  const sorted = keys.flatMap(({ parts }) => parts.map(({ field }) => field));
  const asked = filter === null ? [] : [...fieldsOf(filter)].flatMap((name) => target.fields.get(name) ?? []);
  const fields = [...new Set<SearchField>([...sorted, ...asked])];
  const { columns, read } = rowReader(fields);
  const meets = filter === null ? () => true : conditionMatcher(filter);
  const narrow = filter === null ? always : narrowFilter(filter, target);
  const keyOf = keys.map(({ parts }) => {
    const readers = parts.map(({ field, keyOf: of }) => ({ at: fields.indexOf(field), of }));
    return (values: readonly JsonValue[]): Bound => {
      const [first = null, ...more] = readers.map(({ at, of }) => of(values[at] ?? null));
      return more.length === 0 ? first : more.reduce<number>((sum, one) => sum + Number(one), Number(first));
    };
  });
  return async function* (
    from: number,
    to: number | null,
    bounds: Condition | null,
  ): AsyncGenerator<Position> {
    const where = allOf([
      piece('r._deleted_at IS NULL'),
      piece('r._row > CAST(? AS bigint)', from),
      to === null ? always : piece('r._row <= CAST(? AS bigint)', to),
      narrow,
      bounds === null ? always : narrowFilter(bounds, target),
    ]);
    const sql = `SELECT ${['r._row', ...columns].join(', ')} FROM ${fromSql(target)} WHERE ${where.sql}`;
    const named = withNames({ ...where, sql });
    for await (const rows of snapshot.batches(named.sql, named.values)) {
      for (const [row, ...stored] of rows) {
        const values = read(stored.map(columnValue));
        const record = Object.create(null) as Record<string, JsonValue>;
        for (const [index, { name }] of fields.entries()) record[name] = values[index] ?? null;
        if (meets(record)) yield { row: Number(row), values: keyOf.map((of) => of(values)) };
      }
    }
  };
}

function fieldsOf(condition: Condition): ReadonlySet<string> {
  if (condition.kind === 'and' || condition.kind === 'or') {
    return new Set(condition.conditions.flatMap((inner) => [...fieldsOf(inner)]));
  }
  return condition.kind === 'not' ? fieldsOf(condition.condition) : new Set(condition.path.slice(0, 1));
}

/** What a row that is behind `after` and before `worst` meets by the first key, in the language of searches. */
function boundsOf({ keys }: OrderRule, after: Position | null, worst: Position | null): Condition | null {
  const [first] = keys;
  if (first === undefined || first.column === null) return null;
  const isUpwards = first.direction === 'asc';
  const bounds = [
    ...bound(first, isUpwards ? 'gte' : 'lte', after?.values[0] ?? null),
    ...bound(first, isUpwards ? 'lte' : 'gte', worst?.values[0] ?? null),
  ];
  return bounds.length === 0 ? null : { kind: 'and', conditions: bounds };
}

/** No value comes before all others ascending, and behind them descending: on the side of `lte` in both. */
function bound({ parts, column }: KeyRule, kind: 'gte' | 'lte', value: Bound): readonly Condition[] {
  const [part] = parts;
  // Of flags there are two: nothing is left out by them.
  if (part === undefined || value === null || Buffer.isBuffer(value) || column?.kind === 'boolean') return [];
  const path = [part.field.name];
  const given: NonNullable<Scalar> = typeof value === 'bigint' ? asNumber(value) : value;
  const compared: Condition = { kind, path, value: given };
  if (kind === 'gte') return [compared];
  return [{ kind: 'or', conditions: [compared, { kind: 'eq', path, value: null }] }];
}

/** As a request has it: a bigint only where a double cannot hold it. */
function asNumber(value: bigint): number | bigint {
  return Number.isSafeInteger(Number(value)) ? Number(value) : value;
}

/** `areCut`: more rows follow than were kept. */
async function readRecords(
  { snapshot, target, request }: Search,
  rows: readonly Position[],
  areCut: boolean,
) {
  const shown = projection(target, request.fields);
  const page = openPage(shown, request.limit);
  if (rows.length > 0) {
    const columns = ['r._row', ...shown.columns].join(', ');
    const sql = `SELECT ${columns} FROM unnest(:rows::bigint[]) WITH ORDINALITY AS wanted(row, n)
      JOIN ${fromSql(target)} ON r._row = wanted.row ORDER BY wanted.n`;
    reading: for await (const batch of snapshot.batches(sql, { rows: rows.map(({ row }) => row) })) {
      for (const [, ...stored] of batch) {
        if (page.isFull()) break reading;
        page.add(stored.map(columnValue));
      }
    }
  }
  const { data } = page;
  const hasMore = areCut || data.length < rows.length;
  return { data, next: hasMore ? (rows[data.length - 1] ?? null) : null };
}

/** A statement's `?` as the names that the port gives values. */
function withNames({ sql, values }: Piece) {
  let at = 0;
  const named = sql.replaceAll(/'(?:[^']|'')*'|"(?:[^"]|"")*"|\?/g, (found) =>
    found === '?' ? `:v${(at += 1)}` : found,
  );
  return {
    sql: named,
    values: Object.fromEntries(values.map((value, index) => [`v${index + 1}`, value])),
  };
}
