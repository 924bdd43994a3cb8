import { execFileSync } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { timeAt } from './soak-accounts.ts';
import type { SoakWorld } from './soak-world.ts';
import { timings, type CrewMember, type WorkerCrew } from './worker-crew.ts';

export interface FaultContext {
  readonly world: SoakWorld;
  readonly crew: WorkerCrew;
  readonly random: () => number;
}

export interface Fault {
  readonly name: string;
  /** How often it occurs in a round; each kind occurs at least once. */
  readonly share: number;
  /** Why this machine cannot produce it; null if it can. */
  readonly unavailable: (world: SoakWorld) => string | null;
  /** Resolves when the fault is over and undone. */
  readonly happen: (context: FaultContext) => Promise<void>;
}

const always = (): null => null;

/** Every kind of fault. */
export const faults: readonly Fault[] = [
  {
    name: 'worker killed',
    share: 3,
    unavailable: always,
    happen: async (context) => {
      const member = anyMember(context);
      if (member !== null) await context.crew.kill(member);
    },
  },
  {
    name: 'worker frozen longer than its lock',
    share: 1,
    unavailable: always,
    happen: async (context) => {
      const member = anyMember(context);
      if (member === null) return;
      member.worker.child.kill('SIGSTOP');
      await pause(timings.lockMs * between(context, 1.2, 2));
      member.worker.child.kill('SIGCONT');
    },
  },
  {
    name: 'Redis killed and restarted',
    share: 1,
    unavailable: always,
    happen: async (context) => {
      await context.world.redis.kill();
      await pause(between(context, 500, 3000));
      await context.world.redis.restart();
    },
  },
  {
    name: 'Redis emptied (FLUSHALL)',
    share: 1,
    unavailable: always,
    happen: async ({ world }) => {
      const client = new Redis(world.redis.url);
      try {
        await client.flushall();
      } finally {
        client.disconnect();
      }
    },
  },
  {
    name: 'disk of a sink full',
    share: 1,
    unavailable: ({ disk }) => (disk.unavailable === null ? null : `no tmpfs: ${disk.unavailable}`),
    happen: async (context) => {
      context.world.disk.fill();
      await pause(between(context, 1000, 4000));
      context.world.disk.free();
    },
  },
  {
    name: 'file size of a worker limited (RLIMIT_FSIZE)',
    share: 1,
    unavailable: () => whyNoLimits(),
    happen: async (context) => {
      const member = anyMember(context);
      if (member === null) return;
      limitFileSize(member, '65536');
      await pause(between(context, 1000, 4000));
      limitFileSize(member, 'unlimited');
    },
  },
  apiFault('throttle', 'API answers 429'),
  apiFault('error', 'API answers 500'),
  apiFault('hang', 'API hangs'),
  {
    name: 'accounts revised',
    share: 3,
    unavailable: always,
    happen: async ({ world }) => {
      // Revise all accounts: they share the service's clock, and a change must not be older than records read before
      // it.
      for (const account of world.connectors) {
        account.revise();
        // Let calls and signals continue: revising an account takes up to some tenths of a second.
        await pause(0);
      }
      world.api.setTime(timeAt(Math.max(...world.connectors.map(({ account }) => account.revision))));
    },
  },
];

function apiFault(mood: 'throttle' | 'error' | 'hang', name: string): Fault {
  return {
    name,
    share: 1,
    unavailable: always,
    happen: async (context) => {
      context.world.api.setMood(mood);
      await pause(between(context, 1000, 4000));
      context.world.api.setMood('pass');
    },
  };
}

function anyMember({ crew, random }: FaultContext): CrewMember | null {
  const living = crew.living();
  return living[Math.floor(random() * living.length)] ?? null;
}

function between({ random }: FaultContext, least: number, most: number): number {
  return least + random() * (most - least);
}

/** Sets only the soft limit, which the same user may raise again. Skips a worker that has ended. */
function limitFileSize({ worker }: CrewMember, bytes: string): void {
  if (worker.child.exitCode !== null || worker.child.signalCode !== null) return;
  execFileSync('prlimit', ['--pid', String(worker.pid), `--fsize=${bytes}:`], { stdio: 'pipe' });
}

function whyNoLimits(): string | null {
  try {
    execFileSync('prlimit', ['--pid', String(process.pid), '--fsize'], { stdio: 'pipe' });
    return null;
  } catch (error) {
    return `no prlimit: ${error instanceof Error ? error.message.split('\n')[0] : String(error)}`;
  }
}
