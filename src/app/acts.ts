import { randomBytes } from 'node:crypto';
import { instant, slept, systemClock } from '../core/clock.ts';
import { SyncError, usage } from '../core/errors.ts';
import { grouped } from '../core/grouped.ts';
import type { ConnectorName, EntityName, RunId } from '../core/names.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import type { Queues } from '../jobs/open-queues.ts';
import type { JobLog, ServedSink } from '../jobs/worker-context.ts';
import { connectorsBySink, sinksOf, targetsOf } from '../settings/choices.ts';
import type {
  ConnectorSettings,
  LocalSettings,
  PublishSettings,
  SinkSettings,
} from '../settings/settings.ts';
import { withParts } from '../settings/load-settings.ts';
import type { Pause } from '../sinks/lease.ts';
import type { EntityStatus, RunFacts } from '../sinks/ledger-reader.ts';
import {
  accessSink,
  openExistingHistory,
  openExistingRecords,
  openSink,
  storedStatus,
} from '../sinks/registry.ts';
import { newsName } from '../sinks/readings.ts';
import type { Action, ResetCounts, ResetScope } from '../sinks/requests.ts';
import type { OpenHow, Sink } from '../sinks/sink-access.ts';
import { count, counted } from '../telemetry/format.ts';
import { healthOf } from './connector-health.ts';
import { overviewOf, readOverviews } from './connector-states.ts';
import { cancelRun, checkRunning, type FoundRun } from './find-run.ts';
import {
  checkHere,
  checkNotPaused,
  openQueuesOf,
  reachQueues,
  servedSink,
  sinkIdOf,
} from './reach-queues.ts';
import { maskedColumns } from './shown-records.ts';
import { storedFields } from './stored-fields.ts';
import type { undoRun as UndoRun } from './undo-run.ts';
import type { WatchedSinks } from './watch-sinks.ts';

/**
 * An act of a person on a connector, a run or a target, by a command or on a page. Throws `SyncError`, mostly USAGE,
 * where it cannot be done now; then nothing was done.
 */
export type Act<Subject> = (of: Subject, world: ActWorld) => Promise<PreparedAct>;

export interface ActWorld extends Pick<OpenHow, 'clock'> {
  readonly settings: LocalSettings;
  /** The command that starts this program. */
  readonly program: string;
  /** Ends slow work. */
  readonly signal: AbortSignal;
}

/** An act that can be done now. */
export interface PreparedAct {
  /** `Pause newsletter`. */
  readonly title: string;
  /** Exactly what will happen. */
  readonly says: readonly string[];
  /** Names of the connectors, or the run or target, that it would change, with what it depends on. */
  readonly of: readonly string[];
  /** A person may give a reason. */
  readonly asksReason?: true;
  /** The button that does it, where that says more than the title. */
  readonly button?: string;
  /** Fields of the credentials that a person types, as `typed.<field>`. */
  readonly asksSecrets?: readonly string[];
  /** The rows that it would delete. */
  readonly rows?: RowsAtStake;
  /** The lines of the config that it would change; `obstacle`: why only a person can. */
  readonly edit?: {
    readonly file: string;
    readonly lines: readonly string[];
    readonly obstacle: string | null;
  };
  /** Choices of which it needs one, by a parameter of its address; `chosen` is empty until then. */
  readonly choices?: {
    readonly param: string;
    readonly options: ReadonlyMap<string, string>;
    readonly chosen: string;
  };
  /** Opened for `do`. The caller disposes it, whether or not the act was done. */
  readonly needs?: AsyncDisposable;
  readonly do: (how: ActHow) => Promise<void>;
}

/** Rows that a guard keeps, of each entity, and how to read some of them. */
interface RowsAtStake {
  readonly connector: ConnectorName;
  readonly kept: readonly { readonly entity: EntityName; readonly withheld: number }[];
  readonly read: () => ReturnType<typeof readAtStake>;
}

export interface ActHow {
  readonly who: string;
  /** Empty: none was given. */
  readonly reason: string;
  /** Further fields of the form. Never logged. */
  readonly typed?: ReadonlyMap<string, string>;
  /**
   * Called with each thing that was done, as text for a person, with details below it, and as a document for a program.
   * A call without a document is a remark about the whole.
   */
  readonly tell: (line: string, document?: Done, details?: readonly string[]) => void;
}

type Queued = Awaited<ReturnType<Queues['enqueue']>>;

/** The result of an act, for programs. */
type Done =
  | { readonly connector: ConnectorName; readonly paused: Pause; readonly running: RunId | null }
  | { readonly connector: ConnectorName; readonly wasPaused: boolean }
  | ({ readonly connector: ConnectorName } & Queued)
  | ({ readonly target: string } & WaitingPublication & Queued)
  | {
      readonly run: RunId;
      readonly connector: ConnectorName;
      readonly isCancelRequested: true;
      readonly isProcessGone: boolean;
    }
  | { readonly connector: ConnectorName; readonly check: 'ok' | 'warning' | 'failed' | 'skipped' }
  | { readonly connector: ConnectorName; readonly known: readonly string[] }
  | ({ readonly connector: ConnectorName; readonly of: RunId; readonly rows: number } & Undone);

/** A publication that a worker is to make, as Redis has it. */
interface WaitingPublication {
  readonly sinkId: string;
  readonly job: string;
}

type Undone = Awaited<ReturnType<typeof UndoRun>>;

export const defaultReason = 'paused by hand';

/** Acts on one connector or many. */
export const connectorActs = {
  /**
   * Has a worker run connectors now; a job that already waits or runs is left unchanged. Throws QUEUE_UNAVAILABLE
   * within two seconds, and USAGE for a paused connector or if no worker would take the job.
   */
  'run-now': async (connectors, world) => {
    const needs = await openRunQueues(connectors, world);
    return {
      ...about(connectors, (named) => `Run ${named} now`),
      says: [`A worker reads ${listOf(connectors)} as soon as it has room, as if the schedule had come.`],
      needs,
      do: async ({ who, tell }) => {
        for (const some of inParts(connectors)) {
          const jobs = await Promise.all(some.map(async (one) => await needs.enqueue(one, { by: who })));
          for (const job of jobs) tell(`${job.connector}: ${queuedText(job)}`, job);
        }
      },
    };
  },
  /**
   * Writes the pause to the sinks first, where a worker reads it before every run; then removes the schedules from
   * Redis. Throws USAGE if a sink is on another machine.
   */
  pause: async (connectors, { settings, program, ...world }) => ({
    ...about(connectors, (named) => `Pause ${named}`),
    says: [
      `Until a person resumes, no scheduled run starts of ${listOf(connectors)}.`,
      'A run that is in progress continues.',
    ],
    asksReason: true,
    do: async ({ who, reason, tell }) => {
      await using reached = await reachQueues(settings);
      const { queues, problem } = reached;
      const pause = { since: instant(world.clock.now()), reason: reason.trim() || defaultReason };
      await inEachSink(connectors, queues, { ...world, who }, async (sink, names) => {
        await sink.pause(names, pause);
        await Promise.all(names.map(async (name) => await queues?.removeSchedule(sink.id, name)));
        const last = await sink.history.recentRuns(names, 1);
        for (const connector of names) {
          const newest = last.get(connector)?.[0];
          const running = newest?.state === 'running' ? newest.run : null;
          const continues = `; its run ${running} continues, "${program} cancel ${running}" stops it at its next page`;
          const text = `${connector}: paused${running === null ? '' : continues}`;
          tell(text, { connector, paused: pause, running });
        }
      });
      if (problem !== null) tell(unreachedText(problem));
    },
  }),
  /** Ends pauses, and writes the schedules to Redis again. Otherwise as `pause`. */
  resume: async (connectors, { settings, ...world }) => ({
    ...about(connectors, (named) => `Resume ${named}`),
    says: [`Scheduled runs start again, of ${listOf(connectors)}.`],
    do: async ({ who, tell }) => {
      await using reached = await reachQueues(settings);
      const { queues, problem } = reached;
      await inEachSink(connectors, queues, { ...world, who }, async (sink, names) => {
        const paused = await sink.resume(names);
        for (const connector of names) {
          const wasPaused = paused.has(connector);
          const hasSchedule = (settings.connectors.get(connector)?.schedule ?? null) !== null;
          const resumed = `resumed${hasSchedule ? ', runs on its schedule again' : '; it has no schedule'}`;
          tell(`${connector}: ${wasPaused ? resumed : 'was not paused'}`, { connector, wasPaused });
        }
      });
      if (queues === null) return tell(unreachedText(problem));
      const served: ServedSink[] = [];
      for (const sink of sinksOf(connectors)) served.push(await servedSink(sink, world.clock));
      try {
        await writeSchedules(settings, queues, served);
      } catch (error) {
        // The sinks already hold everything that counts.
        if (!(error instanceof SyncError)) throw error;
        tell(unreachedText(error.message));
      }
    },
  }),
} satisfies Readonly<Record<string, Act<readonly ConnectorSettings[]>>>;

/** Enough to see what they are, and what they have in common. */
const rowsShown = 10;
const rowsRead = 200;

/** Acts on one connector. */
export const oneConnectorActs = {
  /**
   * Has a worker run it now, and lets this run alone make the deletes that a guard withholds. Throws as `run-now` does,
   * and USAGE if a job of it already waits or runs.
   */
  'allow-deletes': async (connector, world) => {
    const { name } = connector;
    const overview = await overviewNow(connector);
    const withheld = (overview?.missing ?? []).filter((entity) => entity.withheld > 0);
    if (withheld.length === 0) throw usage(`No deletes of ${name} are withheld.`);
    const rows = withheld.map((entity) => `${count(entity.withheld)} of ${entity.entity}`);
    const all = withheld.reduce((sum, entity) => sum + entity.withheld, 0);
    const deletes = counted(all, 'delete');
    const needs = await openRunQueues([connector], world);
    return {
      title: `Allow ${deletes} of ${name}, once`,
      button: `Allow ${deletes}`,
      says: [
        `A worker reads ${name} as soon as it has room.`,
        `Rows that still look deleted then are marked as deleted, even beyond the limits of the config (guards). At the last run these were ${rows.join(', ')}.`,
        'The runs after it withhold deletes again. What is deleted can be undone from the page of the run.',
      ],
      of: [name, ...rows],
      rows: { connector: name, kept: withheld, read: async () => await readAtStake(connector) },
      needs,
      do: async (how) => await enqueueAsked(connector, needs, { allowDeletes: true }, how),
    };
  },
  /** Has a worker read all of it again, whatever has changed. Throws as `allow-deletes` does. */
  'read-all': async (connector, world) => {
    const { name } = connector;
    const overview = await overviewNow(connector);
    const needs = await openRunQueues([connector], world);
    return {
      title: `Read everything of ${name} again`,
      button: 'Read everything again',
      says: [
        `A worker reads every record of ${name} as soon as it has room, not only what has changed: ${counted(overview?.rows ?? 0, 'row')} are stored now.`,
        'It makes as many calls as a first sync, within the rate limit. Rows that are the same stay as they are, and rows that look deleted are held by the guards as always. It can be stopped at any page.',
      ],
      of: [name],
      needs,
      do: async (how) => await enqueueAsked(connector, needs, { isFull: true }, how),
    };
  },
  /** Notes that the new fields need a person no longer. Throws USAGE where there are none. */
  'mark-known': async (connector, world) => {
    const { name, sink } = connector;
    const overview = await overviewNow(connector);
    const { troubles } = healthOf(connector, overview, world.clock.now());
    const news = troubles.flatMap((one) => (one.kind === 'fields' ? one.fields : []));
    if (news.length === 0) throw usage(`No new field of ${name} waits for a person.`);
    const fields = news.map(newsName);
    const misfits = news
      .filter(({ kind }) => kind === 'misfit')
      .map(({ entity, field }) => `${entity}.${field}`);
    const isMisfit = misfits.length === news.length;
    const these = counted(news.length, isMisfit ? 'field' : 'new field');
    return {
      title: isMisfit
        ? `Accept that ${firstNames(misfits, 3)} sometimes ${misfits.length === 1 ? 'does' : 'do'} not fit`
        : `Mark ${these} of ${name} as known`,
      button: isMisfit ? 'Accept it' : `Mark ${these} as known`,
      says: [
        `${firstNames(fields, 20)}.`,
        'They no longer need a person, here, in the terminal and in notifications. Their values stay in _extra as before; fields that appear later are new again.',
      ],
      of: [name, ...fields],
      do: async ({ who, tell }) => {
        await noteIn(sink, { action: 'mark-known', connector: name, detail: { fields } }, { ...world, who });
        tell(`${name}: ${these} marked as known`, { connector: name, known: fields });
      },
    };
  },
} satisfies Readonly<Record<string, Act<ConnectorSettings>>>;

/** Texts of a row: not too long to be shown in a line, and no times. */
const mostChars = 60;
/** Columns that name a record, the best first. */
const namingColumns = ['name', 'full_name', 'title', 'subject', 'label', 'email', 'email_address'];

/**
 * The first rows that a guard keeps, each with a text that names it, and the texts that all rows of an entity have in
 * common. Shows no column that a mask covers.
 */
async function readAtStake(connector: ConnectorSettings) {
  const { name, sink } = connector;
  await using history = await openExistingHistory(sink);
  await using reader = await openExistingRecords(sink);
  const missing = (await history?.missing(name, rowsRead)) ?? [];
  const targets = new Map(targetsOf(connector).map((target) => [target.table.entity, target]));
  const rows: ((typeof missing)[number] & NamedRow)[] = [];
  for (const row of missing) {
    const target = targets.get(row.entity);
    const fields = reader && (await storedFields(reader, name, row.entity, row.keyText));
    const hidden = target === undefined ? [] : [...maskedColumns(target), ...target.table.key];
    const texts = Array.from(fields ?? []).flatMap(([column, value]) => {
      const isShown = typeof value === 'string' && !/^$|^\d{4}-\d\d/.test(value) && value.length <= mostChars;
      return isShown && !hidden.includes(column) ? [[column, value] as const] : [];
    });
    rows.push({ ...row, texts: new Map(texts) });
  }
  const shown = rows.slice(0, rowsShown).map(({ texts, ...row }) => {
    return { ...row, name: texts.get(namingColumns.find((column) => texts.has(column)) ?? '') ?? '' };
  });
  return { shown, common: commonTexts(rows) };
}

interface NamedRow {
  readonly entity: EntityName;
  readonly texts: ReadonlyMap<string, string>;
}

/** Texts that all rows of an entity have, where there are several. */
export function commonTexts(rows: readonly NamedRow[]) {
  return [...grouped(rows, ({ entity }) => entity)].flatMap(([entity, all]) => {
    const same = [...(all[0]?.texts ?? [])].filter(([column, text]) =>
      all.every(({ texts }) => texts.get(column) === text),
    );
    return all.length < 2 || same.length === 0 ? [] : [{ entity, rows: all.length, same: same.slice(0, 3) }];
  });
}

export async function noteIn(
  sink: SinkSettings,
  action: Action,
  how: Pick<OpenHow, 'clock' | 'signal' | 'who'>,
) {
  await using opened = await openSink(sink, how);
  await opened.noteAction(action);
}

/** The state of one connector; null where nothing of it is stored. */
export async function overviewNow(connector: ConnectorSettings) {
  return overviewOf(await readOverviews([connector]), connector);
}

/** Throws USAGE where a job of the connector already waits or runs: that one does something else. */
async function enqueueAsked(
  connector: ConnectorSettings,
  needs: Awaited<ReturnType<typeof openRunQueues>>,
  asked: Parameters<Queues['enqueue']>[2],
  { who, tell }: ActHow,
): Promise<void> {
  const job = await needs.enqueue(connector, { ...asked, by: who });
  const text = queuedText(job);
  if (!job.isNew) {
    throw usage(
      `${job.connector} is ${text}: that run does what it was asked to. Ask again when it has ended.`,
    );
  }
  tell(`${job.connector}: ${text}`, job);
}

/** Acts on a run. */
export const runActs = {
  /** Asks a run to end at its next page, in any process. Throws USAGE for a run that is not running. */
  cancel: async (found, world) => {
    const { run, connector, startedAt } = found.run;
    checkRunning(found.run);
    return {
      title: `Cancel the run of ${connector}`,
      says: [
        `Run ${run} of ${connector}, which started at ${startedAt}, stops at its next page.`,
        'What it stored stays, and the next run resumes from there. A scheduled connector runs again when its time comes, unless it is paused.',
      ],
      of: [run],
      do: async ({ who, tell }) => {
        const ended = await cancelRun(found, { ...world, who });
        tell(
          ended === null
            ? `${connector}: run ${run} stops at its next page, within seconds; what is stored stays.`
            : `${connector}: the process of run ${run} (${ended.pid}) has ended; the next run resumes from what it stored.`,
          { run, connector, isCancelRequested: true, isProcessGone: ended !== null },
        );
      },
    };
  },
  /** Undoes the changes of a run. Throws USAGE where the config has no such connector in the sink of the run. */
  undo: async (found, world) => {
    // Loaded on demand: the other acts run nothing in this process.
    const { connectorOfRun, hasWritten, rowsUndone, undoneTexts, undoRun } = await import('./undo-run.ts');
    const { run: of, report, kind } = found.run;
    const connector = connectorOfRun(world.settings, found);
    const { name } = connector;
    const written = (report?.entities ?? []).filter(hasWritten);
    // A run that was killed has no report, and that of an undo counts no rows that came back.
    const isIdle = report !== null && kind !== 'undo' && written.length === 0;
    if (isIdle) throw usage(`Run ${of} of ${name} has changed nothing.`);
    const rows = written.map(
      ({ entity, deleted, counts: { inserted, updated } }) =>
        `${entity} (${count(inserted)} inserted, ${count(updated)} updated, ${count(deleted)} deleted)`,
    );
    const most = rows.length === 0 ? '' : `: up to ${rows.join(', ')}`;
    return {
      title: `Undo a run of ${name}`,
      says: [
        `Rows that run ${of} inserted are marked as deleted, rows that it deleted come back, and rows that it updated are restored where the history has them${most}.`,
        'Rows that were changed since stay as they are. The next run reads what it inserted or updated again, in full.',
      ],
      of: [of],
      do: async ({ who, tell }) => {
        const command = 'connector-sync undo';
        const { run, entities } = await undoRun(connector, of, { ...world, who, command });
        const undone = [...entities.values()].reduce((sum, one) => sum + rowsUndone(one), 0);
        tell(
          undone === 0
            ? `${name}: nothing that run ${of} did is left to undo.`
            : `${name}: ${counted(undone, 'row')} as before run ${of} (run ${run ?? ''})`,
          { connector: name, of, run, rows: undone, entities },
          [...entities].flatMap(([entity, one]) => undoneTexts(entity, one)),
        );
      },
    };
  },
} satisfies Readonly<Record<string, Act<FoundRun>>>;

/** Has a worker publish into a target now. Throws QUEUE_UNAVAILABLE within two seconds, USAGE as `run-now` does. */
export const publishNow: Act<PublishSettings> = async ({ name, connectors }, world) => {
  const needs = await openQueuesFor(sinksOf(connectors), world);
  return {
    title: `Publish into ${name} now`,
    says: [
      `A worker publishes into ${name} what has changed since its last publication, of ${connectors.map((one) => one.name).join(', ')}. It reads what is stored; no API is called.`,
    ],
    of: [name],
    needs,
    do: async ({ who, tell }) => {
      // All connectors of a target are in one sink.
      const [sinkId = ''] = needs.ids.values();
      const job = await needs.queues.enqueuePublication(sinkId, name, who);
      tell(`${name}: ${queuedText(job)}`, { target: name, sinkId, ...job });
    },
  };
};

function about(connectors: readonly ConnectorSettings[], title: (named: string) => string) {
  const of = connectors.map(({ name }) => name);
  return { title: title(of.length === 1 ? of.join() : counted(of.length, 'connector')), of };
}

/** Names of connectors, of many the first. */
export function listOf(connectors: readonly ConnectorSettings[]): string {
  const names = connectors.map(({ name }) => name);
  return firstNames(names, 50);
}

async function openRunQueues(connectors: readonly ConnectorSettings[], world: ActWorld) {
  await checkNotPaused(connectors, world.program);
  return await openQueuesFor(sinksOf(connectors), world);
}

/** Queues that take jobs of these sinks. Throws as `run-now` does. */
async function openQueuesFor(sinks: readonly SinkSettings[], { settings, program }: ActWorld) {
  const queues = await openQueuesOf(withParts(settings, 'redis'));
  const close = async (): Promise<void> => await queues[Symbol.asyncDispose]();
  try {
    const ids = new Map<SinkSettings, string>();
    for (const sink of sinks) ids.set(sink, await sinkIdOf(sink, queues, program));
    const enqueue = async ({ name, sink }: ConnectorSettings, asked: Parameters<Queues['enqueue']>[2]) => ({
      connector: name,
      ...(await queues.enqueue(ids.get(sink) ?? '', name, asked)),
    });
    return { queues, ids, enqueue, [Symbol.asyncDispose]: close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Makes Redis hold the config's schedules of these sinks, without those of paused connectors. */
export async function writeSchedules(
  settings: LocalSettings,
  queues: Queues,
  sinks: readonly ServedSink[],
  takeOver: readonly string[] = [],
): ReturnType<Queues['apply']> {
  const names = new Set(sinks.map(({ name }) => name));
  const connectors = [...settings.connectors.values()].filter(({ sink }) => names.has(sink.name));
  const overviews = await readOverviews(connectors);
  const known = new Map(connectors.map((one) => [one.name, overviewOf(overviews, one)]));
  return await queues.apply({
    connectors: new Map(connectors.map((one) => [one.name, one])),
    targets: [...settings.publish.values()],
    sinks,
    paused: async (sink) => {
      const stored = [...(overviews.get(sink)?.connectors.values() ?? [])];
      return new Set(stored.filter(({ paused }) => paused !== null).map(({ connector }) => connector));
    },
    takeOver,
    lastRun: async (connector) => known.get(connector)?.lastRun ?? null,
  });
}

/** Opens each sink, where all of them are here, for parts of its connectors. */
async function inEachSink(
  connectors: readonly ConnectorSettings[],
  queues: Queues | null,
  how: Pick<OpenHow, 'clock' | 'signal' | 'who'>,
  work: (sink: Sink, names: readonly ConnectorName[]) => Promise<void>,
): Promise<void> {
  const bySink = connectorsBySink(connectors);
  for (const [sink] of bySink) await checkHere(sink, queues);
  for (const [settings, ofSink] of bySink) {
    await using sink = await openSink(settings, how);
    for (const names of inParts(ofSink.map(({ name }) => name))) await work(sink, names);
  }
}

/** Connectors per transaction or Redis turn. */
const atOnce = 500;

function inParts<One>(all: readonly One[]): readonly (readonly One[])[] {
  const parts = Array.from({ length: Math.ceil(all.length / atOnce) }, (_, part) => part * atOnce);
  return parts.map((first) => all.slice(first, first + atOnce));
}

/** State of a requested job, in words. */
function queuedText({ isNew, state }: { readonly isNew: boolean; readonly state: string }): string {
  if (isNew) return state === 'active' ? 'a worker has taken it' : 'waiting for a worker to take it';
  if (state === 'active') return 'already running';
  return state === 'delayed' ? 'already waiting for its next attempt' : 'already waiting';
}

/** Says that a pause or its end is in effect, although `problem` kept Redis from being updated. */
function unreachedText(problem: string): string {
  return `This is stored in the sink and is in effect. A worker learns of it within a minute, because Redis could not be told: ${problem}`;
}

/** A connector, or one entity of it with its tables, whose progress is discarded. */
interface ResetTarget {
  readonly connector: ConnectorSettings;
  readonly scope: Pick<ResetScope, 'entity' | 'tables'>;
}

/** Lists data that a reset would discard; empty where nothing is stored. */
export async function wouldReset({ connector, scope }: ResetTarget): Promise<readonly EntityStatus[]> {
  const stored = await storedStatus(connector);
  const names = new Set(scope.tables.map(({ entity }) => entity));
  return (stored?.entities ?? []).filter(({ entity }) => scope.entity === null || names.has(entity));
}

/** Null where there is no sink. Throws as `reset` of the sink. */
export async function resetConnector(
  { connector, scope }: ResetTarget,
  withData: boolean,
  how: Pick<OpenHow, 'clock' | 'signal'>,
): Promise<ResetCounts | null> {
  if (!(await accessSink(connector.sink).isThere())) return null;
  await using sink = await openSink(connector.sink, how);
  return await sink.repair.reset(connector.name, { ...scope, withData, now: instant(how.clock.now()) });
}

/* Acts of visitors of the pages, while they run. */

/** A line for a person, its document for a program, and details. */
export type Told = Parameters<ActHow['tell']>;

/** An act that a visitor has asked for. */
export interface Deed {
  readonly id: string;
  /** No one else is shown it. */
  readonly visitor: string;
  readonly title: string;
  readonly atMs: number;
  /** The newest run of each connector when it was asked for. */
  readonly before: ReadonlyMap<ConnectorName, RunFacts>;
  readonly told: Told[];
  state: 'doing' | 'done' | 'failed';
  /** Why it failed, or did not do all. */
  problem: string;
  /** The run that it led to, once one was seen. */
  run: string | null;
}

const mostKept = 500;
const keptMs = 3_600_000;

/** Keeps things of visitors for an hour, in memory. They outlive a reload of the config. */
export function keptForVisitors<One extends Pick<Deed, 'id' | 'visitor' | 'atMs'>>() {
  const byId = new Map<string, One>();
  return {
    keep: (one: One): One => {
      for (const { id, atMs } of byId.values()) {
        if (byId.size >= mostKept || one.atMs - atMs > keptMs) byId.delete(id);
      }
      byId.set(one.id, one);
      return one;
    },
    drop: (id: string): boolean => byId.delete(id),
    /** Null for one that is not kept, or of someone else. */
    find: (id: string, visitor: string, nowMs: number): One | null => {
      const found = byId.get(id);
      return found === undefined || found.visitor !== visitor || nowMs - found.atMs > keptMs ? null : found;
    },
  };
}

/** The random id of something that is kept. */
export function newId(): string {
  return randomBytes(12).toString('base64url');
}

interface DeedWorld extends Pick<ActWorld, 'clock'> {
  readonly deeds: ReturnType<typeof keptForVisitors<Deed>>;
  readonly watched: WatchedSinks;
  readonly log: JobLog;
}

/** A visitor of the pages: the name of the token, and the session, which alone is shown the act. */
interface Actor {
  readonly who: string;
  readonly visitor: string;
}

/** An act that cannot be done. */
export async function refusedDeed(title: string, problem: string, { visitor }: Actor, world: DeedWorld) {
  return Object.assign(await begin(title, visitor, world), { state: 'failed', problem } as const);
}

/** A longer act continues while its page is shown. */
const waitedMs = 1_500;
/** The same where the config is read again for it. */
const reloadMs = 4_000;
const mostLogged = 20;

/** Does the act in the name of the visitor. Resolves after a moment: the page that the deed is shown on follows it. */
export async function carryOut(
  act: PreparedAct,
  { name, ...how }: Pick<ActHow, 'reason' | 'typed'> & { readonly name: string },
  { who, visitor }: Actor,
  world: DeedWorld,
): Promise<Deed> {
  const { log } = world;
  const deed = await begin(act.title, visitor, world);
  const doAct = async (): Promise<void> => {
    try {
      await using _needs = act.needs;
      await act.do({ ...how, who, tell: (...told) => void deed.told.push(told) });
      deed.state = 'done';
    } catch (error) {
      if (!(error instanceof SyncError)) log.error({ err: error }, 'an act failed');
      deed.problem = error instanceof SyncError ? error.message : 'The server failed; its log says why.';
      deed.state = 'failed';
    }
    log.info({ who, act: name, of: act.of.slice(0, mostLogged), end: deed.state }, 'done from a page');
  };
  const over = new AbortController();
  const waiting = slept(systemClock, act.edit === undefined ? waitedMs : reloadMs, over.signal);
  await Promise.race([doAct(), waiting]);
  over.abort();
  return deed;
}

async function begin(title: string, visitor: string, { deeds, watched, clock }: DeedWorld): Promise<Deed> {
  const { overviews } = await watched.overviews();
  const all = [...overviews.values()].flatMap(({ connectors }) => [...connectors.values()]);
  const before = new Map(
    all.flatMap(({ connector, lastRun }) => (lastRun === null ? [] : [[connector, lastRun] as const])),
  );
  const atMs = clock.now();
  return deeds.keep({
    id: newId(),
    visitor,
    title,
    atMs,
    before,
    told: [],
    state: 'doing',
    problem: '',
    run: null,
  });
}

/** The newest run of a connector, where it began after the act, or was under way then. */
function newRun(deed: Deed, lastRun: RunFacts | null): RunFacts | null {
  const before = lastRun === null ? undefined : deed.before.get(lastRun.connector);
  return lastRun?.run === before?.run && before?.state !== 'running' ? null : lastRun;
}

/** Later ones may have ended meanwhile. */
const seenRuns = 20;

/** The run that an act on a connector has led to, with the work of one in progress; null: none so far. */
export async function runOfDeed(deed: Deed, { name, sink }: ConnectorSettings) {
  await using history = await openExistingHistory(sink);
  const runs = (await history?.runs({ connector: name, limit: seenRuns })) ?? [];
  deed.run ??= newRun(deed, runs.find(({ kind }) => kind === 'sync') ?? null)?.run ?? null;
  const run = runs.find((one) => one.run === deed.run);
  if (run === undefined) return null;
  const counts = run.state === 'running' ? ((await history?.counts(run.run)) ?? []) : [];
  const sum = (of: (one: (typeof counts)[number]) => number) => counts.reduce((all, one) => all + of(one), 0);
  return {
    run,
    read: sum(({ fetched, duplicate }) => fetched - duplicate),
    written: sum(({ inserted, updated }) => inserted + updated),
    deleted: (await history?.journal(run.run))?.progress.deleted ?? 0,
  };
}

/** Connectors of an act by how far they are: `waiting`, or the state of the run that it has led to. */
export async function runsOfDeed(
  deed: Deed,
  names: readonly ConnectorName[],
  { settings, watched }: Pick<ActWorld, 'settings'> & Pick<DeedWorld, 'watched'>,
) {
  const { overviews } = await watched.overviews();
  return grouped(names, (name) => {
    const connector = settings.connectors.get(name);
    const last = connector === undefined ? null : (overviewOf(overviews, connector)?.lastRun ?? null);
    return newRun(deed, last)?.state ?? ('waiting' as const);
  });
}

type PublicationJob = Awaited<ReturnType<Queues['publicationJob']>>;

/** Asked of Redis at most every two seconds. */
const asked = new WeakMap<Deed, { readonly atMs: number; readonly job: Promise<PublicationJob> }>();
const askEveryMs = 2_000;

/** How far the publication is that was asked for; null: the act publishes nothing. */
export async function publicationOf(deed: Deed, settings: LocalSettings): Promise<PublicationJob | null> {
  const document = deed.told.flatMap(([, one]) => one ?? []).find((one) => 'job' in one);
  if (document === undefined) return null;
  const nowMs = performance.now();
  const known = asked.get(deed);
  if (known !== undefined && nowMs - known.atMs < askEveryMs) return await known.job;
  const job = publicationJob(document, settings).catch((): PublicationJob => ({ state: 'unknown', end: '' }));
  asked.set(deed, { atMs: nowMs, job });
  return await job;
}

async function publicationJob({ sinkId, job }: WaitingPublication, settings: LocalSettings) {
  await using queues = await openQueuesOf(withParts(settings, 'redis'));
  return await queues.publicationJob(sinkId, job);
}
