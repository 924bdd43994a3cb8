import { createHash, randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { type Clock, instant } from '../core/clock.ts';
import { SyncError, usage } from '../core/errors.ts';
import { type EntityName, isRunId } from '../core/names.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import type { ConnectorSettings, LocalSettings, SinkSettings } from '../settings/settings.ts';
import type { ActionName, NotedAction } from '../sinks/requests.ts';
import type { Holder, HolderWork } from '../sinks/lease.ts';
import type { ConnectorStatus, RunSummary } from '../sinks/ledger-reader.ts';
import { openExistingHistory, openSink, statusOf, storedStatus } from '../sinks/registry.ts';
import type { LedgerReader, OpenHow } from '../sinks/sink-access.ts';
import { counted } from '../telemetry/format.ts';
import type { EntityGlobs } from './app.ts';

export type FoundRun = Awaited<ReturnType<typeof findRun>>;

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

const newestOfConnector = 200;

/** Answers of each existing sink of the config; an error for one that cannot be read. */
async function* askSinks<Found>(settings: LocalSettings, ask: (history: LedgerReader) => Promise<Found>) {
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

/** Actions of people in all sinks, newest first, and the errors of sinks that cannot be read. */
export async function newestActions(settings: LocalSettings, query: Parameters<LedgerReader['actions']>[0]) {
  const found: (NotedAction & { readonly sink: string })[] = [];
  const unreadable: SyncError[] = [];
  const asked = askSinks(settings, (history) => history.actions(query));
  for await (const { sink, found: actions, error } of asked) {
    for (const action of actions ?? []) found.push({ ...action, sink: sink.name });
    if (error !== null) unreadable.push(error);
  }
  found.sort((left, right) => (left.at < right.at ? 1 : -1));
  return { actions: found.slice(0, query.limit), unreadable };
}

/** Actions that a request may have, one of each entity: with fewer more, one at the end might not be complete. */
const mostOfRequest = 500;
/** Searched at most in each sink. */
const mostSearched = 5_000;

/** The newest requests of people that have all these words; `isCut`: older ones were not looked through. */
export async function searchActions(
  settings: LocalSettings,
  { who, on, q, shown }: { readonly [Name in 'who' | 'on' | 'q']: string } & { readonly shown: number },
) {
  const isFiltered = [who, on, q].some((text) => text !== '');
  const limit = isFiltered ? mostSearched : shown + mostOfRequest;
  const { actions, unreadable } = await newestActions(settings, { limit });
  const has = (text: string, part: string): boolean => text.toLowerCase().includes(part.trim().toLowerCase());
  const matching = requestsOf(actions).filter((request) => {
    const { before, subject, after, details } = actionText(request);
    return has(request.who, who) && has(subject ?? '', on) && has(`${before} ${after} ${details}`, q);
  });
  const isCut = isFiltered && actions.length >= mostSearched;
  const isMore = matching.length > shown || (!isFiltered && actions.length >= limit);
  return { actions: matching.slice(0, shown), isFiltered, isMore, isCut, unreadable };
}

/** Something that a person asked for at once. `entities`: those that it was done to; empty: no single ones. */
export interface NotedRequest extends NotedAction {
  readonly entities: readonly EntityName[];
}

/** A request that is carried out for one entity after the other notes them within this time. */
const requestWithinMs = 60_000;

/** Actions, newest first, as requests: one for several entities is one, with the sums of their numbers. */
export function requestsOf(actions: readonly NotedAction[]): readonly NotedRequest[] {
  const requests: NotedRequest[] = [];
  for (const action of actions) {
    const last = requests.at(-1);
    const entities = action.entity === null ? [] : [action.entity];
    if (last === undefined || !isOfRequest(action, last)) {
      requests.push({ ...action, entities });
      continue;
    }
    const detail = { ...last.detail };
    for (const [name, value] of Object.entries(action.detail)) {
      const sum = detail[name];
      if (typeof value === 'number' && typeof sum === 'number') detail[name] = sum + value;
    }
    requests[requests.length - 1] = { ...last, detail, entities: [...entities, ...last.entities] };
  }
  return requests;
}

function isOfRequest({ at, who, action, connector, entity, run }: NotedAction, of: NotedRequest): boolean {
  if (entity === null || of.entities.length === 0 || of.entities.includes(entity)) return false;
  const isSame = who === of.who && action === of.action && connector === of.connector && run === of.run;
  return isSame && Date.parse(of.at) - Date.parse(at) < requestWithinMs;
}

/** Details of an action except who did it, on one line: `from every hour to every 15 min, reason: a move`. */
export function actionDetail({ detail: { from, to, ...others } }: Pick<NotedAction, 'detail'>): string {
  const change = Object.entries({ from, to }).flatMap(([name, value]) =>
    typeof value === 'string' ? [`${name} ${value}`] : [],
  );
  const left = typeof from === 'object' ? { from, ...others } : others;
  const facts = Object.entries(left).map(
    ([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  return [...(change.length === 0 ? [] : [change.join(' ')]), ...facts].join(', ');
}

/** Begins the text before the name of the connector or target, and ends it. */
export const actionVerbs: Readonly<Record<ActionName, readonly [before: string, after?: string]>> = {
  pause: ['Paused'],
  resume: ['Resumed'],
  cancel: ['Stopped a run of'],
  reset: ['Discarded the progress of'],
  remove: ['Removed', 'from the sink'],
  adopt: ['Changed the workspace of'],
  undo: ['Undid a run of'],
  purge: ['Purged records of'],
  refetch: ['Read a record again of'],
  'allow-deletes': ['Allowed deletes of', 'once'],
  'read-in-full': ['Read everything again of'],
  'run-now': ['Started a run of'],
  'publish-now': ['Published into'],
  check: ['Checked'],
  'mark-known': ['Marked new fields as known of'],
  add: ['Added', 'to the config'],
  schedule: ['Changed the schedule of'],
  'copy-from': ['Copied', 'here from another sink'],
  'copy-to': ['Copied', 'to another sink'],
  'copy-discarded': ['Discarded an unfinished copy of'],
  'copy-reopened': ['Took back', 'after a copy'],
};

/** Parts of a sentence about a request. `subject`: its connector or target; null: it concerned no single one. */
export function actionText({ action, connector, entities, detail }: NotedRequest) {
  const [before, after = ''] = actionVerbs[action];
  // The run is named by a link.
  const { target, run: _run, ...more } = detail;
  const subject = connector ?? (typeof target === 'string' ? target : null);
  const many = entities.length > 1 ? `${counted(entities.length, 'entity', 'entities')}: ` : '';
  const details = [`${many}${firstNames(entities, 20)}`, actionDetail({ detail: more })];
  return { before, subject, after, details: details.filter((text) => text !== '').join(', ') };
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
