import { type Clock, slept } from '../core/clock.ts';
import type { ErrorCode } from '../core/errors.ts';
import { handledBy, type RunEvent } from '../core/events.ts';
import { knownOrMade } from '../core/grouped.ts';
import { writeJson } from '../core/json.ts';
import type { ConnectorName, EntityName, RunId } from '../core/names.ts';
import { count, counted, duration, printable, printableWithin } from './format.ts';

/** A failed attempt that another one follows. */
type Retry = Pick<
  Extract<RunEvent, { readonly kind: 'call-retried' }>,
  'code' | 'message' | 'attempt' | 'attempts'
> & { readonly nextAtMs: number };

/** A listing that is being read. */
interface Listing {
  readonly entity: EntityName;
  rows: number;
  /** Records that this run reads of it, as the service says; null: it does not. */
  total: number | null;
}

/** The run at one moment: terminals and lines for pipes show this and nothing else. */
type ProgressSnapshot = ReturnType<ReturnType<typeof openProgress>['snapshot']>;
type EntitySnapshot = ProgressSnapshot['entities'][number];

/** Follows a run by its events alone, never by the engine's insides. */
export function openProgress(connector: ConnectorName, clock: Clock) {
  const startedAtMs = clock.now();
  const entities = new Map<EntityName, EntityState>();
  const listings = new Map<string, Listing>();
  let run = {
    /** Null until the API has been reached and the run has begun. */
    id: null as RunId | null,
    continues: null as RunId | null,
    /** Walks of this run: due at the start and found on the way. Grows while parents are read. */
    walksKnown: 0,
    walksEnded: 0,
    retries: 0,
    /** Records that have arrived, committed or not. */
    fetched: { pages: 0, records: 0 },
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

  const entityOf = (name: EntityName): EntityState => knownOrMade(entities, name, newEntity);

  const onEvent = handledBy({
    'run-started': ({ run: id, continues, due }) => {
      run = { ...run, id, continues, retry: null, walksKnown: due };
    },
    'walk-started': (event) => {
      listings.set(nameOf(event), { entity: event.entity, rows: 0, total: null });
      entityOf(event.entity).isIncremental ||= event.isIncremental;
    },
    'call-ended': ({ answer }) => {
      if (answer === 'ok') run.retry = null;
    },
    'page-fetched': ({ records }) => {
      run.fetched.pages += 1;
      run.fetched.records += records;
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

  const runWait = (nowMs: number): string | null => {
    const { id, sinkAway, retry, throttledUntilMs } = run;
    if (sinkAway !== null) {
      const leftS = Math.ceil((sinkAway.untilMs - nowMs) / 1000);
      return `${sinkAway.message}, ${leftS > 0 ? `trying for another ${leftS} s` : 'last try now'}`;
    }
    if (retry !== null) return retryText(retry, retry.nextAtMs - nowMs);
    if (throttledUntilMs > nowMs) {
      return `rate-limit wait, next call in ${Math.ceil((throttledUntilMs - nowMs) / 1000)} s`;
    }
    return id === null ? 'connecting' : null;
  };

  const entitySnapshot = (name: EntityName, entity: EntityState) => {
    const open = openOf(name);
    const { rows, pages, setAside, isIncremental } = entity;
    return {
      entity: name,
      /** Records that this run has read; one that came twice counts once. */
      rows,
      pages,
      setAside,
      /** At least one of its listings is read only for changes. */
      isIncremental,
      open: open.length,
      /** Records that it will have read when its open listings end, as the service counts them; null: it does not. */
      expected: open.reduce<number | null>(
        (sum, { rows: read, total }) => (sum === null || total === null ? null : sum + Math.max(read, total)),
        open.length === 0 ? null : entity.endedRows,
      ),
    };
  };

  return {
    onEvent,
    snapshot: () => {
      const nowMs = clock.now();
      return {
        ...run,
        connector,
        elapsedMs: nowMs - startedAtMs,
        entities: Array.from(entities, ([name, entity]) => entitySnapshot(name, entity)),
        /** The wait that holds up the whole run; null while calls go through. */
        wait: runWait(nowMs),
      };
    },
  };
}

function newEntity() {
  return {
    rows: 0,
    pages: 0,
    setAside: 0,
    isIncremental: false,
    /** Records of listings that have ended. */
    endedRows: 0,
  };
}

type EntityState = ReturnType<typeof newEntity>;

type ListingOf = Pick<Extract<RunEvent, { readonly kind: 'walk-started' }>, 'entity' | 'params'>;

function nameOf({ entity, params }: ListingOf): string {
  return `${entity} ${writeJson(params)}`;
}

/** Fewer are read too quickly for a total to matter. */
const leastExpected = 100;

/** Instead of the other side's message, which may be long. */
const failureTexts: Partial<Record<ErrorCode, string>> = {
  UPSTREAM: 'answered with an error',
  BODY_INVALID: 'unusable answer',
};

/** `check the credentials: us10.api.example.com: host name not found (ENOTFOUND), attempt 3 of 6, next in 8 s`. */
export function retryText({ code, message, attempt, attempts }: Omit<Retry, 'nextAtMs'>, waitMs: number) {
  const next = waitMs > 0 ? `next in ${Math.ceil(waitMs / 1000)} s` : 'next one now';
  return `${failureTexts[code] ?? message}, attempt ${attempt} of ${attempts}, ${next}`;
}

// --- Screens: what a terminal and a pipe show of it

export interface ProgressStyle {
  /** Characters a line may take. */
  readonly columns: number;
  readonly hasColor: boolean;
}

/** Where progress is shown. `style` is null where lines can only be added, else it is asked before every redraw. */
interface ProgressScreen {
  readonly style: (() => ProgressStyle) | null;
  /** Takes the place of the lines drawn before; none: only removes them. */
  readonly redraw: (lines: readonly string[]) => void;
  readonly addLine: (line: string) => void;
}

const redrawMs = 100;
const lineMs = 10_000;

/**
 * Shows a run's progress, and outside of a terminal the place of a new sink. Disposing it removes the live lines and
 * stops; nothing is drawn afterwards.
 */
export function showProgress(connector: ConnectorName, screen: ProgressScreen, clock: Clock) {
  const progress = openProgress(connector, clock);
  const live = showLive(screen, clock, (style) => progressLines(progress.snapshot(), style));
  return {
    onEvent: (event: RunEvent): void => {
      progress.onEvent(event);
      if (screen.style !== null || event.kind !== 'sink-made') return;
      screen.addLine(`${connector}: made the sink ${event.sink}: ${event.place}`);
    },
    [Symbol.asyncDispose]: () => live[Symbol.asyncDispose](),
  };
}

/**
 * Shows work in progress until it is disposed: lines redrawn in place ten times a second on a terminal, elsewhere
 * (where the style is null) the first of them every ten seconds.
 */
export function showLive(
  { style, redraw, addLine }: ProgressScreen,
  clock: Clock,
  linesOf: (style: ProgressStyle | null) => readonly string[],
): AsyncDisposable {
  const stop = new AbortController();
  const show = (): void => {
    if (style === null) for (const line of linesOf(null).slice(0, 1)) addLine(line);
    // A coloured line is clipped already.
    else redraw(linesOf(style()).map((line) => (line.startsWith('\u001b') ? line : clip(line, style()))));
  };
  const repeat = async (): Promise<void> => {
    while (await slept(clock, style === null ? lineMs : redrawMs, stop.signal)) show();
  };
  const showing = repeat();
  return {
    [Symbol.asyncDispose]: async () => {
      if (stop.signal.aborted) return;
      stop.abort();
      await showing;
      if (style !== null) redraw([]);
    },
  };
}

/**
 * The run at a glance: a heading, a line for each entity that has begun, sums, and the wait that holds up the whole
 * run. One line without a style, for logs and pipes.
 */
export function progressLines(progress: ProgressSnapshot, style: ProgressStyle | null): readonly string[] {
  const { connector, continues, elapsedMs, wait } = progress;
  const resumed = continues === null ? '' : ` (resumed ${continues})`;
  const heading = `${connector}  ${duration(elapsedMs)}${resumed}`;
  const sums = progress.id === null ? [] : totals(progress);
  const waits = wait === null ? [] : [wait];
  if (style !== null) {
    const nameWidth = Math.max(8, ...progress.entities.map(({ entity }) => entity.length));
    return [
      colored('bold', heading, style),
      ...progress.entities.map((entity) => entityLine(entity, nameWidth, style)),
      ...(sums.length === 0 ? [] : [colored('dim', fitting(sums, ', ', style), style)]),
      ...waits.map((text) => colored('yellow', text, style)),
    ];
  }
  const rows = progress.entities.reduce((sum, entity) => sum + entity.rows, 0);
  const open = progress.entities.filter((entity) => entity.open > 0);
  const reading = open.map((one) => `${printable(one.entity)} (${recordsText(one)})`);
  const parts = [
    ...(progress.id === null ? [] : [counted(rows, 'record'), ...sums]),
    ...(reading.length === 0 ? [] : [`reading ${reading.join(', ')}`]),
    ...waits,
  ];
  return [`${heading}: ${parts.join(', ')}`];
}

function entityLine(entity: EntitySnapshot, nameWidth: number, style: ProgressStyle): string {
  const { open, setAside, pages } = entity;
  const mark = open > 0 ? '>' : setAside > 0 ? '!' : '·';
  const parts = [
    `${mark} ${printable(entity.entity).padEnd(nameWidth)}`,
    recordsText(entity),
    ...(setAside > 0 ? [`${count(setAside)} failed`] : []),
    counted(pages, 'page'),
  ];
  const line = fitting(parts, '  ', style);
  return setAside > 0 ? colored('yellow', line, style) : line;
}

/** `3,200 of 12,000 records`, as the service counts them. */
function recordsText({ rows, expected, isIncremental }: EntitySnapshot): string {
  const isTold = expected !== null && expected > rows && expected >= leastExpected;
  const text = isTold ? `${count(rows)} of ${count(expected)} records` : counted(rows, 'record');
  return isIncremental ? `${text} (changes only)` : text;
}

/** The most important first: a narrow screen drops the last ones. */
function totals(progress: ProgressSnapshot): readonly string[] {
  const { walksEnded, walksKnown, retries, files, fetched, elapsedMs } = progress;
  if (files.wanted !== null) {
    const failures = files.failed > 0 ? `, ${count(files.failed)} failed` : '';
    const kibibytes = count(Math.round(files.bytes / 1024));
    return [`files ${count(files.stored)} of ${count(files.wanted)} (${kibibytes} KiB${failures})`];
  }
  if (progress.isSweeping) {
    const { confirmed, deleted } = progress;
    const asked = confirmed > 0 ? [`${count(confirmed)} asked for`] : [];
    const parts = [...asked, ...(deleted > 0 ? [`${count(deleted)} marked`] : [])];
    return [`looking for deletes${parts.length === 0 ? '' : ` (${parts.join(', ')})`}`];
  }
  // An average over the run, waits included.
  const seconds = Math.max(elapsedMs, 1000) / 1000;
  return [
    `${count(walksEnded)} of ${count(Math.max(walksKnown, walksEnded))} known listings read`,
    `${count(Math.round(fetched.records / seconds))} records/s`,
    `${(fetched.pages / seconds).toFixed(1)} requests/s`,
    ...(retries > 0 ? [counted(retries, 'retry', 'retries')] : []),
  ];
}

/** Joins as many of the parts as fit. */
function fitting([first = '', ...more]: readonly string[], between: string, style: ProgressStyle): string {
  let line = first;
  for (const part of more) {
    if (line.length + between.length + part.length >= style.columns) break;
    line += between + part;
  }
  return clip(line, style);
}

const codes = { bold: 1, dim: 2, yellow: 33 } as const;

function colored(color: keyof typeof codes, line: string, style: ProgressStyle): string {
  const text = clip(line, style);
  return style.hasColor ? `\u001b[${codes[color]}m${text}\u001b[0m` : text;
}

function clip(line: string, style: ProgressStyle): string {
  // One column less than there are: a full last column makes some terminals wrap, and then redrawing climbs too far.
  return printableWithin(line, style.columns - 1);
}
