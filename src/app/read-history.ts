import { instant } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import { sinksOf } from '../settings/choices.ts';
import type { ConnectorSettings, SinkSettings } from '../settings/settings.ts';
import type { DayOfEntity, RunFacts } from '../sinks/ledger-reader.ts';
import type { LedgerReader } from '../sinks/sink-access.ts';
import { openExistingHistory } from '../sinks/registry.ts';

/** What a connector did lately. */
export interface RecentHistory {
  /** Newest first. */
  readonly runs: readonly RunFacts[];
  /** What became of its rows on this day of UTC; null where nothing changed. */
  readonly today: RowChanges | null;
}

/** The newest runs of each connector, and what changed today. `ledgerOf` null: there is no sink yet. */
export async function readRecentHistory(
  connectors: readonly ConnectorSettings[],
  ledgerOf: (sink: SinkSettings) => Pick<LedgerReader, 'recentRuns' | 'days'> | null,
  runLimit: number,
  nowMs: number,
): Promise<ReadonlyMap<ConnectorName, RecentHistory>> {
  const known = new Map<ConnectorName, RecentHistory>();
  const readSink = async (sink: SinkSettings): Promise<void> => {
    const ledger = ledgerOf(sink);
    const only = connectors.filter((one) => one.sink.name === sink.name).map(({ name }) => name);
    const runs = await ledger?.recentRuns(only, runLimit);
    const days = (await ledger?.days({ since: dayOf(nowMs), only })) ?? [];
    for (const name of only) {
      const today = days.filter(({ connector }) => connector === name);
      known.set(name, {
        runs: runs?.get(name) ?? [],
        today: today.length === 0 ? null : sumOf(today),
      });
    }
  };
  await Promise.all(sinksOf(connectors).map(readSink));
  return known;
}

const shownDays = 30;

/**
 * What happened to one connector, each list newest first and of at most `limit`; `counts`: what the newest run has done
 * so far, `progress` what its process shows of it; `days`: the changes of the last 30 days.
 */
export async function readConnectorHistory(
  { name, sink }: ConnectorSettings,
  { limit, nowMs }: { readonly limit: number; readonly nowMs: number },
) {
  await using history = await openExistingHistory(sink);
  const runs = (await history?.runs({ connector: name, limit })) ?? [];
  const newest = runs[0];
  const since = dayOf(nowMs - (shownDays - 1) * dayMs);
  return {
    runs,
    progress: newest?.state === 'running' ? ((await history?.progress(newest.run)) ?? null) : null,
    counts: newest === undefined ? [] : ((await history?.counts(newest.run)) ?? []),
    actions: (await history?.actions({ connector: name, limit })) ?? [],
    scopeChanges: (await history?.scopeChanges(name, limit)) ?? [],
    drift: (await history?.drift(name)) ?? [],
    changes: (await history?.days({ since, only: [name] })) ?? [],
    /** The days that `changes` is of, oldest first. */
    days: Array.from({ length: shownDays }, (_, index) => dayOf(nowMs - (shownDays - 1 - index) * dayMs)),
  };
}

export type RowChanges = Pick<DayOfEntity, 'added' | 'changed' | 'deleted' | 'revived'>;

export function sumOf(changes: readonly RowChanges[]): RowChanges {
  const sum = { added: 0, changed: 0, deleted: 0, revived: 0 };
  for (const one of changes) {
    sum.added += one.added;
    sum.changed += one.changed;
    sum.deleted += one.deleted;
    sum.revived += one.revived;
  }
  return sum;
}

const dayMs = 24 * 60 * 60 * 1000;

/** Of UTC: `2026-03-01`. */
function dayOf(ms: number): string {
  return instant(ms).slice(0, 10);
}
