import { instant } from '../../src/core/clock.ts';
import { SyncError } from '../../src/core/errors.ts';
import type { JsonObject } from '../../src/core/json.ts';
import type { Params } from '../../src/core/records.ts';
import { type Source, type SourcePage, readRecords } from '../../src/source/source.ts';
import { text } from './service/served-api.ts';

export interface MovingRecord {
  readonly id: string;
  readonly fields: JsonObject;
  /** What the record lies below; null for a root entity's. */
  readonly parent: string | null;
  /** Number of the call before which it came to be, and the one before which it went; Infinity while it is there. */
  readonly bornAt: number;
  goneAt: number;
}

export type MovingRows = ReturnType<typeof movingRows>;

const parentOf: Readonly<Record<string, string>> = {
  files: 'folders',
  visits: 'folders',
  tags: 'folders',
  lines: 'docs',
};
const timeField: Readonly<Record<string, string>> = {
  folders: 'created',
  files: 'changed',
  visits: 'at',
  docs: 'edited',
};
const entities = ['folders', 'files', 'notes', 'marks', 'visits', 'tags', 'docs', 'lines'] as const;
const startMs = Date.parse('2026-05-01T10:00:00Z');
const pageSize = 25;

/** An account whose rows are inserted, deleted, changed and moved between any two calls. */
export function movingRows(random: () => number) {
  let nowMs = startMs;
  let calls = 0;
  let isMoving = false;
  let lastId = 0;
  const tables = new Map<string, MovingRecord[]>(entities.map((entity) => [entity, []]));
  const tableOf = (entity: string): MovingRecord[] => tables.get(entity) ?? [];
  const alive = (entity: string): MovingRecord[] => tableOf(entity).filter(({ goneAt }) => goneAt > calls);
  const pick = <Value>(values: readonly Value[]): Value | undefined =>
    values[Math.floor(random() * values.length)];

  /** To the second, or for docs to the minute, as services write times. */
  const stamp = (entity: string): string =>
    entity === 'docs' ? `${instant(nowMs).slice(0, 16)}:00.000Z` : `${instant(nowMs).slice(0, 19)}+00:00`;

  function insert(entity: string, parent: string | null, id = `${entity}-${(lastId += 1)}`): void {
    const field = timeField[entity];
    const fields = { id, title: `v${calls}`, ...(field === undefined ? {} : { [field]: stamp(entity) }) };
    const record: MovingRecord = { id, fields, parent, bornAt: calls, goneAt: Number.POSITIVE_INFINITY };
    const table = tableOf(entity);
    // Somewhere in the middle where nothing sorts the listing; a log only grows at its end.
    if (field === undefined) table.splice(Math.floor(random() * (table.length + 1)), 0, record);
    else table.push(record);
    if (entity === 'lines' && parent !== null) touch('docs', parent);
  }

  function replace(entity: string, record: MovingRecord, change: Partial<MovingRecord>): void {
    const field = timeField[entity];
    const fields = {
      ...record.fields,
      title: `v${calls}.${lastId}`,
      ...(field === undefined || entity === 'folders' ? {} : { [field]: stamp(entity) }),
    };
    const table = tableOf(entity);
    const next = { ...record, fields, ...change };
    if (field === undefined || entity === 'folders') table.splice(table.indexOf(record), 1, next);
    else {
      table.splice(table.indexOf(record), 1);
      table.push(next);
    }
  }

  function touch(entity: string, id: string): void {
    const record = alive(entity).find((one) => one.id === id);
    if (record !== undefined) replace(entity, record, {});
  }

  function remove(entity: string, record: MovingRecord): void {
    record.goneAt = calls;
    if (entity === 'lines' && record.parent !== null) touch('docs', record.parent);
    for (const [child, parent] of Object.entries(parentOf)) {
      if (parent !== entity) continue;
      for (const below of alive(child)) if (below.parent === record.id) remove(child, below);
    }
  }

  function moveSomething(): void {
    const entity = pick(entities) ?? 'notes';
    const parents = parentOf[entity] === undefined ? [] : alive(parentOf[entity]);
    const record = pick(alive(entity));
    const kind = random();
    const parent = pick(parents)?.id ?? null;
    if (kind < 0.35 || record === undefined) {
      if (parentOf[entity] === undefined || parent !== null) insert(entity, parent);
    } else if (entity === 'visits') insert(entity, parent);
    else if (kind < 0.6) {
      if ((entity === 'folders' || entity === 'docs') && random() < 0.8) return;
      remove(entity, record);
    } else if (kind < 0.85 || (entity !== 'files' && entity !== 'lines') || parent === null) {
      replace(entity, record, {});
      if (entity === 'lines' && record.parent !== null) touch('docs', record.parent);
    } else {
      const from = record.parent;
      replace(entity, record, { parent });
      if (entity === 'lines') {
        touch('docs', parent);
        if (from !== null) touch('docs', from);
      }
    }
    const back = pick(tableOf(entity).filter(({ goneAt }) => goneAt <= calls));
    const isBack = alive(entity).some(({ id }) => id === back?.id);
    if (random() >= 0.1 || back === undefined || isBack || entity === 'visits') return;
    // A tag of another folder would be another tag; what has an id of its own may come back anywhere.
    const where = entity === 'tags' ? (parents.find(({ id }) => id === back.parent)?.id ?? null) : parent;
    if (parentOf[entity] === undefined || where !== null) insert(entity, where, back.id);
  }

  function turn(): void {
    calls += 1;
    nowMs += 400;
    if (!isMoving) return;
    for (let moves = Math.floor(random() * 4); moves > 0; moves -= 1) moveSomething();
  }

  function listing(entity: string, params: Params): MovingRecord[] {
    const above = parentOf[entity];
    const owner = params['folder_id'] ?? params['doc_id'] ?? null;
    if (above !== undefined && !alive(above).some(({ id }) => id === owner)) throw notThere(entity);
    const field = timeField[entity] ?? '';
    const since =
      typeof params['since'] === 'string' ? Date.parse(params['since']) : Number.NEGATIVE_INFINITY;
    const timeOf = ({ fields }: MovingRecord): number => Date.parse(text(fields[field]));
    const found = alive(entity).filter(
      (record) => (above === undefined || record.parent === owner) && !(timeOf(record) < since),
    );
    const sorted =
      params['sort'] === undefined ? found : found.toSorted((left, right) => timeOf(left) - timeOf(right));
    return params['sort'] === 'newest' ? sorted.toReversed() : sorted;
  }

  function list(entity: string, params: Params): SourcePage {
    turn();
    const records = listing(entity, params);
    const isByToken = entity === 'docs' || entity === 'lines';
    const anchor = typeof params['token'] === 'string' ? params['token'] : null;
    const start = isByToken ? behind(entity, records, anchor, params) : Number(params['offset'] ?? 0);
    const page = records.slice(start, start + pageSize);
    const last = page.at(-1);
    const hasMore = start + page.length < records.length;
    const raw = page.map(({ fields }): JsonObject => fields);
    return {
      records: readRecords(raw),
      next: isByToken ? { hasMore, token: hasMore ? anchorOf(entity, last) : null } : null,
      serverTime: instant(nowMs),
      bytes: JSON.stringify(raw).length,
    };
  }

  /** A token names the last record's place, so that what moves in front of it shifts nothing. */
  function anchorOf(entity: string, last: MovingRecord | undefined): string {
    const field = timeField[entity];
    return JSON.stringify([field === undefined ? null : last?.fields[field], last?.id, calls]);
  }

  function behind(entity: string, records: MovingRecord[], anchor: string | null, params: Params): number {
    if (anchor === null) return 0;
    const [time, id] = JSON.parse(anchor) as [string | null, string];
    if (time === null) {
      const order = tableOf(entity).map((record) => record.id);
      const at = order.indexOf(id);
      const next = records.findIndex((record) => order.indexOf(record.id) > at);
      return next === -1 ? records.length : next;
    }
    const field = timeField[entity] ?? '';
    const isNewest = params['sort'] === 'newest';
    // From the anchor's own time on: what shares it comes again rather than not at all.
    const next = records.findIndex(({ fields }) =>
      isNewest ? text(fields[field]) <= time : text(fields[field]) >= time,
    );
    const own = records.findIndex((record) => record.id === id && record.fields[field] === time);
    if (own !== -1) return own + 1;
    return next === -1 ? records.length : next;
  }

  function get(entity: string, params: Params): JsonObject | null {
    turn();
    return alive(entity).find(({ id }) => id === params['id'])?.fields ?? null;
  }

  for (let folder = 0; folder < 4; folder += 1) insert('folders', null);
  for (let doc = 0; doc < 30; doc += 1) insert('docs', null);
  for (const entity of ['files', 'visits', 'tags', 'lines', 'notes', 'marks']) {
    for (let count = 0; count < (entity === 'tags' ? 12 : 110); count += 1) {
      nowMs += 300;
      const above = parentOf[entity];
      insert(entity, above === undefined ? null : (pick(alive(above))?.id ?? null));
    }
  }

  const source: Source = {
    connect: () => Promise.resolve(),
    list: ({ entity, params }) => Promise.resolve().then(() => list(entity, params)),
    get: ({ entity, params }) => Promise.resolve().then(() => get(entity, params)),
    stats: () => ({
      calls,
      retries: 0,
      waitedMs: 0,
      bytes: 0,
      serverTime: instant(nowMs),
    }),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
  return {
    source,
    clock: {
      now: () => nowMs,
      sleep: () => Promise.resolve(),
      advance: (ms: number) => {
        nowMs += ms;
      },
    },
    /** Nothing moves from now on, or again. */
    setMoving: (moving: boolean) => {
      isMoving = moving;
    },
    calls: () => calls,
    /** Everything that ever was, by entity; the newest of an id last. */
    records: (entity: string): readonly MovingRecord[] => tableOf(entity),
  };
}

function notThere(entity: string): SyncError {
  return new SyncError(`${entity}: the parent is not there`, {
    code: 'NOT_FOUND',
    recovery: 'skip-partition',
  });
}
