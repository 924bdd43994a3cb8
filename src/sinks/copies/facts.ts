/**
 * What a ledger knows of a connector, row by row, as a copy hands it over: `_sync_<name>` by name and meaning
 * (`src/sinks/ledger/schema.ts` says what each column is). `run`: the number of a run, `partition`: the id of a
 * partition, as the source has them; 0 stands for none.
 */
const columns = {
  runs: {
    number: 'run',
    run: 'text',
    origin: 'run',
    scope: 'text',
    continues: 'text?',
    can_continue: 'integer',
    state: 'text',
    started_at: 'text',
    finished_at: 'text?',
    report: 'text?',
    cancel_requested: 'text?',
    kind: 'text',
    chain: 'text',
    is_full: 'integer',
    resume_at: 'text?',
  },
  counts: {
    run: 'text',
    entity: 'text',
    fetched: 'integer',
    filtered: 'integer',
    quarantined: 'integer',
    inserted: 'integer',
    updated: 'integer',
    duplicate: 'integer',
    unchanged: 'integer',
    depth_limited: 'integer',
  },
  partitions: {
    id: 'partition',
    entity: 'text',
    params: 'text',
    backfill: 'text',
    base: 'partition?',
    inject: 'text',
    rank: 'integer',
    tree: 'partition?',
    tree_depth: 'integer?',
    parent_entity: 'text?',
    parent_key: 'text?',
    origin: 'run',
    found_at: 'text',
    due_since: 'text?',
    ready: 'integer',
    listed: 'integer',
    mode: 'text?',
    position: 'text?',
    midway: 'integer',
    watermark: 'text?',
    marker: 'text?',
    found_marker: 'text?',
    sealed_at: 'text?',
    sealed_run: 'text?',
    sealed_scope: 'text?',
    proof: 'text?',
    absence: 'text?',
    full_at: 'text?',
    full_origin: 'run?',
    sweep_origin: 'run?',
    swept_to: 'integer',
    gone: 'integer',
    set_aside_run: 'text?',
    failure: 'text?',
    failed_at: 'text?',
    last_page_size: 'integer?',
    last_page_records: 'integer?',
    failure_code: 'text?',
  },
  // Bits of 4,096 rows from row `chunk * 4,096` on: first those that were met, then those that were met in their home.
  seen: { entity: 'text', origin: 'run', chunk: 'integer', bits: 'bytes' },
  also: { entity: 'text', row: 'integer', partition: 'partition', origin: 'run' },
  missing: {
    entity: 'text',
    row: 'integer',
    partition: 'partition',
    origin: 'run',
    missed: 'integer',
    since: 'text',
    needs: 'text',
    is_allowed: 'integer',
    asked_run: 'text?',
    asked_at: 'text?',
    is_vouched_for: 'integer',
    gone_run: 'text?',
  },
  drift: {
    entity: 'text',
    field: 'text',
    kind: 'text',
    type: 'text',
    first_seen_at: 'text',
    first_run: 'text',
    is_refused: 'integer',
  },
  windows: { backfill: 'text', window: 'text', run: 'text', finished_at: 'text' },
  hours: { entity: 'text', hour: 'text', added: 'integer', deleted: 'integer' },
  // `id` is the order in which they came; a target gives numbers of its own.
  quarantine: {
    id: 'order',
    entity: 'text',
    content_hash: 'text',
    reason: 'text',
    detail: 'text',
    record: 'text',
    first_seen_at: 'text',
    last_seen_at: 'text',
    last_run: 'text',
  },
  downloads: {
    id: 'order',
    entity: 'text',
    key: 'text',
    params: 'text',
    version: 'text',
    name: 'text?',
    content_type: 'text?',
    size: 'integer?',
    gone: 'text?',
    is_wanted: 'integer',
    file: 'text?',
    bytes: 'integer?',
    sha256: 'text?',
    stored_type: 'text?',
    stored_version: 'text?',
    stored_at: 'text?',
    stored_run: 'text?',
    replaced: 'text?',
    failure: 'text?',
    failed_at: 'text?',
    failed_run: 'text?',
  },
} as const;

export type FactName = keyof typeof columns;
type Meaning = 'text' | 'integer' | 'run' | 'partition' | 'order' | 'bytes';
type ValueOf<What> = What extends `${infer Plain}?`
  ? ValueOf<Plain> | null
  : What extends 'text'
    ? string
    : What extends 'bytes'
      ? Buffer
      : number;

export type Facts = {
  readonly [Name in FactName]: {
    readonly [Column in keyof (typeof columns)[Name]]: ValueOf<(typeof columns)[Name][Column]>;
  };
};

export type FactValue = string | number | Buffer | null;
export type FactRow = Readonly<Record<string, FactValue>>;

/** In the order in which they are handed over: runs in front of what names them by number. */
export const factNames = Object.keys(columns) as readonly FactName[];

export interface FactColumn {
  readonly name: string;
  readonly meaning: Meaning;
}

const columnLists = Object.fromEntries(
  Object.entries(columns).map(([fact, list]) => [
    fact,
    Object.entries(list).map(([name, meaning]: [string, string]): FactColumn => ({
      name,
      meaning: meaning.replace('?', '') as Meaning,
    })),
  ]),
) as unknown as Readonly<Record<FactName, readonly FactColumn[]>>;

export function factColumns(fact: FactName): readonly FactColumn[] {
  return columnLists[fact];
}

/** What is to be added to numbers of the source so that they are free in the target. */
export interface Shift {
  readonly runs: number;
  readonly partitions: number;
}

/** The rows with numbers of the target. */
export function shifted(fact: FactName, rows: readonly FactRow[], shift: Shift): readonly FactRow[] {
  const moving = factColumns(fact).flatMap(({ name, meaning }) =>
    meaning === 'run'
      ? [[name, shift.runs] as const]
      : meaning === 'partition'
        ? [[name, shift.partitions] as const]
        : [],
  );
  if (moving.length === 0) return rows;
  return rows.map((row) => {
    const moved: Record<string, FactValue> = { ...row };
    for (const [name, by] of moving) moved[name] = movedNumber(row[name] ?? null, by);
    return moved;
  });
}

/** 0 and null stand for none. */
export function movedNumber<Value extends FactValue>(value: Value, by: number): Value | number {
  return typeof value === 'number' && value !== 0 ? value + by : value;
}
