import { startWorkerProcess, type WorkerProcess } from '../support/worker-process.ts';
import type { SoakWorld } from './soak-world.ts';

/** Shorter than a worker's own, so that a soak of minutes meets what takes days otherwise. */
export const timings = {
  lockMs: 3000,
  stalledMs: 1000,
  reconcileMs: 5000,
  watchdogMs: 5000,
  retryDelayMs: 1000,
  busyDelayMs: 500,
  drainDelayS: 1,
};

const restartDelayMs = 500;

export interface CrewMember {
  readonly worker: WorkerProcess;
  /** When it was killed from here, as its log writes times; null where it was not. */
  killedAt: string | null;
}

/** How a worker ended that nothing here had ended. */
export interface OwnEnd {
  readonly code: number | null;
  readonly signal: string | null;
  readonly why: string;
  /** Redis was not there when it started, which ends a worker by design: its service manager starts it again. */
  readonly isRedisAway: boolean;
}

export interface WorkerCrew extends AsyncDisposable {
  /** Those that were not killed or stopped. */
  readonly living: () => readonly CrewMember[];
  /** Every worker that there ever was. */
  readonly all: readonly CrewMember[];
  readonly ownEnds: readonly OwnEnd[];
  readonly restarts: () => number;
  /** What workers wrote that is no line of their log, but for those that ended because Redis was away. */
  readonly stray: () => readonly string[];
  /** Ends one at once; another takes its place. */
  kill(member: CrewMember): Promise<void>;
  /** Resolves when each connector has an `ok` run that began after that time, with those that have none in time. */
  untilAllRan(connectors: readonly string[], since: string, mostMs: number): Promise<readonly string[]>;
  /** Asks all to end in order; resolves with how they ended. */
  stop(): Promise<readonly (number | string | null)[]>;
}

/** So many workers of one world: one that ends is started again, as a service manager would. */
export function startCrew(world: Pick<SoakWorld, 'config' | 'env'>, size: number): WorkerCrew {
  const all: CrewMember[] = [];
  const living = new Set<CrewMember>();
  const ownEnds: OwnEnd[] = [];
  const withoutRedis = new Set<CrewMember>();
  let isStopping = false;

  const start = (): void => {
    const member: CrewMember = { worker: startWorkerProcess(world, timings), killedAt: null };
    all.push(member);
    living.add(member);
    void member.worker.ended.then(({ code, signal }) => {
      living.delete(member);
      if (isStopping) return;
      if (member.killedAt === null) {
        const { lines, stray } = member.worker;
        const why = stray.find((line) => /^\w*Error: /.test(line)) ?? JSON.stringify(lines.at(-1) ?? '');
        const isRedisAway = stray.some((line) => line.includes("code: 'QUEUE_UNAVAILABLE'"));
        ownEnds.push({ code, signal, why: why.slice(0, 500), isRedisAway });
        if (isRedisAway) withoutRedis.add(member);
      }
      setTimeout(() => {
        if (!isStopping) start();
      }, restartDelayMs);
    });
  };
  for (let started = 0; started < size; started += 1) start();

  const end = async (signal: 'SIGTERM' | 'SIGKILL'): Promise<readonly (number | string | null)[]> => {
    isStopping = true;
    const members = [...living];
    for (const { worker } of members) {
      worker.child.kill('SIGCONT');
      worker.child.kill(signal);
    }
    const ends = await Promise.all(members.map(({ worker }) => worker.ended));
    return ends.map(({ code, signal }) => signal ?? code);
  };
  return {
    living: () => [...living],
    all,
    ownEnds,
    restarts: () => all.length - size,
    stray: () => all.filter((member) => !withoutRedis.has(member)).flatMap(({ worker }) => worker.stray),
    kill: async (member) => {
      member.killedAt = new Date().toISOString();
      living.delete(member);
      member.worker.child.kill('SIGKILL');
      await member.worker.ended;
    },
    untilAllRan: async (connectors, since, mostMs) => {
      const endMs = Date.now() + mostMs;
      const missing = (): readonly string[] => {
        const ran = ranSince(all, since);
        return connectors.filter((name) => !ran.has(name));
      };
      // Workers may come and go, so their lines are looked through now and then.
      while (missing().length > 0 && Date.now() < endMs) await pause(250);
      return missing();
    },
    stop: () => end('SIGTERM'),
    [Symbol.asyncDispose]: async () => {
      await end('SIGKILL');
    },
  };
}

function ranSince(crew: readonly CrewMember[], since: string): ReadonlySet<unknown> {
  const begun = new Set<unknown>();
  const ran = new Set<unknown>();
  for (const { worker } of crew) {
    for (const line of worker.lines.filter(({ time }) => time > since)) {
      if (line['event'] === 'run-started') begun.add(line['run']);
      const isDone = line['event'] === 'run-finished' && line['outcome'] === 'ok';
      if (isDone && begun.has(line['run'])) ran.add(line['connector']);
    }
  }
  return ran;
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
