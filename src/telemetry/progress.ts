import type { RunEvent } from '../core/events.ts';
import type { ConnectorName, EntityName, RunId } from '../core/names.ts';

/** What a person watching a run wants to know; made from events alone, never from the engine's insides. */
export interface Progress {
  readonly connector: ConnectorName;
  readonly run: RunId | null;
  readonly continues: RunId | null;
  /** Milliseconds since the epoch. */
  readonly startedAtMs: number;
  /** Walks known so far: due at the start and found on the way. Grows while parents are read. */
  readonly walksKnown: number;
  readonly walksEnded: number;
  readonly entities: ReadonlyMap<EntityName, EntityProgress>;
  readonly pages: number;
  readonly retries: number;
  /** The sum of all waits that were announced, and when the latest one ends. */
  readonly waitedMs: number;
  readonly waitingUntilMs: number;
  /** Walks are over: what they did not meet is looked at. */
  readonly isSweeping: boolean;
  /** Rows asked for because they seem to be gone, and rows marked as deleted. */
  readonly confirmed: number;
  readonly deleted: number;
  /** Null until files are fetched. */
  readonly files: FileProgress | null;
  /** When the last pages arrived, for the rate: at most `rateWindowMs` old. */
  readonly arrivals: readonly number[];
}

export interface EntityProgress {
  readonly rows: number;
  /** Inserted and updated. */
  readonly written: number;
  readonly pages: number;
  readonly open: number;
  readonly sealed: number;
  readonly setAside: number;
  readonly waitedMs: number;
  /** Rows the sink held before the run: what to expect, roughly. Null when it is not known. */
  readonly expectedRows: number | null;
}

export interface FileProgress {
  /** Wanted when the fetching began. */
  readonly wanted: number;
  readonly stored: number;
  readonly bytes: number;
  readonly failed: number;
}

export const rateWindowMs = 10_000;

export function startProgress(
  connector: ConnectorName,
  nowMs: number,
  expectedRows: ReadonlyMap<EntityName, number> = new Map(),
): Progress {
  const entities = new Map(
    Array.from(expectedRows, ([entity, rows]) => [entity, { ...noProgress, expectedRows: rows }] as const),
  );
  return {
    connector,
    run: null,
    continues: null,
    startedAtMs: nowMs,
    walksKnown: 0,
    walksEnded: 0,
    entities,
    pages: 0,
    retries: 0,
    waitedMs: 0,
    waitingUntilMs: 0,
    isSweeping: false,
    confirmed: 0,
    deleted: 0,
    files: null,
    arrivals: [],
  };
}

/** The progress after one more event. Pure: the given one stays as it is. */
export function advanceProgress(progress: Progress, event: RunEvent, nowMs: number): Progress {
  switch (event.kind) {
    case 'run-started':
      return { ...progress, run: event.run, continues: event.continues, walksKnown: event.due };
    case 'walk-started':
      return withEntity(progress, event.entity, (entity) => ({ open: entity.open + 1 }));
    case 'page-fetched':
      return { ...progress, arrivals: [...recent(progress.arrivals, nowMs), nowMs] };
    case 'page-committed':
      return withEntity(
        { ...progress, pages: progress.pages + 1, walksKnown: progress.walksKnown + event.newlyDue },
        event.entity,
        (entity) => ({
          rows: entity.rows + event.counts.fetched,
          written: entity.written + event.counts.inserted + event.counts.updated,
          pages: entity.pages + 1,
        }),
      );
    case 'walk-sealed':
      return withEntity(walkEnded(progress), event.entity, (entity) => ({
        open: Math.max(0, entity.open - 1),
        sealed: entity.sealed + 1,
      }));
    case 'walk-set-aside':
      return withEntity(walkEnded(progress), event.entity, (entity) => ({
        open: Math.max(0, entity.open - 1),
        setAside: entity.setAside + 1,
      }));
    case 'call-retried':
      return withEntity(
        { ...waiting(progress, event.waitMs, nowMs), retries: progress.retries + 1 },
        event.entity,
        (entity) => ({
          waitedMs: entity.waitedMs + event.waitMs,
        }),
      );
    case 'throttled':
      return waiting(progress, event.waitMs, nowMs);
    case 'sweep-started':
      return { ...progress, isSweeping: true };
    case 'record-confirmed':
      return { ...progress, confirmed: progress.confirmed + 1 };
    case 'rows-deleted':
      return { ...progress, deleted: progress.deleted + event.rows };
    case 'files-started':
      return { ...progress, files: { ...noFiles, wanted: event.files } };
    case 'file-stored':
      return withFiles(progress, (files) => ({ stored: files.stored + 1, bytes: files.bytes + event.bytes }));
    case 'file-set-aside':
      return withFiles(progress, (files) => ({ failed: files.failed + 1 }));
    case 'deletes-withheld':
    case 'page-requested':
    case 'call-ended':
    case 'page-dropped':
    case 'commit-started':
    case 'commit-finished':
    case 'walk-restarted':
    case 'run-finished':
      return progress;
  }
}

/** Pages per second over the last ten seconds (or since the start, when that is less). */
export function pagesPerSecond(progress: Progress, nowMs: number): number {
  const seconds = Math.min(rateWindowMs, Math.max(nowMs - progress.startedAtMs, 1000)) / 1000;
  return recent(progress.arrivals, nowMs).length / seconds;
}

const noProgress: EntityProgress = {
  rows: 0,
  written: 0,
  pages: 0,
  open: 0,
  sealed: 0,
  setAside: 0,
  waitedMs: 0,
  expectedRows: null,
};

const noFiles: FileProgress = { wanted: 0, stored: 0, bytes: 0, failed: 0 };

function recent(arrivals: readonly number[], nowMs: number): readonly number[] {
  const first = arrivals.findIndex((at) => at > nowMs - rateWindowMs);
  return first === -1 ? [] : arrivals.slice(first);
}

function walkEnded(progress: Progress): Progress {
  return { ...progress, walksEnded: progress.walksEnded + 1 };
}

function waiting(progress: Progress, waitMs: number, nowMs: number): Progress {
  return {
    ...progress,
    waitedMs: progress.waitedMs + waitMs,
    waitingUntilMs: Math.max(progress.waitingUntilMs, nowMs + waitMs),
  };
}

function withFiles(progress: Progress, change: (files: FileProgress) => Partial<FileProgress>): Progress {
  const files = progress.files ?? noFiles;
  return { ...progress, files: { ...files, ...change(files) } };
}

function withEntity(
  progress: Progress,
  name: EntityName,
  change: (entity: EntityProgress) => Partial<EntityProgress>,
): Progress {
  const entity = progress.entities.get(name) ?? noProgress;
  const entities = new Map(progress.entities);
  entities.set(name, { ...entity, ...change(entity) });
  return { ...progress, entities };
}
