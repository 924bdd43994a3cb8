import { createHash, randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { type Clock, instant } from '../core/clock.ts';
import { SyncError, usage } from '../core/errors.ts';
import { isRunId } from '../core/names.ts';
import { noCounts } from '../core/records.ts';
import type { ConnectorSettings, LocalSettings, SinkSettings } from '../settings/settings.ts';
import type { Holder, HolderWork } from '../sinks/lease.ts';
import type { ConnectorStatus, RunSummary } from '../sinks/ledger-reader.ts';
import { type RunJournal, sweepLine } from '../sinks/run-journal.ts';
import { openExistingHistory, openSink, statusOf, storedStatus } from '../sinks/registry.ts';
import type { LedgerReader, OpenHow } from '../sinks/sink-access.ts';
import type { EntityGlobs } from './app.ts';
import { runMs } from './run-totals.ts';
import type { WatchedSinks } from './watch-sinks.ts';

export type FoundRun = Awaited<ReturnType<typeof findRun>>;
export type RunDetails = Awaited<ReturnType<typeof readRunDetails>>;

/** The run of that id, whichever sink holds it. Throws USAGE where none does. */
export async function findRun(settings: LocalSettings, id: string, program: string) {
  if (!isRunId(id)) throw usage(`Expected the id of a run, got "${id}". "${program} runs" lists them.`);
  let unreadable: SyncError | null = null;
  for await (const { sink, found: run, error } of askSinks(settings, (history) => history.run(id))) {
    if (run !== null) return { run, sink };
    unreadable ??= error;
  }
  // A sink that cannot be read may hold the run: its error comes before "not found".
  throw unreadable ?? usage(`No sink of the config has a run ${id}. "${program} runs" lists the runs.`);
}

/**
 * A run with its journal, the run of the connector before it, and what people did about it. `counts`: of one in
 * progress; `isLost`: its process has ended.
 */
export async function readRunDetails(settings: LocalSettings, id: string, program: string) {
  const { run, sink } = await findRun(settings, id, program);
  await using history = await openExistingHistory(sink);
  const { connector } = run;
  const isRunning = run.state === 'running';
  const [before = null] = (await history?.runs({ connector, before: run.run, limit: 1 })) ?? [];
  const [status] = isRunning ? ((await history?.connectors([connector])) ?? []) : [];
  const actions = (await history?.actions({ connector, limit: newestOfConnector })) ?? [];
  return {
    run,
    sink: sink.name,
    /** Null where the config has it no more. */
    connector: settings.connectors.get(connector) ?? null,
    journal: (await history?.journal(run.run)) ?? null,
    before,
    counts: isRunning ? ((await history?.counts(run.run)) ?? []) : [],
    isLost: status !== undefined && isGone(status.lastHolder),
    actions: actions.filter((one) => one.run === run.run),
  };
}

/** States of runs that are listed together. */
export const runGroups = {
  running: ['running'],
  failed: ['failed'],
  incomplete: ['partial', 'degraded'],
  interrupted: ['interrupted'],
  ok: ['ok'],
} as const satisfies Readonly<Record<string, readonly RunSummary['state'][]>>;
// `as`: the keys are those of the record.
export const runGroupNames = Object.keys(runGroups) as readonly (keyof typeof runGroups)[];

interface RunsQuery {
  /** Part of a connector's name. */
  readonly q: string;
  readonly state: keyof typeof runGroups | null;
  /** Id of the run before which the list begins; empty: the newest. */
  readonly before: string;
}

const runsOfPage = 100;
const dayMs = 24 * 60 * 60 * 1_000;

/** Runs of all connectors, newest first, and how many of each group began in 24 hours. */
export async function listRuns(
  { connectors }: Pick<LocalSettings, 'connectors'>,
  watched: WatchedSinks,
  query: RunsQuery,
  nowMs: number,
) {
  const { unreadable } = await watched.overviews();
  const { q, state: group, before } = query;
  const named = [...connectors.keys()].filter((name) => name.includes(q.toLowerCase()));
  // Ids begin with the time in digits.
  const since = instant(nowMs - dayMs).replaceAll(/[-:.]/g, '');
  const choice = {
    connectors: q === '' ? undefined : named,
    states: group === null ? undefined : runGroups[group],
    before: before === '' ? '~' : before,
    limit: runsOfPage + 1,
  };
  const { runs, counts } = await watched.runsOfAll(choice, since);
  const inDay = runGroupNames.map((of) => {
    const states: readonly string[] = runGroups[of];
    return [of, sumOf(counts.map((one) => (states.includes(one.state) ? one.runs : 0)))] as const;
  });
  const older = runs.length > runsOfPage ? (runs[runsOfPage - 1]?.run ?? null) : null;
  return { query, unreadable, runs: runs.slice(0, runsOfPage), older, inDay };
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, one) => sum + one, 0);
}

/** The entities of a run in progress and their records so far. */
export function readSoFar({ connector, counts, journal }: RunDetails) {
  const progress = new Map((journal?.progress.entities ?? []).map((one) => [one.entity, one]));
  const stored = new Map<string, (typeof counts)[number]>(counts.map((one) => [one.entity, one]));
  const names = new Set([...(connector?.entities.keys() ?? []), ...stored.keys(), ...progress.keys()]);
  return [...names].map((entity) => {
    const own = progress.get(entity);
    const { fetched, duplicate, inserted, updated } = stored.get(entity) ?? noCounts;
    return {
      entity,
      isOpen: (own?.open ?? 0) > 0,
      isBegun: own !== undefined || stored.has(entity),
      hasFailures: (own?.setAside ?? 0) > 0,
      rows: Math.max(own?.rows ?? 0, fetched - duplicate),
      expected: own?.expected ?? null,
      inserted,
      updated,
    };
  });
}

/** The work of a run in progress in numbers. `total` null: the service does not count the records of each entity. */
export function progressOf(details: RunDetails) {
  const { journal, connector } = details;
  const { elapsedMs = 0, wait = null } = journal?.progress ?? {};
  const all = readSoFar(details);
  const read = sumOf(all.map(({ rows }) => rows));
  const total = sumOf(all.map(({ rows, expected }) => Math.max(rows, expected ?? 0)));
  const told = new Set<string>(all.flatMap(({ entity, expected }) => (expected === null ? [] : [entity])));
  const isTold =
    total > read && read > 0 && [...(connector?.entities.keys() ?? [])].every((name) => told.has(name));
  const seconds = Math.max(1, elapsedMs / 1000);
  const requests = sumOf(Object.values(journal?.statuses ?? {}));
  return {
    wait,
    read,
    total: isTold ? total : null,
    leftMs: ((total - read) * elapsedMs) / read,
    written: sumOf(all.map(({ inserted, updated }) => inserted + updated)),
    readPerSecond: read / seconds,
    requests,
    requestsPerSecond: requests / seconds,
    waitedMs: sumOf((journal?.waits ?? []).map(({ limitMs }) => limitMs)),
  };
}

/** Statuses of refusals, those that ask to wait apart. */
const refused = /^4(?!29)/;

/** Requests of a run by their answers, and the time that they took. `checks`: those that read no records. */
export function callsOf(journal: RunJournal) {
  const { requests, statuses, waits, slowestMs, pausedMs } = journal;
  const numberOf = (pattern: RegExp): number =>
    sumOf(Object.entries(statuses).flatMap(([status, number]) => (pattern.test(status) ? [number] : [])));
  const times = requests.map(({ ms }) => ms).toSorted((one, other) => one - other);
  const notThere = requests.filter((request) => isLookup(request, journal)).length;
  const limitMs = sumOf(waits.map((one) => one.limitMs));
  return {
    all: numberOf(/./),
    checks: waits.find(({ entity }) => entity === '')?.requests ?? 0,
    answered: numberOf(/^2/),
    /** Records that were asked for one by one and are gone. */
    notThere,
    refused: numberOf(refused) - notThere,
    refusals: Object.keys(statuses).filter(
      (status) => refused.test(status) && (status !== '404' || notThere === 0),
    ),
    throttled: numberOf(/^429$/),
    broken: numberOf(/^(?:0|5\d\d)$/),
    medianMs: times[Math.floor(times.length / 2)] ?? 0,
    slowestMs,
    /** Pauses that the service asked for, and waits for the program's own limit. */
    pausedMs,
    pacedMs: Math.max(0, limitMs - pausedMs),
  };
}

/** A record that looked deleted was asked for, and the service does not have it. */
export function isLookup(
  { status, at }: Pick<RunJournal['requests'][number], 'status' | 'at'>,
  { lines }: RunJournal,
): boolean {
  const swept = lines.find(({ text }) => text === sweepLine);
  return status === 404 && swept !== undefined && at >= swept.at;
}

/** Shares of the time from which a run counts as slow because it waited, and the least that is worth a word. */
const [slowShare, slowMs] = [0.3, 5_000];

/** Waits of a run that waited for much of its time, else null. `allows`: the limit as the service says it. */
export function slownessOf({ run, journal }: RunDetails) {
  const ms = runMs(run);
  if (journal === null || ms === null) return null;
  const { pausedMs, pacedMs, throttled } = callsOf(journal);
  const by = pausedMs >= pacedMs ? 'service' : 'limit';
  // Waits beside each other add up to more than the run took.
  const waitedMs = Math.min(ms, Math.max(pausedMs, pacedMs));
  if (waitedMs < slowMs || waitedMs < slowShare * ms) return null;
  const told = journal.lines.map(({ text }) => statedLimit.exec(text)).find((found) => found !== null);
  const [, number, calls, time] = told ?? [];
  return { by, tookMs: ms, waitedMs, throttled, allows: told && `${number} ${calls} a ${time}` } as const;
}

const statedLimit =
  /answered with 429 .*?(\d[\d,]*) (calls|requests) (?:per|a|an|each|every) (second|minute|hour|day)/;

const newestOfConnector = 200;

/** Answers of each existing sink of the config; an error for one that cannot be read. */
export async function* askSinks<Found>(
  settings: LocalSettings,
  ask: (history: LedgerReader) => Promise<Found>,
) {
  for (const sink of settings.sinks.values()) {
    try {
      await using history = await openExistingHistory(sink);
      if (history !== null) yield { sink, found: await ask(history), error: null };
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      yield { sink, found: null, error };
    }
  }
}

/** Each sink of the config that exists, once. */
export async function fromEverySink<Result>(
  settings: LocalSettings,
  read: (history: LedgerReader, sink: SinkSettings) => Promise<Result>,
): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (const sink of settings.sinks.values()) {
    await using history = await openExistingHistory(sink);
    if (history !== null) results.push(await read(history, sink));
  }
  return results;
}

/**
 * Asks a run to end at its next page, in any process. Gives its process where that has already ended, else null. Throws
 * USAGE for a run that is not running.
 */
export async function cancelRun(found: FoundRun, how: Pick<OpenHow, 'clock' | 'signal' | 'who'>) {
  const { run, connector } = found.run;
  await using sink = await openSink(found.sink, how);
  const isAsked = await sink.requestCancel(run, instant(how.clock.now()));
  // It may have ended since it was found: the ledger's newest state counts.
  if (!isAsked) checkRunning((await sink.history.run(run)) ?? found.run);
  const holder = (await statusOf(sink.history, connector))?.lastHolder ?? null;
  return holder !== null && isGone(holder) ? holder : null;
}

/** Throws USAGE for a run that is not running. */
export function checkRunning({ run, connector, state, finishedAt }: RunSummary): void {
  if (state === 'running') return;
  const when = finishedAt === null ? '' : ` at ${finishedAt}`;
  throw new SyncError(`Run ${run} of ${connector} is not running: it ended ${state}${when}.`, {
    code: 'USAGE',
    recovery: 'stop',
    context: { run, state },
  });
}

/** Resources that syncs of several connectors share, according to their ledgers. */
export type SharedWork = Awaited<ReturnType<typeof shareWork>>;

export type DoneRun = NonNullable<Awaited<ReturnType<SharedWork['done']>>>;

interface AskedWork extends EntityGlobs {
  readonly full: boolean;
  readonly allowDeletes: boolean;
}

/** After a longer pause people want everything to be fresh, and so does a schedule. */
const resumeWithinMs = 30 * 60_000;

/**
 * Resumes the newest interrupted command with the same request for one of these connectors, if it was interrupted at
 * most half an hour ago. Other commands with the same request share the work from now on.
 */
export async function shareWork(connectors: readonly ConnectorSettings[], what: AskedWork, clock: Clock) {
  const asked = createHash('sha256').update(JSON.stringify(what)).digest('hex').slice(0, 16);
  const beganAt = instant(clock.now());
  const resumable = instant(clock.now() - resumeWithinMs);
  const newest: Awaited<ReturnType<typeof newestSync>>[] = [];
  for (const connector of connectors) newest.push(await newestSync(connector, asked));
  const cut = newest
    .filter((sync) => sync !== null)
    .filter(({ run }) => (run.finishedAt ?? run.startedAt) > resumable)
    // A run that was killed stays `running` in the ledger until its connector is taken again.
    .filter(({ run, holder }) => run.state === 'interrupted' || (run.state === 'running' && isGone(holder)))
    .toSorted((left, right) => (left.run.startedAt < right.run.startedAt ? 1 : -1));
  const resumedId = cut[0]?.holder.work.id ?? null;
  const id = resumedId ?? randomUUID();
  return {
    /** Noted with each connector that this command takes. */
    work: { id, asked } satisfies HolderWork,
    /** Connectors in which the same command was interrupted: they come first. */
    interrupted: new Set(cut.filter(({ holder }) => holder.work.id === id).map(({ run }) => run.connector)),
    /** The run that has already done this connector's part; null: none has. */
    done: async (connector: ConnectorSettings) => {
      const sync = await newestSync(connector, asked);
      if (sync === null || sync.run.report === null) return null;
      const { run, holder } = sync;
      // Another run would not change such an end at once.
      if (run.state !== 'ok' && run.state !== 'degraded' && run.state !== 'failed') return null;
      const isOwn = holder.pid === process.pid && holder.host === hostname();
      const found = { report: sync.run.report, pid: holder.pid };
      const wasMeanwhile = (run.finishedAt ?? '') >= beganAt;
      if (wasMeanwhile && !isOwn) return { ...found, because: 'done-by-another-sync' as const };
      const isPart = holder.work.id === resumedId && run.state === 'ok';
      return isPart && !wasMeanwhile ? { ...found, because: 'done-before-interruption' as const } : null;
    },
    /** True while the run that holds the connector may still be running. */
    isRunning: async (connector: ConnectorSettings): Promise<boolean> => {
      const status = await readStatus(connector);
      return status?.lastRun?.state === 'running' && !isGone(status.lastHolder);
    },
  };
}

/** The newest sync with the same request; null also if something else has held the connector since. */
async function newestSync(connector: ConnectorSettings, asked: string) {
  const { lastRun: run = null, lastHolder: holder } = (await readStatus(connector)) ?? {};
  if (run === null || holder?.work === undefined || holder.work.asked !== asked) return null;
  return run.startedAt < holder.since ? null : { run, holder: { ...holder, work: holder.work } };
}

async function readStatus({ name, sink }: ConnectorSettings): Promise<ConnectorStatus | null> {
  try {
    return await storedStatus({ name, sink });
  } catch {
    return null; // The run opens an unreadable sink again, and reports what is wrong with it.
  }
}

/** Whether the process has ended. The state of another machine's processes is unknown. */
export function isGone({ pid, host }: Holder): boolean {
  if (host !== hostname()) return false;
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ESRCH';
  }
}
