import { hostname } from 'node:os';
import type { RunEvent } from '../core/events.ts';
import { knownOrMade } from '../core/grouped.ts';
import type { ConnectorName } from '../core/names.ts';
import type { OnExchange } from '../http/exchange.ts';
import { mostJournalBytes, mostJournaled, type RunJournal } from '../sinks/run-journal.ts';
import { count, counted, duration, printableWithin } from '../telemetry/format.ts';
import { levelOf } from '../telemetry/log.ts';
import { openProgress } from '../telemetry/progress.ts';
import type { AppOptions } from './app.ts';

/** Characters of an address or a line at most; messages of errors are cut to 300. */
const mostOfText = 500;

/**
 * Journal of one run, kept in memory by its events and requests: work for each request and each page, none for a
 * record.
 */
export function openJournal(
  connector: ConnectorName,
  { clock, command }: Pick<AppOptions, 'clock' | 'command'>,
) {
  const progress = openProgress(connector, clock);
  const requests: Mutable<RunJournal['requests'][number]>[] = [];
  /** The entity of each request. */
  const entities: string[] = [];
  const lines: RunJournal['lines'] = [];
  const statuses = new Map<number, number>();
  const waits = new Map<string, Mutable<RunJournal['waits'][number]>>();
  let slowestMs = 0;
  let pausedMs = 0;
  let isChanged = false;

  const waitsOf = (entity: string | null) =>
    knownOrMade(waits, entity ?? '', () => ({
      entity: entity ?? '',
      requests: 0,
      apiMs: 0,
      limitMs: 0,
      sinkMs: 0,
    }));

  const onExchange: OnExchange = ({ method, status, ms, wireBytes }, { entity, address, waitedMs }) => {
    isChanged = true;
    const own = waitsOf(entity);
    own.requests += 1;
    own.apiMs += ms;
    own.limitMs += waitedMs;
    slowestMs = Math.max(slowestMs, ms);
    statuses.set(status ?? 0, (statuses.get(status ?? 0) ?? 0) + 1);
    const shown = printableWithin(address, mostOfText);
    requests.push({ at: clock.now(), method, address: shown, status, ms, records: null, bytes: wireBytes });
    entities.push(entity ?? '');
    trim(requests);
    trim(entities);
  };

  function note(event: RunEvent): void {
    switch (event.kind) {
      case 'call-ended':
        waitsOf(event.entity).limitMs += event.waitedMs;
        return;
      case 'call-retried':
        // A pause of the rate limit is counted with the call that it keeps waiting.
        if (event.code !== 'THROTTLED') waitsOf(event.entity).apiMs += event.waitMs;
        return;
      case 'throttled':
        pausedMs += event.waitMs;
        return;
      case 'commit-ended':
        for (const entity of event.entities) waitsOf(entity).sinkMs += event.ms / event.entities.length;
        return;
      case 'page-fetched': {
        const request = requests[entities.lastIndexOf(event.entity)];
        if (request !== undefined) request.records = event.records;
        return;
      }
    }
  }

  return {
    onExchange,
    onEvent: (event: RunEvent): void => {
      isChanged = true;
      progress.onEvent(event);
      note(event);
      const text = lineOf(event);
      const level = levelOf(event);
      if (text === null || level === 'debug') return;
      lines.push({ at: clock.now(), level, text: printableWithin(text, mostOfText) });
      trim(lines);
    },
    /** The journal as JSON, within its limit; null where nothing has changed since the last call. */
    text: (): string | null => {
      if (!isChanged) return null;
      isChanged = false;
      const { elapsedMs, wait, entities: ofEntities } = progress.snapshot();
      const sums = {
        command,
        host: hostname(),
        statuses: Object.fromEntries(statuses),
        slowestMs,
        pausedMs,
        waits: [...waits.values()],
        progress: { elapsedMs, wait, entities: ofEntities },
      };
      for (let kept = mostJournaled; ; kept = Math.floor(kept / 2)) {
        const newest = { requests: newestOf(requests, kept), lines: newestOf(lines, kept) };
        const text = JSON.stringify({ ...sums, ...newest } satisfies RunJournal);
        if (kept === 0 || Buffer.byteLength(text) <= mostJournalBytes) return text;
      }
    },
  };
}

type Mutable<Shape> = { -readonly [Name in keyof Shape]: Shape[Name] };

/** Drops the oldest, many at a time. */
function trim(list: unknown[]): void {
  if (list.length >= 2 * mostJournaled) list.splice(0, list.length - mostJournaled);
}

function newestOf<Item>(list: readonly Item[], kept: number): Item[] {
  return list.slice(Math.max(0, list.length - kept));
}

/** The event as a line for people, without parameters; null for what the requests or the report show. */
function lineOf(event: RunEvent): string | null {
  switch (event.kind) {
    case 'run-started':
      return `run started, ${counted(event.due, 'listing')} to read${event.continues === null ? '' : '; it resumes an earlier run'}`;
    case 'walk-restarted':
      return `${event.entity}: a listing begins again: ${event.why}`;
    case 'walk-set-aside':
      return `${event.entity}: a listing failed (${event.code}): ${event.message}`;
    case 'part-missing':
      return `${event.entity}: ${counted(event.listings, 'listing')} may have more records than shown`;
    case 'call-retried':
      return `${event.entity ?? 'call'}: attempt ${event.attempt} of ${event.attempts} failed (${event.code}): ${event.message}; next in ${duration(event.waitMs)}`;
    case 'throttled':
      return `the service asked to wait ${duration(event.waitMs)}`;
    case 'rate-stated':
      return `the API states a limit of ${event.requestsPerSecond} requests a second`;
    case 'sink-away':
      return `the sink cannot be written to: ${event.message}; tries for another ${duration(event.leftMs)}`;
    case 'sink-back':
      return 'the sink can be written to again';
    case 'sink-made':
      return `made the sink ${event.sink}`;
    case 'sweep-started':
      return 'looks for deleted rows';
    case 'rows-deleted':
      return `${event.entity}: ${counted(event.rows, 'row')} deleted`;
    case 'deletes-withheld':
      return `${event.entity}: ${count(event.rows)} of ${counted(event.live, 'row')} look deleted and are kept`;
    case 'files-started':
      return `fetches ${counted(event.files, 'file')}`;
    case 'file-set-aside':
      return `${event.entity}: a file did not come (${event.code}): ${event.message}`;
    default:
      return null;
  }
}
