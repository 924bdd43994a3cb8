import { instant } from '../../../src/core/clock.ts';
import type { JsonObject } from '../../../src/core/json.ts';
import type { Params } from '../../../src/core/records.ts';
import { type SourcePage, readRecords } from '../../../src/source/source.ts';

/** A row as the service has it. `changedMs` null: it was never given a time. */
interface SimulatedRow {
  readonly id: string;
  version: number;
  changedMs: number | null;
  readonly createdMs: number;
  /** Moments at which something happened to it: only of entities that explode them. */
  readonly events: { readonly atMs: number; readonly id: string }[];
}

export interface ServiceRules {
  /** Times are rounded down to so many milliseconds. */
  readonly roundMs: number;
  /** The clock that dates the answers is so far ahead of the one that dates the rows. */
  readonly dateAheadMs?: number;
  /** Records that a page has at most, whatever is asked for. */
  readonly cap: number;
  /** How often another cap holds from a call on: a share of all calls. */
  readonly capChanges?: number;
  /** Answers say how many records the listing has, and whether more follow. */
  readonly saysTotal?: boolean;
  readonly saysMore?: boolean;
  /** Moves between two calls, at most. */
  readonly violence: number;
  readonly moves: readonly Move[];
  /** Share of new rows that never get a time, and of those that get one far in the future. */
  readonly nullShare?: number;
  readonly futureShare?: number;
  /** Nothing lower than what was asked for comes back, but not what was asked for itself. */
  readonly isExclusive?: boolean;
  readonly ignores?: 'since' | 'sort' | 'direction';
  /** What `since` does to rows with events. */
  readonly eventFilter?: 'shortens-all' | 'only-rows-with' | 'whole-rows-with';
}

export type Move =
  'append' | 'insert' | 'delete' | 'change' | 'bulk-change' | 'late-change' | 'move' | 'event' | 'late-event';

export type SimulatedService = ReturnType<typeof simulatedService>;

/** As late as a change or an event may show after it happened. */
export const longestDelayMs = 20_000;
/** Rows that come faster than they are read have no end: after so many calls in a row nothing moves. */
const movingCalls = 40;
const farFutureMs = Date.UTC(2999, 0, 1);

/** In the order in which they came to be. */
function numberOf({ id }: Pick<SimulatedRow, 'id'>): number {
  return Number(id.slice('row-'.length));
}

/** Rows behind a listing that keeps no snapshot between calls, as violent as the rules say. */
export function simulatedService(
  random: () => number,
  rules: ServiceRules,
  options: { readonly rows: number },
) {
  const int = (below: number): number => Math.floor(random() * below);
  const rows: SimulatedRow[] = [];
  let nowMs = Date.UTC(2026, 4, 1, 10);
  let calls = 0;
  let lastId = 0;
  let isMoving = true;
  let calmFrom = movingCalls;
  let { cap } = rules;
  const dateMs = (): number => nowMs + (rules.dateAheadMs ?? 0);
  const shown = (ms: number): number => Math.floor(ms / rules.roundMs) * rules.roundMs;
  const isFree = (row: SimulatedRow): boolean => row.changedMs === null || row.changedMs < farFutureMs;

  function made(): SimulatedRow {
    lastId += 1;
    const kind = random();
    const isFuture = kind < (rules.futureShare ?? 0);
    const isNull = !isFuture && kind < (rules.futureShare ?? 0) + (rules.nullShare ?? 0);
    const changedMs = isFuture ? farFutureMs + int(5) * 60_000 : isNull ? null : nowMs;
    const events = int(3) === 0 ? [] : [{ atMs: nowMs, id: `e${lastId}` }];
    return { id: `row-${lastId}`, version: 1, changedMs, createdMs: nowMs, events };
  }

  /** A changed row stands behind all others of its time. */
  function change(row: SimulatedRow | undefined, atMs = nowMs): void {
    if (row === undefined || !isFree(row)) return;
    rows.splice(rows.indexOf(row), 1);
    row.version += 1;
    row.changedMs = Math.max(atMs, row.changedMs ?? 0);
    rows.push(row);
  }

  function move(): void {
    const kind = rules.moves[int(rules.moves.length)];
    const row = rows[int(rows.length)];
    nowMs += int(50);
    switch (kind) {
      case 'append':
        rows.push(made());
        break;
      case 'insert':
        rows.splice(int(rows.length + 1), 0, made());
        break;
      case 'delete':
        if (row !== undefined) rows.splice(rows.indexOf(row), 1);
        break;
      case 'change':
        change(row);
        break;
      case 'late-change':
        change(row, nowMs - int(longestDelayMs));
        break;
      case 'bulk-change':
        if (int(4) === 0) for (let count = int(40); count > 0; count -= 1) change(rows[int(rows.length)]);
        break;
      case 'move':
        if (row !== undefined) rows.splice(int(rows.length), 0, ...rows.splice(rows.indexOf(row), 1));
        break;
      case 'event':
      case 'late-event':
        lastId += 1;
        row?.events.push({
          atMs: kind === 'event' ? nowMs : nowMs - int(longestDelayMs),
          id: `e${lastId}`,
        });
        break;
      case undefined:
    }
  }

  function turn(): void {
    calls += 1;
    nowMs += 200 + int(1500);
    if (random() < (rules.capChanges ?? 0)) {
      // A first page of less than half the largest counts as short.
      cap = Math.ceil(rules.cap * (0.6 + 0.5 * random()));
    }
    if (isMoving && calls < calmFrom) for (let moves = int(rules.violence + 1); moves > 0; moves -= 1) move();
  }

  /** The listing as it is at this moment. */
  function listing(params: Params): SimulatedRow[] {
    const sinceMs =
      rules.ignores === 'since' || typeof params['since'] !== 'string' ? null : Date.parse(params['since']);
    const isLate = (ms: number | null): boolean =>
      sinceMs === null ||
      (ms !== null && (rules.isExclusive === true ? shown(ms) > sinceMs : shown(ms) >= sinceMs));
    const field = params['sort'] === 'created' ? 'createdMs' : 'changedMs';
    const found = rows.filter((row) =>
      rules.eventFilter === undefined
        ? isLate(row.changedMs)
        : rules.eventFilter === 'shortens-all' ||
          sinceMs === null ||
          row.events.some(({ atMs }) => isLate(atMs)),
    );
    if (params['sort'] === undefined || rules.ignores === 'sort') return found;
    if (params['sort'] === 'id') return found.toSorted((left, right) => numberOf(left) - numberOf(right));
    const valueOf = (row: SimulatedRow): number => {
      const value = row[field];
      return value === null ? 0 : shown(value);
    };
    const sorted = found.toSorted((left, right) => valueOf(left) - valueOf(right));
    const isNewestFirst = params['sort'] === 'newest' && rules.ignores !== 'direction';
    return isNewestFirst ? sorted.toReversed() : sorted;
  }

  function toRecord(row: SimulatedRow, params: Params): JsonObject {
    const sinceMs =
      typeof params['since'] === 'string' && rules.ignores !== 'since' ? Date.parse(params['since']) : null;
    const isCut = sinceMs !== null && rules.eventFilter !== 'whole-rows-with';
    return {
      id: row.id,
      version: row.version,
      changed: row.changedMs === null ? '' : instant(shown(row.changedMs)),
      created: instant(shown(row.createdMs)),
      ...(rules.eventFilter === undefined
        ? {}
        : {
            events: row.events
              .filter(({ atMs }) => !isCut || shown(atMs) >= sinceMs)
              .map(({ atMs, id }) => ({ at: instant(shown(atMs)), event: id })),
          }),
    };
  }

  /** A value names the place of the last record, which may have gone. */
  function startBehind(found: readonly SimulatedRow[], params: Params): number {
    const { after, sort } = params;
    if (typeof after !== 'string') return 0;
    const isBehind = (row: SimulatedRow): boolean =>
      sort === 'id' ? numberOf(row) > numberOf({ id: after }) : shown(row.createdMs) > Date.parse(after);
    const next = found.findIndex(isBehind);
    return next === -1 ? found.length : next;
  }

  /** A token names the place of the last record: what moves before it shifts nothing. */
  function startOf(found: readonly SimulatedRow[], params: Params): number {
    if (typeof params['token'] !== 'string') return Number(params['offset'] ?? 0);
    const [id, version, value] = JSON.parse(params['token']) as [string, number, number];
    const own = found.findIndex((row) => row.id === id && row.version === version);
    if (own !== -1) return own + 1;
    const isNewestFirst = params['sort'] === 'newest';
    const next = found.findIndex((row) => {
      const at = row.changedMs === null ? 0 : shown(row.changedMs);
      return isNewestFirst ? at <= value : at >= value;
    });
    return next === -1 ? found.length : next;
  }

  function list(params: Params): SourcePage {
    turn();
    const found = listing(params);
    const length = Math.min(Number(params['count'] ?? cap), cap);
    const isNumbered = typeof params['page'] === 'number';
    const isByRecord = params['by'] === 'record';
    const start = isNumbered
      ? Number(params['page']) * length
      : isByRecord
        ? startBehind(found, params)
        : startOf(found, params);
    const page = found.slice(start, start + length);
    const last = page.at(-1);
    const hasMore = start + page.length < found.length;
    const token =
      hasMore && last !== undefined
        ? JSON.stringify([last.id, last.version, last.changedMs === null ? 0 : shown(last.changedMs), calls])
        : null;
    const nextOf = (): SourcePage['next'] => {
      const said = rules.saysMore === true ? hasMore : null;
      if (isNumbered) return { hasMore: said, token: null };
      if (!isByRecord) return 'offset' in params ? null : { hasMore, token };
      if (said === false || last === undefined) return { hasMore: said, token: null };
      return { hasMore: said, token: params['sort'] === 'id' ? last.id : instant(shown(last.createdMs)) };
    };
    return {
      records: readRecords(page.map((row) => toRecord(row, params))),
      next: nextOf(),
      ...(rules.saysTotal === true ? { total: found.length } : {}),
      serverTime: instant(Math.floor(dateMs() / 1000) * 1000),
      bytes: page.length * 100,
    };
  }

  for (let count = 0; count < options.rows; count += 1) {
    nowMs += int(3) === 0 ? 0 : int(2500);
    rows.push(made());
  }
  nowMs += 3_600_000;

  return {
    rows,
    /** Calls so far. */
    calls: () => calls,
    nowMs: () => nowMs,
    /** What a `Date` would say now. */
    dateMs,
    advance: (ms: number) => {
      nowMs += ms;
    },
    setMoving: (moving: boolean) => {
      isMoving = moving;
      calmFrom = calls + movingCalls;
    },
    /** Changes rows, many of them within one second. */
    burst: (changes: number) => {
      for (let count = changes; count > 0; count -= 1) {
        nowMs += int(3) === 0 ? int(400) : 0;
        if (rules.eventFilter === undefined) change(rows[int(rows.length)]);
        else rows[int(rows.length)]?.events.push({ atMs: nowMs, id: `b${(lastId += 1)}` });
      }
    },
    list,
    /** A time as the service shows it. */
    shown,
  };
}
