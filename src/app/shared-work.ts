import { createHash, randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { EntityGlobs } from './app.ts';
import { instant, type Clock } from '../core/clock.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { ConnectorStatus } from '../sinks/ledger-reader.ts';
import type { Holder, HolderWork } from '../sinks/lease.ts';
import { storedStatus } from '../sinks/registry.ts';

/** What a sync of several connectors has in common with others, according to their ledgers. */
export type SharedWork = Awaited<ReturnType<typeof shareWork>>;

export type DoneRun = NonNullable<Awaited<ReturnType<SharedWork['done']>>>;

export interface AskedWork extends EntityGlobs {
  readonly full: boolean;
  readonly allowDeletes: boolean;
}

/** After a longer pause people want everything to be fresh, and so does a schedule. */
const resumeWithinMs = 30 * 60_000;

/**
 * The newest interrupted command that asked for the same of one of these connectors is resumed, where that was at most
 * half an hour ago. Other commands that ask for the same share the work from now on.
 */
export async function shareWork(connectors: readonly ConnectorSettings[], what: AskedWork, clock: Clock) {
  const asked = createHash('sha256').update(JSON.stringify(what)).digest('hex').slice(0, 16);
  const beganAt = instant(clock.now());
  const resumable = instant(clock.now() - resumeWithinMs);
  const newest: KnownSync[] = [];
  for (const connector of connectors) newest.push(await newestSync(connector, asked));
  const cut = newest
    .filter((sync) => sync !== null)
    // A run that was killed stays `running` in the ledger until its connector is taken again.
    .filter(
      ({ run: { state }, holder }) => state === 'interrupted' || (state === 'running' && isGone(holder)),
    )
    .filter(({ run }) => (run.finishedAt ?? run.startedAt) > resumable)
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

type KnownSync = Awaited<ReturnType<typeof newestSync>>;

/** Null also where something else has held the connector since, or where the run was asked for otherwise. */
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
