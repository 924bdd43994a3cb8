import { news, type Bench, type LedgerRow } from '../../contracts/sink/fixture.ts';
import { tables } from './world.ts';

const partitionColumns = `entity, params, backfill, base, inject, rank, tree, tree_depth, parent_entity, parent_key, origin, found_at, due_since,
  ready, listed, mode, position, midway, watermark, marker, found_marker, sealed_at, sealed_run, sealed_scope, proof, absence, full_at,
  full_origin, sweep_origin, swept_to, gone, set_aside_run, failure, failed_at`;

/** Ledger tables and the columns of them that mean the same in every sink. */
const ledgerTables: Readonly<Record<string, string>> = {
  _sync_also: 'entity, row, partition, origin',
  _sync_missing:
    'entity, row, partition, origin, missed, since, needs, is_allowed, asked_run, asked_at, is_vouched_for, gone_run',
  _sync_tables:
    'entity, key, stored, declared, rows, as_of, taken_over, deleted, evolved, adopted_at, first_origin',
  _sync_runs:
    'run, number, origin, scope, continues, can_continue, state, started_at, finished_at, report, kind, chain, is_full',
  _sync_counts: 'run, entity, fetched, filtered, quarantined, inserted, updated, duplicate, unchanged',
  _sync_hours: 'entity, hour, added, deleted',
  _sync_days: 'entity, day, added, changed, deleted, revived',
  _sync_masks: 'entity, mask, key_id, since, read_at',
  _sync_conditions: 'kind, subject, since, detail',
  _sync_drift: 'entity, field, kind, type, first_seen_at, first_run, is_refused',
  _sync_windows: 'backfill, run, finished_at',
  _sync_quarantine: 'entity, content_hash, reason, detail, record, first_seen_at, last_seen_at, last_run',
  _sync_downloads:
    'entity, key, params, version, name, content_type, size, gone, is_wanted, stored_version, failure',
};

/** They hold numbers of runs, which a sink may give again after a reset of the connector, or not. */
const runNumbers = ['number', 'origin', 'full_origin', 'sweep_origin', 'taken_over', 'first_origin'];

const ofNews = `WHERE connector = '${news}'`;

/** All that a sink stores of the connector of histories, with partitions and runs by name, in an order of its own. */
export async function storedState(bench: Bench): Promise<Readonly<Record<string, readonly unknown[]>>> {
  const partitions = await bench.ledger(`SELECT id, ${partitionColumns} FROM _sync_partitions ${ofNews}`);
  const names = new Map(
    partitions.map(({ id, entity, params, backfill }) => [id, JSON.stringify([entity, params, backfill])]),
  );
  const nameOf = (id: unknown): unknown => (id === null ? null : (names.get(id) ?? 'forgotten'));
  const runs = new Map<unknown, unknown>([
    [0, 0],
    [null, null],
    ...(await bench.ledger(`SELECT number, run FROM _sync_runs ${ofNews}`)).map(
      ({ number, run }) => [number, run] as const,
    ),
  ]);
  const byRun = (row: LedgerRow): LedgerRow =>
    Object.fromEntries(
      Object.entries(row).map(([name, value]) => [
        name,
        runNumbers.includes(name) ? ((runs.get(value) ?? 'forgotten') as LedgerRow[string]) : value,
      ]),
    );
  const state: Record<string, readonly unknown[]> = {
    _sync_partitions: ordered(
      partitions.map(({ id: _id, ...row }) => ({
        ...byRun(row),
        base: nameOf(row['base']),
        tree: nameOf(row['tree']),
      })),
    ),
  };
  for (const [table, columns] of Object.entries(ledgerTables)) {
    const rows = await bench.ledger(
      `SELECT ${columns} FROM ${table} ${table === '_sync_counts' ? `WHERE run IN (SELECT run FROM _sync_runs ${ofNews})` : ofNews}`,
    );
    state[table] = ordered(
      rows
        .map(byRun)
        .map((row) => ('partition' in row ? { ...row, partition: nameOf(row['partition']) } : row)),
    );
  }
  const declared = new Set((state['_sync_tables'] as readonly LedgerRow[]).map(({ entity }) => entity));
  for (const { entity, columns } of tables) {
    if (!declared.has(entity)) continue;
    // As text: a number of JavaScript would round the long ones.
    const names = columns
      .map(({ name, type }) => (type === 'integer' ? `CAST("${name}" AS TEXT) AS "${name}"` : `"${name}"`))
      .join(', ');
    const rows = await bench.ledger(
      `SELECT _row, ${names}, _extra, _first_seen_at, _changed_at, _run_id, _hash, _volatile_hash, _deleted_at, _partition FROM news__${entity}`,
    );
    state[entity] = ordered(rows.map((row) => plain({ ...row, _partition: nameOf(row['_partition']) })));
  }
  return state;
}

/** SQLite keeps booleans as 0 and 1, and JSON as text. */
function plain(row: LedgerRow): LedgerRow {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => {
      if (typeof value === 'boolean') return [name, Number(value)];
      if (typeof value === 'bigint') return [name, String(value)];
      return [
        name,
        (name === 'tags' || name === '_extra') && typeof value === 'object' && value !== null
          ? JSON.stringify(value)
          : value,
      ];
    }),
  );
}

function ordered(rows: readonly LedgerRow[]): readonly LedgerRow[] {
  return rows.toSorted((left, right) => (JSON.stringify(left) < JSON.stringify(right) ? -1 : 1));
}
