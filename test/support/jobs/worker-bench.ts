import { setTimeout as pause } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { isConnectorName, type ConnectorName, type EntityName, type RunId } from '../../../src/core/names.ts';
import { Secret } from '../../../src/core/secret.ts';
import type { WorkerEvent } from '../../../src/core/events.ts';
import type { AskedBackfill } from '../../../src/jobs/open-queue-set.ts';
import { openQueues } from '../../../src/jobs/open-queues.ts';
import type {
  JobLog,
  LastRun,
  RunJob,
  RunningWorker,
  RunRequest,
  RunResult,
  ServedSink,
  WorkerOptions,
} from '../../../src/jobs/worker-context.ts';
import { startWorker } from '../../../src/jobs/start-worker.ts';
import type { Schedule, Settings } from '../../../src/settings/settings.ts';
import { startRedis, type RedisOptions } from '../redis.ts';

export const password = 'pw-for-this-test-only';
export const prefix = 'connector-sync';
export const warehouse: ServedSink = { name: 'warehouse', id: 'w1', place: '/data/warehouse.db' };
export const newsletter = nameOf('newsletter');
export const wiki = nameOf('wiki');

type ScheduleOptions = Partial<Pick<Schedule, 'jitterMs' | 'missed'>>;
type CronSchedule = Extract<Schedule, { kind: 'cron' }>;

/** A schedule that never fires, for connectors whose jobs the test adds. */
export const yearly = cron('0 0 1 1 *');
export const everySecond = cron('* * * * * *');

export function cron(pattern: string, more: ScheduleOptions = {}): CronSchedule {
  return { kind: 'cron', pattern, timezone: 'UTC', jitterMs: 0, missed: 'once', ...more };
}

export function every(everyMs: number, more: ScheduleOptions = {}): Schedule {
  return { kind: 'every', everyMs, jitterMs: 0, missed: 'once', ...more };
}

export function nameOf(text: string): ConnectorName {
  if (!isConnectorName(text)) throw new Error(`${text} should be a connector name`);
  return text;
}

export const ok: RunResult = { outcome: 'ok', error: null, resumeAt: null };
/** A backfill of one window that ends on this day of January. */
export function windowUntil(day: number): AskedBackfill {
  const until = `2026-01-0${day}T00:00:00.000Z`;
  return { entities: ['campaigns' as EntityName], since: '2026-01-01T00:00:00.000Z', until, window: '1d' };
}

/** For workers whose tests have no backfills. */
const noBackfill = (): Promise<never> => Promise.reject(new Error('this worker was to run no backfill'));
export const interrupted: RunResult = { ...ok, outcome: 'interrupted' };
export const someRun = '01-run' as RunId;

/** A line of a worker's log. */
export interface BenchLine {
  readonly level: 'info' | 'warn' | 'error';
  readonly facts: Readonly<Record<string, unknown>>;
  readonly message: string;
}

export type RunConnector = (connector: ConnectorName, request: RunRequest) => Promise<RunResult>;
export type RunBackfill = (
  backfill: AskedBackfill,
  connector: ConnectorName,
  request: RunRequest,
) => Promise<RunResult>;

/** Runs jobs by what a test says of each kind. */
export function runsOf(runConnector: RunConnector, runBackfill: RunBackfill = noBackfill): RunJob {
  return (work, request) =>
    work.kind === 'sync'
      ? runConnector(work.connector, request)
      : runBackfill(work.backfill, work.connector, request);
}

export type WorkerBench = Awaited<ReturnType<typeof openWorkerBench>>;

export type Schedules = Readonly<Record<string, Schedule | null>>;

/** A lock of 2 s, so that crash tests are shorter than with the default timings. */
export const shortTimings = {
  lockMs: 2000,
  stalledMs: 500,
  busyDelayMs: 100,
  retryDelayMs: 100,
  drainDelayS: 1,
};

/** A private Redis with workers whose runs the test defines. */
export async function openWorkerBench(options: RedisOptions = {}) {
  const redis = await startRedis({ password, ...options });
  const client = new Redis(redis.url, { maxRetriesPerRequest: null, retryStrategy: () => 100 });
  client.on('error', () => undefined);
  const syncs = new Queue(`syncs-${warehouse.id}`, { connection: client, prefix });
  const ticks = new Queue('ticks', { connection: client, prefix });
  for (const queue of [syncs, ticks]) queue.on('error', () => undefined);
  const lines: BenchLine[] = [];
  const events: WorkerEvent[] = [];
  const watchers = new Set<() => void>();
  const workers: RunningWorker[] = [];
  const log = logInto(lines);
  const settings = (schedules: Schedules): Pick<Settings, 'redis' | 'connectors'> => ({
    redis: { url: new Secret(redis.url), isConfigured: true, prefix },
    connectors: connectorsOf(schedules),
  });
  const queues = await openQueues(settings({}));
  return {
    redis,
    /** A separate client for the test. */
    client,
    syncs,
    ticks,
    queues,
    lines,
    events,
    settings,
    async start(
      schedules: Schedules,
      runConnector: RunConnector,
      { runBackfill, ...more }: Partial<WorkerOptions> & { readonly runBackfill?: RunBackfill } = {},
    ) {
      const worker = await startWorker({
        settings: settings(schedules),
        serves: () => true,
        sinks: [warehouse],
        ledger: emptyLedger,
        run: runsOf(runConnector, runBackfill),
        log,
        observe: (event) => {
          events.push(event);
          for (const watch of watchers) watch();
        },
        ...more,
        timings: { ...shortTimings, ...more.timings },
      });
      workers.push(worker);
      return worker;
    },
    /** Resolves when that many matching events, past or future, have been observed. */
    untilEvents(matches: (event: WorkerEvent) => boolean, count = 1): Promise<readonly WorkerEvent[]> {
      return new Promise((resolve) => {
        const watch = (): void => {
          const found = events.filter(matches);
          if (found.length < count) return;
          watchers.delete(watch);
          resolve(found);
        };
        watchers.add(watch);
        watch();
      });
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(workers.map((worker) => worker.stop()));
      await queues[Symbol.asyncDispose]();
      client.disconnect();
      await redis.stop();
    },
  };
}

export function connectorsOf(schedules: Schedules): Settings['connectors'] {
  const entries = Object.entries(schedules).map(([text, schedule]) => {
    const name = nameOf(text);
    return [name, { name, schedule, sink: { name: warehouse.name } }] as const;
  });
  return new Map(entries) as unknown as Settings['connectors'];
}

export const emptyLedger = {
  pause: () => Promise.resolve(null),
  paused: () => Promise.resolve(new Set<ConnectorName>()),
  lastRun: () => Promise.resolve(null),
  freshUntil: () => Promise.resolve(null),
  lost: () => Promise.resolve(null),
};

/** A ledger with one last run. */
export function ledgerWith(last: () => LastRun | null): WorkerOptions['ledger'] {
  return { ...emptyLedger, lastRun: () => Promise.resolve(last()) };
}

export function logInto(lines: BenchLine[]): JobLog {
  const add =
    (level: BenchLine['level']) =>
    (facts: object, message: string): void => {
      lines.push({ level, facts: { ...facts }, message });
    };
  return { info: add('info'), warn: add('warn'), error: add('error') };
}

export function isEnd(
  end: Extract<WorkerEvent, { kind: 'job-ended' }>['end'],
): (event: WorkerEvent) => boolean {
  return (event) => event.kind === 'job-ended' && event.end === end;
}

/** A long run, which ends when it is aborted. */
export function untilAborted(begun: () => void = () => undefined): RunConnector {
  return (_, { signal }) =>
    new Promise((resolve) => {
      signal.addEventListener('abort', () => resolve(interrupted), { once: true });
      begun();
    });
}

export type Collected<Value> = ReturnType<typeof collect<Value>>;

/** Collects values, and lets tests wait for a number of them. */
export function collect<Value>() {
  const values: Value[] = [];
  const waiting = new Set<() => void>();
  return {
    values: values as readonly Value[],
    add: (value: Value) => {
      values.push(value);
      for (const look of waiting) look();
    },
    /** Resolves with all values when there are that many. */
    until: (count: number) =>
      new Promise<readonly Value[]>((resolve) => {
        const look = (): void => {
          if (values.length < count) return;
          waiting.delete(look);
          resolve([...values]);
        };
        waiting.add(look);
        look();
      }),
  };
}

/** Polls every few milliseconds until the condition is true, for changes in Redis that emit no event. */
export async function eventually(isTrue: () => Promise<boolean>): Promise<void> {
  while (!(await isTrue())) await pause(20);
}
