import { setTimeout as pause } from 'node:timers/promises';
import { startWorkerProcess, type WorkerProcess } from '../support/worker-process.ts';
import type { SoakWorld } from './soak-world.ts';

/** Shorter than a worker's defaults, so that a soak of minutes covers what otherwise takes days. */
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
  /** When the crew killed it, in the format of its log; null if it did not. */
  killedAt: string | null;
}

/** How a worker exited that the crew neither killed nor stopped. */
export interface UnexpectedExit {
  readonly code: number | null;
  readonly signal: string | null;
  readonly why: string;
  /** Redis was down at its start, which ends a worker by design: its service manager restarts it. */
  readonly isRedisDown: boolean;
}

export interface WorkerCrew extends AsyncDisposable {
  /** Workers that were not killed or stopped. */
  readonly living: () => readonly CrewMember[];
  /** All workers so far. */
  readonly all: readonly CrewMember[];
  readonly unexpectedExits: readonly UnexpectedExit[];
  readonly restarts: () => number;
  /** Output of workers that is not a log line, except of those that ended because Redis was down. */
  readonly stray: () => readonly string[];
  /** Kills a worker; a new one is started. */
  kill(member: CrewMember): Promise<void>;
  /**
   * Waits until each connector has an `ok` run that started after `since`; resolves with those that have none in time.
   */
  untilAllRan(connectors: readonly string[], since: string, mostMs: number): Promise<readonly string[]>;
  /** Sends SIGTERM to all; resolves with their exit codes or signals. */
  stop(): Promise<readonly (number | string | null)[]>;
}

/** Starts `size` workers of one world and restarts each that ends, as a service manager would. */
export function startCrew(world: Pick<SoakWorld, 'config' | 'env'>, size: number): WorkerCrew {
  const all: CrewMember[] = [];
  const living = new Set<CrewMember>();
  const unexpectedExits: UnexpectedExit[] = [];
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
        const isRedisDown = stray.some((line) => line.includes("code: 'QUEUE_UNAVAILABLE'"));
        unexpectedExits.push({ code, signal, why: why.slice(0, 500), isRedisDown });
        if (isRedisDown) withoutRedis.add(member);
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
    unexpectedExits,
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
      // Polls, because workers may end and start meanwhile.
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
