import type { ReadEarlier, RunEvent } from '../core/events.ts';
import type { ConnectorName, EntityName, RunId } from '../core/names.ts';
import { type Arrivals, withArrival } from './rates.ts';

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
  /** Records that were read, by the runs that this one resumes too; one that came twice counts once. */
  rows: 0,
  /** Of those: by those runs. */
  earlierRows: 0,
  pages: 0,
  open: 0,
  sealed: 0,
  setAside: 0,
  /** At least one listing of it is asked only for what changed: the rows in the sink say nothing of what will come. */
  isIncremental: false,
  expected: notKnown,
  /** Listings that were started, and records of those that have ended or were read by earlier runs. */
  begun: 0,
  endedRows: 0,
  /** Listings found, by the runs that this one resumes too, and about how many records parents state. Null: unknown. */
  found: 0 as number | null,
  stated: 0 as number | null,
  /** What led to them: more may come while that is read. */
  parent: null as EntityName | null,
  /** The newest failed attempt of it that another one follows; null once it was answered again. */
  retry: null as Retry | null,
  /** How long its newest call waited for its turn by the rate that the config allows; 0: no time worth naming. */
  pacedMs: 0,
  arrivals: [] as readonly Arrivals[],
};
export type EntityProgress = Readonly<typeof noProgress>;

interface ListingProgress {
  readonly entity: EntityName;
  readonly rows: number;
  /** That this run reads, as the service says; null: it does not. */
  readonly total: number | null;
}

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
    /** Those that are being read, by entity and parameters. */
    listings: new Map() as ReadonlyMap<string, ListingProgress>,
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
    /** What arrived in each of the last seconds, for the rates: of ten seconds at most. */
    arrivals: [] as readonly Arrivals[],
  };
}

/** The progress after one more event. Pure: the given one stays as it is. */
export function advanceProgress(progress: Progress, event: RunEvent, nowMs: number): Progress {
  switch (event.kind) {
    case 'run-started': {
      const { run, continues, due, earlier = [] } = event;
      const begun = { ...progress, run, continues, walksKnown: due, retry: null };
      return earlier.reduce(withEarlier, begun);
    }
    case 'walk-started':
      return withEntity(
        withListing(progress, event, () => ({ entity: event.entity, rows: 0, total: null })),
        event.entity,
        ({ open, begun, isIncremental }) => ({
          open: open + 1,
          begun: begun + 1,
          isIncremental: isIncremental || event.isIncremental,
        }),
      );
    case 'call-ended':
      return event.answer === 'ok' ? answered(progress, event, nowMs) : progress;
    case 'page-fetched':
      return withEntity(
        { ...progress, arrivals: withArrival(progress.arrivals, event.records, nowMs) },
        event.entity,
        ({ arrivals }) => ({ arrivals: withArrival(arrivals, event.records, nowMs) }),
      );
    case 'listings-found':
      return withEntity(progress, event.entity, ({ found, stated }) => ({
        found: sumOf(found, event.listings),
        stated: sumOf(stated, event.records),
        parent: event.parent,
      }));
    case 'listing-counted':
      return withListing(progress, event, (listing) => ({ ...listing, total: event.records }));
    case 'page-committed': {
      const read = event.counts.fetched - event.counts.duplicate;
      return withEntity(
        withListing(
          { ...progress, walksKnown: progress.walksKnown + event.newlyDue },
          event,
          (listing) => listing && { ...listing, rows: listing.rows + read },
        ),
        event.entity,
        (entity) => ({ rows: entity.rows + read, pages: entity.pages + 1 }),
      );
    }
    case 'walk-sealed':
      return walkEnded(progress, event, 'sealed');
    case 'walk-set-aside':
      return walkEnded(progress, event, 'setAside');
    case 'call-retried': {
      // As the run's report counts them: of calls for records.
      const retries = progress.retries + (event.entity === null ? 0 : 1);
      // `throttled` reports rate limits, and an immediate retry is no wait.
      if (event.code === 'THROTTLED' || event.waitMs === 0) return { ...progress, retries };
      const { entity, code, message, attempt, attempts, waitMs } = event;
      const retry = { code, message, attempt, attempts, nextAtMs: nowMs + waitMs };
      const waiting = { ...progress, retries, retry };
      return entity === null ? waiting : withEntity(waiting, entity, () => ({ retry }));
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
    case 'retention-withheld':
    case 'part-missing':
    case 'rate-stated':
    case 'sink-made':
    case 'page-requested':
    case 'page-dropped':
    case 'commit-started':
    case 'commit-finished':
    case 'walk-restarted':
    case 'run-finished':
      return progress;
  }
}

/** What is known of an entity from the runs before; how many pages those took is not. */
function withEarlier(progress: Progress, { entity, records, listings, parent }: ReadEarlier): Progress {
  const { walksKnown, walksEnded } = progress;
  const read = listings?.read ?? 0;
  const known = { ...progress, walksKnown: walksKnown + read, walksEnded: walksEnded + read };
  return withEntity(known, entity, ({ expected }) => ({
    rows: records,
    earlierRows: records,
    endedRows: records,
    begun: read,
    found: listings && read + listings.due,
    parent,
    stated: null,
    expected: { ...expected, pages: null },
  }));
}

/** Null as soon as one of the parts is not known. */
function sumOf(left: number | null, right: number | null): number | null {
  return left === null || right === null ? null : left + right;
}

/** Shorter waits are no news. */
const leastPacedMs = 200;

function answered(
  progress: Progress,
  { entity: name, ms, pacedMs }: Extract<RunEvent, { readonly kind: 'call-ended' }>,
  nowMs: number,
): Progress {
  const now = progress.retry === null ? progress : { ...progress, retry: null };
  const entity = name === null ? undefined : now.entities.get(name);
  if (name === null || entity === undefined) return now;
  // A pause that the service asked for is shown while it lasts.
  const isOwn = pacedMs >= leastPacedMs && nowMs - ms - pacedMs >= progress.throttledUntilMs;
  const change = { retry: null, pacedMs: isOwn ? pacedMs : 0 };
  const isSame = entity.retry === null && entity.pacedMs === change.pacedMs;
  return isSame ? now : withEntity(now, name, () => change);
}

type Listing = Pick<Extract<RunEvent, { readonly kind: 'walk-started' }>, 'entity' | 'params'>;

function walkEnded(progress: Progress, listing: Listing, end: 'sealed' | 'setAside'): Progress {
  const rows = progress.listings.get(nameOf(listing))?.rows ?? 0;
  const ended = withListing({ ...progress, walksEnded: progress.walksEnded + 1 }, listing, () => undefined);
  return withEntity(ended, listing.entity, (entity) => ({
    open: Math.max(0, entity.open - 1),
    endedRows: entity.endedRows + rows,
    [end]: entity[end] + 1,
  }));
}

function nameOf({ entity, params }: Listing): string {
  return `${entity} ${JSON.stringify(params)}`;
}

/** `undefined`: it is not read, or no more. */
function withListing(
  progress: Progress,
  listing: Listing,
  change: (before: ListingProgress | undefined) => Partial<ListingProgress> | undefined,
): Progress {
  const listings = new Map(progress.listings);
  const name = nameOf(listing);
  const before = listings.get(name);
  const after = change(before);
  if (after === undefined) listings.delete(name);
  else listings.set(name, { entity: listing.entity, rows: 0, total: null, ...before, ...after });
  return { ...progress, listings };
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
