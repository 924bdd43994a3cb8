import { factColumns, type FactName, type FactRow, type FactValue } from './facts.ts';

/** By what a reader goes from batch to batch: unique within a connector, and never null. */
const keys = {
  // Newest first: a target that numbers them behind its own has the highest number at once.
  runs: ['number'],
  counts: ['run', 'entity'],
  partitions: ['id'],
  seen: ['entity', 'origin', 'chunk'],
  also: ['entity', 'row', 'partition'],
  missing: ['entity', 'row'],
  drift: ['entity', 'field', 'kind', 'type'],
  windows: ['backfill', 'window'],
  hours: ['entity', 'hour'],
  quarantine: ['id'],
  downloads: ['id'],
} as const satisfies Record<FactName, readonly string[]>;

/**
 * A statement for the next rows of a fact, which both SQLite and PostgreSQL understand; `:connector`, `:limit`, and from the second batch on `:k0` and so on.
 * `at`: in front of each table's name. `own`: expressions for columns that this ledger has in another form, over `fact`.
 */
export function selectFacts(
  fact: FactName,
  {
    at = '',
    isFirst,
    own,
  }: { readonly at?: string; readonly isFirst: boolean; readonly own: Readonly<Record<string, string>> },
): string {
  const list = factColumns(fact).map(({ name }) => `${own[name] ?? `fact."${name}"`} AS "${name}"`);
  const order = keys[fact].map((key) => `fact."${key}"`);
  // By the id, in one pass over the table: the index on the connector would be sorted anew for each batch.
  const connector = order.length === 1 && fact !== 'runs' ? "fact.connector || ''" : 'fact.connector';
  const of =
    fact === 'counts'
      ? `fact.run IN (SELECT run FROM ${at}_sync_runs WHERE connector = :connector)`
      : `${connector} = :connector`;
  const behind = isFirst
    ? ''
    : ` AND (${order.join(', ')}) ${isNewestFirst(fact) ? '<' : '>'} (${order.map((_, index) => `:k${index}`).join(', ')})`;
  return `SELECT ${list.join(', ')} FROM ${at}_sync_${fact} AS fact WHERE ${of}${behind}
    ORDER BY ${factOrder(fact, 'fact.')} LIMIT :limit`;
}

/** How rows of a fact are sorted; `at` is in front of each column. */
export function factOrder(fact: FactName, at: string): string {
  return keys[fact].map((key) => `${at}"${key}"${isNewestFirst(fact) ? ' DESC' : ''}`).join(', ');
}

function isNewestFirst(fact: FactName): boolean {
  return fact === 'runs';
}

/** Values for `:k0` and so on: the batch begins behind this row. */
export function factCursor(fact: FactName, last: FactRow | null): Readonly<Record<string, FactValue>> {
  if (last === null) return {};
  return Object.fromEntries(keys[fact].map((key, index) => [`k${index}`, last[key] ?? null]));
}
