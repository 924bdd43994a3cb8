import type { Clock } from '../core/clock.ts';
import type { ErrorCode } from '../core/errors.ts';
import { handledBy, type RunEvent } from '../core/events.ts';
import type { ConnectorName, EntityName, RunId } from '../core/names.ts';
import { count } from './format.ts';

/** What to expect of an entity, roughly. Null where it is not known. */
export interface Expected {
  /** Rows that the sink held before the run. */
  readonly rows: number | null;
  readonly pages: number | null;
}

/** How many records of an entity a run will have read at its end. */
export interface ExpectedRecords {
  readonly records: number;
  /** False: the service has counted all of them. */
  readonly isEstimate: boolean;
}

/** A failed attempt that another one follows. */
type Retry = Pick<
  Extract<RunEvent, { readonly kind: 'call-retried' }>,
  'code' | 'message' | 'attempt' | 'attempts'
> & { readonly nextAtMs: number };

/** A listing that is being read. */
interface Listing {
  readonly entity: EntityName;
  rows: number;
  /** Records that this run reads, as the service says; null: it does not. */
  total: number | null;
}

/** Shorter waits are no news. */
const leastPacedMs = 200;

/** The run at one moment: terminals, lines for pipes and pages show this and nothing else. */
export type ProgressSnapshot = ReturnType<ReturnType<typeof openProgress>['snapshot']>;
export type EntitySnapshot = ProgressSnapshot['entities'][number];

/** Follows a run by its events alone, never by the engine's insides. */
export function openProgress(connector: ConnectorName, clock: Clock) {
  const startedAtMs = clock.now();
  const rate = openRate(startedAtMs);
  const entities = new Map<EntityName, EntityState>();
  const listings = new Map<string, Listing>();
  let run = {
    /** Null until the API has been reached and the run has begun. */
    id: null as RunId | null,
    continues: null as RunId | null,
    /** Walks known so far: due at the start and found on the way. Grows while parents are read. */
    walksKnown: 0,
    walksEnded: 0,
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
    /** `wanted` when the fetching began; null: it has not. */
    files: { wanted: null as number | null, stored: 0, bytes: 0, failed: 0 },
  };

  const entityOf = (name: EntityName): EntityState => {
    const entity = entities.get(name) ?? newEntity(startedAtMs);
    entities.set(name, entity);
    return entity;
  };

  const onEvent = handledBy({
    'run-started': ({ run: id, continues, due, earlier = [] }) => {
      run = { ...run, id, continues, retry: null, walksKnown: due };
      for (const { entity, records, listings: known, parent } of earlier) {
        const read = known?.read ?? 0;
        run.walksKnown += read;
        run.walksEnded += read;
        const before = entityOf(entity);
        entities.set(entity, {
          ...before,
          rows: records,
          earlierRows: records,
          endedRows: records,
          begun: read,
          parent,
          found: known && read + known.due,
          stated: null,
          // How many pages those runs took is not known.
          expected: { ...before.expected, pages: null },
        });
      }
    },
    'walk-started': (event) => {
      listings.set(nameOf(event), { entity: event.entity, rows: 0, total: null });
      const entity = entityOf(event.entity);
      entity.begun += 1;
      entity.isIncremental ||= event.isIncremental;
    },
    'call-ended': ({ answer, entity: name, ms, pacedMs }) => {
      if (answer !== 'ok') return;
      run.retry = null;
      if (name === null) return;
      // A pause that the service asked for is shown while it lasts.
      const isOwn = pacedMs >= leastPacedMs && clock.now() - ms - pacedMs >= run.throttledUntilMs;
      const entity = entityOf(name);
      entity.retry = null;
      entity.pacedMs = isOwn ? pacedMs : 0;
    },
    'page-fetched': ({ entity, records }) => {
      rate.add(records, clock.now());
      entityOf(entity).rate.add(records, clock.now());
    },
    'listings-found': (event) => {
      const entity = entityOf(event.entity);
      entity.found = sumOf(entity.found, event.listings);
      entity.stated = sumOf(entity.stated, event.records);
      entity.parent = event.parent;
    },
    'listing-counted': (event) => {
      const listing = listings.get(nameOf(event));
      if (listing !== undefined) listing.total = event.records;
    },
    'page-committed': (event) => {
      const read = event.counts.fetched - event.counts.duplicate;
      run.walksKnown += event.newlyDue;
      const listing = listings.get(nameOf(event));
      if (listing !== undefined) listing.rows += read;
      const entity = entityOf(event.entity);
      entity.rows += read;
      entity.pages += 1;
    },
    'walk-sealed': (event) => walkEnded(event),
    'walk-set-aside': (event) => {
      walkEnded(event);
      entityOf(event.entity).setAside += 1;
    },
    'call-retried': (event) => {
      // As the run's report counts them: of calls for records.
      if (event.entity !== null) run.retries += 1;
      // `throttled` reports rate limits, and an immediate retry is no wait.
      if (event.code === 'THROTTLED' || event.waitMs === 0) return;
      run.retry = { ...event, nextAtMs: clock.now() + event.waitMs };
      if (event.entity !== null) entityOf(event.entity).retry = run.retry;
    },
    throttled: ({ waitMs }) => {
      run.throttledUntilMs = Math.max(run.throttledUntilMs, clock.now() + waitMs);
    },
    'sink-away': ({ message, leftMs }) => {
      run.sinkAway = { message, untilMs: clock.now() + leftMs };
    },
    'sink-back': () => void (run.sinkAway = null),
    'sweep-started': () => void (run.isSweeping = true),
    'record-confirmed': () => void (run.confirmed += 1),
    'rows-deleted': ({ rows }) => void (run.deleted += rows),
    'files-started': ({ files: wanted }) => {
      run.files = { ...run.files, wanted };
    },
    'file-stored': ({ bytes }) => {
      run.files.stored += 1;
      run.files.bytes += bytes;
    },
    'file-set-aside': () => void (run.files.failed += 1),
  });

  const walkEnded = (listing: ListingOf): void => {
    run.walksEnded += 1;
    entityOf(listing.entity).endedRows += listings.get(nameOf(listing))?.rows ?? 0;
    listings.delete(nameOf(listing));
  };
  const openOf = (name: EntityName): readonly Listing[] =>
    [...listings.values()].filter(({ entity }) => entity === name);

  /** Whether more listings of it may be found, or wait that an earlier run has found. */
  const mayGrow = ({ parent, begun, found }: EntityState): boolean => {
    const above = parent === null ? undefined : entities.get(parent);
    if (above !== undefined && waitingOf(above) > 0) return true;
    if (parent !== null && openOf(parent).length > 0) return true;
    const known = [...entities.values()].reduce(
      (sum, one) => sum + waitingOf(one),
      run.walksEnded + listings.size,
    );
    return begun > (found ?? 0) && run.walksKnown > known;
  };

  const entityWait = (retry: Retry | null, nowMs: number): string | null => {
    if (retry !== null && retry.nextAtMs > nowMs) {
      const { code, attempt, attempts } = retry;
      return `waits ${secondsTo(retry.nextAtMs, nowMs)}: ${failureTexts[code] ?? 'failed call'}, attempt ${attempt} of ${attempts}`;
    }
    return run.throttledUntilMs > nowMs
      ? `waits ${secondsTo(run.throttledUntilMs, nowMs)}: rate limit`
      : null;
  };

  const runWait = (nowMs: number): string | null => {
    const { id, sinkAway, retry, throttledUntilMs } = run;
    if (sinkAway !== null) return sinkAwayText(sinkAway.message, sinkAway.untilMs - nowMs);
    if (retry !== null) return retryText(retry, retry.nextAtMs - nowMs);
    const throttled = secondsTo(throttledUntilMs, nowMs);
    if (throttledUntilMs > nowMs) return `rate-limit wait, next call in ${throttled}`;
    return id === null ? 'connecting' : null;
  };

  const entitySnapshot = (name: EntityName, entity: EntityState, nowMs: number) => {
    const open = openOf(name);
    const { rows, earlierRows, pages, setAside, isIncremental, begun, retry, pacedMs } = entity;
    const expected = expectedOf(entity, open, mayGrow(entity));
    return {
      entity: name,
      /** Records that were read, by the runs that this one resumes too; one that came twice counts once. */
      rows,
      /** Records that the runs before have read. */
      earlierRows,
      pages,
      setAside,
      /** At least one listing of it is asked only for what changed. */
      isIncremental,
      hasBegun: begun + pages + earlierRows > 0,
      open: open.length,
      waiting: waitingOf(entity),
      expected,
      recordsPerSecond: entity.rate.perSecond(nowMs).records,
      /** What its calls wait for; null while they go through. */
      wait: open.length === 0 ? null : entityWait(retry, nowMs),
      /** How long its newest call waited for its turn by the rate that the config allows; 0: no time worth naming. */
      pacedMs: open.length === 0 ? 0 : pacedMs,
      pagesLeft: pagesLeft(entity, expected, open.length),
    };
  };

  return {
    onEvent,
    /** What is to be expected of the run. Called before it begins. */
    expect: (expected: ReadonlyMap<EntityName, Expected>): void => {
      for (const [name, one] of expected) entityOf(name).expected = one;
    },
    snapshot: () => {
      const nowMs = clock.now();
      const ofEntities = Array.from(entities, ([name, entity]) => entitySnapshot(name, entity, nowMs));
      const { pages: pagesPerSecond, records: recordsPerSecond } = rate.perSecond(nowMs);
      const left = ofEntities.map((one) => one.pagesLeft);
      const pages = left.reduce<number>((sum, one) => sum + (one ?? 0), 0);
      const isTooEarly = run.id === null || nowMs - startedAtMs < rateWindowMs;
      const isUnknown = isTooEarly || run.isSweeping || run.throttledUntilMs > nowMs;
      return {
        ...run,
        connector,
        elapsedMs: nowMs - startedAtMs,
        entities: ofEntities,
        pagesPerSecond,
        recordsPerSecond,
        /**
         * How long the listings still take at the present rate; at least: an entity has begun that has no estimate.
         * Null where that is not known: at the start, and while nothing comes.
         */
        left:
          isUnknown || pages === 0 || pagesPerSecond === 0
            ? null
            : { ms: (pages / pagesPerSecond) * 1000, isAtLeast: left.includes(null) },
        /** What the whole waits for; null while calls go through. */
        wait: runWait(nowMs),
      };
    },
  };
}

function newEntity(startedAtMs: number) {
  return {
    rows: 0,
    earlierRows: 0,
    pages: 0,
    setAside: 0,
    isIncremental: false,
    expected: { rows: null, pages: null } as Expected,
    /** Listings that were started, and records of those that have ended or were read by earlier runs. */
    begun: 0,
    endedRows: 0,
    /** Listings found, by resumed runs too, and about how many records parents state. Null: unknown. */
    found: 0 as number | null,
    stated: 0 as number | null,
    /** What led to them: more may come while that is read. */
    parent: null as EntityName | null,
    /** The newest failed attempt of it that another one follows; null once it was answered again. */
    retry: null as Retry | null,
    pacedMs: 0,
    rate: openRate(startedAtMs),
  };
}

type EntityState = ReturnType<typeof newEntity>;

const rateWindowMs = 10_000;

/** Counts what arrives, over the last ten seconds (or since the start, when that is less). */
function openRate(startedAtMs: number) {
  const arrivals: { readonly atMs: number; readonly records: number }[] = [];
  const dropOld = (nowMs: number): void => {
    while ((arrivals[0]?.atMs ?? nowMs) < nowMs - rateWindowMs) arrivals.shift();
  };
  return {
    add: (records: number, atMs: number): void => {
      dropOld(atMs);
      arrivals.push({ atMs, records });
    },
    perSecond: (nowMs: number) => {
      dropOld(nowMs);
      const seconds = Math.min(rateWindowMs, Math.max(nowMs - startedAtMs, 1000)) / 1000;
      const records = arrivals.reduce((sum, one) => sum + one.records, 0);
      return { pages: arrivals.length / seconds, records: records / seconds };
    },
  };
}

/**
 * By what the service says of the listings that are read, and of others by what their parents state, or else by what
 * those read so far had; by the sink where all is read again. Null where none of these is known. It is shown to people,
 * and nothing else depends on it.
 */
function expectedOf(entity: EntityState, open: readonly Listing[], mayGrow: boolean): ExpectedRecords | null {
  const { found, begun, endedRows, rows, earlierRows, stated, isIncremental, expected } = entity;
  if (found !== null && found + begun > 0) {
    const ended = begun - open.length;
    const meanOfEnded = ended > 0 ? endedRows / ended : null;
    const mean = stated !== null && found > 0 ? stated / found : meanOfEnded;
    const waiting = waitingOf(entity);
    const isCounted = open.every(({ total }) => total !== null);
    if (mean !== null || (isCounted && waiting === 0)) {
      const ofOpen = open.map(({ total, rows: read }) => Math.max(read, total ?? mean ?? 0));
      const records = ofOpen.reduce((sum, one) => sum + one, endedRows + waiting * (mean ?? 0));
      return { records: Math.round(records), isEstimate: waiting > 0 || !isCounted || mayGrow };
    }
  }
  const all = isIncremental ? null : expected.rows;
  // After a resume the sink may hold no more than the runs before have read.
  return all === null || all < rows || all <= earlierRows ? null : { records: all, isEstimate: true };
}

function pagesLeft(entity: EntityState, total: ExpectedRecords | null, open: number): number | null {
  const { expected, rows, earlierRows, pages } = entity;
  const waiting = waitingOf(entity);
  if (total !== null && pages > 0) {
    const perPage = (rows - earlierRows) / pages;
    return Math.max(waiting, perPage === 0 ? 0 : Math.max(0, total.records - rows) / perPage);
  }
  if (expected.pages !== null) return Math.max(0, expected.pages - pages);
  // One that has not begun may stay so: nothing may lead to it.
  return pages === 0 && open === 0 && waiting === 0 ? 0 : null;
}

/** Listings that were found and not begun. */
function waitingOf({ found, begun }: EntityState): number {
  return Math.max(0, (found ?? 0) - begun);
}

type ListingOf = Pick<Extract<RunEvent, { readonly kind: 'walk-started' }>, 'entity' | 'params'>;

function nameOf({ entity, params }: ListingOf): string {
  return `${entity} ${JSON.stringify(params)}`;
}

function secondsTo(ms: number, nowMs: number): string {
  return `${Math.ceil((ms - nowMs) / 1000)} s`;
}

/** Null as soon as one of the parts is not known. */
function sumOf(left: number | null, right: number | null): number | null {
  return left === null || right === null ? null : left + right;
}

/** Fewer are read too quickly for an estimate to matter. */
const leastExpected = 100;

/** `12,000`, or `~12,000` for an estimate; null where it says no more than the number that was read. */
export function expectedText(all: ExpectedRecords | null, read: number): string | null {
  if (all === null || all.records <= read || all.records < leastExpected) return null;
  return `${all.isEstimate ? '~' : ''}${count(all.records)}`;
}

/** Nothing where calls need not wait: `rateLimit` is what a person may change. */
export function pacedText({ pacedMs }: { readonly pacedMs: number }): readonly string[] {
  return pacedMs === 0 ? [] : [`calls wait ${(pacedMs / 1000).toFixed(1)} s: rateLimit`];
}

/** Instead of the other side's message, which may be long. */
const failureTexts: Partial<Record<ErrorCode, string>> = {
  UPSTREAM: 'answered with an error',
  BODY_INVALID: 'unusable answer',
};

/** `check the credentials: cannot reach us10.api.mailchimp.com: connection refused, attempt 3 of 6, next in 8 s`. */
export function retryText(
  { code, message, attempt, attempts }: Omit<Retry, 'nextAtMs'>,
  waitMs: number,
): string {
  const next = waitMs > 0 ? `next in ${Math.ceil(waitMs / 1000)} s` : 'next one now';
  return `${failureTexts[code] ?? message}, attempt ${attempt} of ${attempts}, ${next}`;
}

/** `PostgreSQL at db:5432/sync is read-only (...), trying for another 43 s`. */
export function sinkAwayText(message: string, leftMs: number): string {
  return `${message}, ${leftMs > 0 ? `trying for another ${Math.ceil(leftMs / 1000)} s` : 'last try now'}`;
}
