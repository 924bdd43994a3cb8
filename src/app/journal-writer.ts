import { hostname } from 'node:os';
import { handledBy, type RunEvent } from '../core/events.ts';
import { knownOrMade } from '../core/grouped.ts';
import type { ConnectorName, EntityName } from '../core/names.ts';
import type { OnExchange } from '../http/exchange.ts';
import { mostJournalBytes, mostJournaled, type RunJournal, sweepLine } from '../sinks/run-journal.ts';
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
  const asked: string[] = [];
  const lines: RunJournal['lines'] = [];
  const statuses = new Map<number, number>();
  const waits = new Map<string, Mutable<RunJournal['waits'][number]>>();
  let slowestMs = 0;
  let pausedMs = 0;
  let isChanged = false;

  const waitsOf = (entity: string | null) =>
    knownOrMade(waits, entity ?? '', () => ({ entity: entity ?? '', ...noWaits }));

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
    asked.push(entity ?? '');
    trim(requests);
    trim(asked);
  };

  /** Lines name no parameters: they may be keys of records. */
  const lineOf = handledBy<[], string | void>({
    'call-ended': ({ entity, waitedMs }) => void (waitsOf(entity).limitMs += waitedMs),
    'page-fetched': ({ entity, records }) => {
      const request = requests[asked.lastIndexOf(entity)];
      if (request !== undefined) request.records = records;
    },
    'call-retried': ({ entity, attempt, attempts, code, message, waitMs }) => {
      // A pause of the rate limit is counted with the call that it keeps waiting.
      if (code !== 'THROTTLED') waitsOf(entity).apiMs += waitMs;
      const failed = `attempt ${attempt} of ${attempts} failed (${code}): ${message}`;
      return `${entity ?? 'call'}: ${failed}; next in ${duration(waitMs)}`;
    },
    throttled: ({ waitMs }) => {
      pausedMs += waitMs;
      return `the service asked to wait ${duration(waitMs)}`;
    },
    'run-started': ({ due, continues }) =>
      `run started, ${counted(due, 'listing')} to read${continues === null ? '' : '; it resumes an earlier run'}`,
    'walk-restarted': ({ entity, why }) => `${entity}: a listing begins again: ${why}`,
    'walk-set-aside': ({ entity, code, message }) => `${entity}: a listing failed (${code}): ${message}`,
    'part-missing': ({ entity, listings }) =>
      `${entity}: ${counted(listings, 'listing')} may have more records than shown`,
    'rate-stated': ({ requestsPerSecond }) =>
      `the API states a limit of ${requestsPerSecond} requests a second`,
    'sink-away': ({ message, leftMs }) =>
      `the sink is away: ${message}; tries for another ${duration(leftMs)}`,
    'sink-back': () => 'the sink can be written to again',
    'sink-made': ({ sink }) => `made the sink ${sink}`,
    'sweep-started': () => sweepLine,
    'rows-deleted': ({ entity, rows }) => `${entity}: ${counted(rows, 'row')} deleted`,
    'deletes-withheld': ({ entity, rows, live }) =>
      `${entity}: ${count(rows)} of ${counted(live, 'row')} look deleted, kept`,
    'files-started': ({ files }) => `fetches ${counted(files, 'file')}`,
    'file-set-aside': ({ entity, code, message }) => `${entity}: a file did not come (${code}): ${message}`,
  });

  return {
    onExchange,
    stored: (entities: readonly EntityName[], ms: number): void => {
      for (const entity of entities) waitsOf(entity).sinkMs += ms / entities.length;
    },
    onEvent: (event: RunEvent): void => {
      isChanged = true;
      progress.onEvent(event);
      const text = lineOf(event);
      const level = levelOf(event);
      if (text === undefined || level === 'debug') return;
      lines.push({ at: clock.now(), level, text: printableWithin(text, mostOfText) });
      trim(lines);
    },
    /** The journal as JSON, within its limit; null where nothing has changed since the last call. */
    text: (): string | null => {
      if (!isChanged) return null;
      isChanged = false;
      const { elapsedMs, wait, deleted, entities: ofEntities } = progress.snapshot();
      const sums = {
        command,
        host: hostname(),
        statuses: Object.fromEntries(statuses),
        slowestMs,
        pausedMs,
        waits: [...waits.values()],
        progress: { elapsedMs, wait, deleted, entities: ofEntities },
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

const noWaits = { requests: 0, apiMs: 0, limitMs: 0, sinkMs: 0 };

/** Drops the oldest, many at a time. */
function trim(list: unknown[]): void {
  if (list.length >= 2 * mostJournaled) list.splice(0, list.length - mostJournaled);
}

function newestOf<Item>(list: readonly Item[], kept: number): Item[] {
  return list.slice(Math.max(0, list.length - kept));
}
