import type { RunEvent } from '../core/events.ts';
import type { ConnectorName, EntityName, RunId } from '../core/names.ts';

/** What a person watching a run wants to know; made from events alone, never from the engine's insides. */
export type Progress = Readonly<ReturnType<typeof startProgress>>;

type CallRetried = Extract<RunEvent, { readonly kind: 'call-retried' }>;

export interface Retry extends Pick<CallRetried, 'code' | 'message' | 'attempt' | 'attempts'> {
  readonly nextAtMs: number;
}

/** What to expect of an entity, roughly. Null where it is not known. */
export interface Expected {
  /** That the sink held before the run. */
  readonly rows: number | null;
  readonly pages: number | null;
}

const notKnown: Expected = { rows: null, pages: null };

const noProgress = {
  rows: 0,
  pages: 0,
  open: 0,
  sealed: 0,
  setAside: 0,
  /** At least one listing of it is asked only for what changed: the rows in the sink say nothing of what will come. */
  isIncremental: false,
  expected: notKnown,
};
export type EntityProgress = Readonly<typeof noProgress>;

/** `wanted` when the fetching began. */
const noFiles = { wanted: 0, stored: 0, bytes: 0, failed: 0 };
export type FileProgress = Readonly<typeof noFiles>;

export function startProgress(
  connector: ConnectorName,
  nowMs: number,
  expected: ReadonlyMap<EntityName, Expected> = new Map(),
) {
  const entities: ReadonlyMap<EntityName, EntityProgress> = new Map(
    Array.from(expected, ([name, one]) => [name, { ...noProgress, expected: one }]),
  );
  return {
    connector,
    /** Null until the API has been reached and the run has begun. */
    run: null as RunId | null,
    continues: null as RunId | null,
    /** Milliseconds since the epoch. */
    startedAtMs: nowMs,
    /** Walks known so far: due at the start and found on the way. Grows while parents are read. */
    walksKnown: 0,
    walksEnded: 0,
    entities,
    retries: 0,
    /** The newest failed attempt that another one follows; null once the API has answered again. */
    retry: null as Retry | null,
    /** Until then the service's rate limit lets no call start. */
    throttledUntilMs: 0,
    /** Null while the sink's server can be written to. */
    sinkAway: null as { readonly message: string; readonly untilMs: number } | null,
    /** Walks have ended; the run is looking for deletes. */
    isSweeping: false,
    /** Rows asked for because they seem to be deleted, and rows marked as deleted. */
    confirmed: 0,
    deleted: 0,
    /** Null until files are fetched. */
    files: null as FileProgress | null,
    /** What arrived in each of the last seconds, for the rates: at most `rateWindowMs` old. */
    arrivals: [] as readonly Arrivals[],
  };
}

/** The progress after one more event. Pure: the given one stays as it is. */
export function advanceProgress(progress: Progress, event: RunEvent, nowMs: number): Progress {
  switch (event.kind) {
    case 'run-started': {
      const { run, continues, due } = event;
      return { ...progress, run, continues, walksKnown: due, retry: null };
    }
    case 'walk-started':
      return withEntity(progress, event.entity, (entity) => ({
        open: entity.open + 1,
        isIncremental: entity.isIncremental || event.isIncremental,
      }));
    case 'call-ended':
      return event.answer === 'ok' && progress.retry !== null ? { ...progress, retry: null } : progress;
    case 'page-fetched':
      return { ...progress, arrivals: withArrival(progress.arrivals, event.records, nowMs) };
    case 'page-committed':
      return withEntity(
        { ...progress, walksKnown: progress.walksKnown + event.newlyDue },
        event.entity,
        (entity) => ({
          rows: entity.rows + event.counts.fetched,
          pages: entity.pages + 1,
        }),
      );
    case 'walk-sealed':
      return walkEnded(progress, event.entity, 'sealed');
    case 'walk-set-aside':
      return walkEnded(progress, event.entity, 'setAside');
    case 'call-retried': {
      // As the run's report counts them: of calls for records.
      const retries = progress.retries + (event.entity === null ? 0 : 1);
      // `throttled` reports rate limits, and an immediate retry is no wait.
      if (event.code === 'THROTTLED' || event.waitMs === 0) return { ...progress, retries };
      const { code, message, attempt, attempts, waitMs } = event;
      const retry = { code, message, attempt, attempts, nextAtMs: nowMs + waitMs };
      return { ...progress, retries, retry };
    }
    case 'throttled': {
      const throttledUntilMs = Math.max(progress.throttledUntilMs, nowMs + event.waitMs);
      return { ...progress, throttledUntilMs };
    }
    case 'sink-away':
      return { ...progress, sinkAway: { message: event.message, untilMs: nowMs + event.leftMs } };
    case 'sink-back':
      return { ...progress, sinkAway: null };
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
    case 'listings-unproven':
    case 'page-requested':
    case 'page-dropped':
    case 'commit-started':
    case 'commit-finished':
    case 'walk-restarted':
    case 'run-finished':
      return progress;
  }
}

/**
 * How long the listings still take at the present rate. Null where that is not known: for a resumed run, once an entity
 * has begun that has no estimate, and while nothing comes.
 */
export function remainingMs(progress: Progress, nowMs: number): number | null {
  const { entities, continues, run, isSweeping, startedAtMs, throttledUntilMs } = progress;
  const isTooEarly = run === null || nowMs - startedAtMs < rateWindowMs;
  if (isTooEarly || continues !== null || isSweeping || throttledUntilMs > nowMs) return null;
  let pages = 0;
  for (const entity of entities.values()) {
    // One that has not begun may stay so: nothing may lead to it.
    if (entity.expected.pages === null && entity.pages > 0) return null;
    pages += Math.max(0, (entity.expected.pages ?? 0) - entity.pages);
  }
  const perSecond = rates(progress, nowMs).pages;
  return pages === 0 || perSecond === 0 ? null : (pages / perSecond) * 1000;
}

function walkEnded(progress: Progress, name: EntityName, end: 'sealed' | 'setAside'): Progress {
  return withEntity({ ...progress, walksEnded: progress.walksEnded + 1 }, name, (entity) => ({
    open: Math.max(0, entity.open - 1),
    [end]: entity[end] + 1,
  }));
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

/** What came in one second. */
interface Arrivals {
  /** Since the epoch. */
  readonly second: number;
  readonly pages: number;
  readonly records: number;
}

const rateWindowMs = 10_000;

/** The arrivals of the last ten seconds, with one more page. */
function withArrival(arrivals: readonly Arrivals[], records: number, nowMs: number): readonly Arrivals[] {
  const second = Math.floor(nowMs / 1000);
  const last = arrivals.at(-1);
  if (last?.second !== second) return [...recent(arrivals, nowMs), { second, pages: 1, records }];
  return [...arrivals.slice(0, -1), { second, pages: last.pages + 1, records: last.records + records }];
}

/** Per second over the last ten seconds (or since the start, when that is less). */
export function rates(
  { arrivals, startedAtMs }: { readonly arrivals: readonly Arrivals[]; readonly startedAtMs: number },
  nowMs: number,
): Pick<Arrivals, 'pages' | 'records'> {
  const seconds = Math.min(rateWindowMs, Math.max(nowMs - startedAtMs, 1000)) / 1000;
  const latest = recent(arrivals, nowMs);
  return {
    pages: latest.reduce((sum, { pages }) => sum + pages, 0) / seconds,
    records: latest.reduce((sum, { records }) => sum + records, 0) / seconds,
  };
}

function recent(arrivals: readonly Arrivals[], nowMs: number): readonly Arrivals[] {
  const oldest = (nowMs - rateWindowMs) / 1000;
  return arrivals.filter(({ second }) => second >= oldest);
}
