import type { RunEnd } from '../app/app.ts';
import { openSharingApp } from '../app/open-app.ts';
import { systemClock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import { chosenConnectors } from '../settings/choices.ts';
import { withParts } from '../settings/load-settings.ts';
import type { RunReport } from '../sinks/run-report.ts';
import { settingsIn } from './open-app.ts';
import { openEvents } from './open-events.ts';
import type { App, Progress, SyncOptions, SyncResult, SyncRun } from './shapes.ts';

/**
 * Syncs connectors, one after another, each as `connector-sync sync` does, and resolves with a result for each that was
 * begun. A failed connector does not keep the others from theirs: its result has an `error`. Rejects with `SyncError`
 * USAGE for a name that the config does not have, and CONFIG_INVALID where credentials are missing. Aborting `signal`
 * ends the run after what was fetched is stored, with the outcome `interrupted`; the next sync resumes it.
 */
export async function sync(app: App, options: SyncOptions = {}): Promise<readonly SyncResult[]> {
  const settings = withParts(settingsIn(app), 'access', 'redis');
  const connectors = chosenConnectors(settings, options.connectors ?? []);
  const signal = options.signal ?? new AbortController().signal;
  const results: SyncResult[] = [];
  await using inner = await openSharingApp({
    settings,
    clock: systemClock,
    command: 'a program',
    note: () => undefined,
    onRunEnd: (end) => {
      const { connector } = end;
      const result = resultOfEnd(end, signal.aborted);
      if (result === null) return;
      results.push(result);
      options.onProgress?.({ kind: 'ended', connector: connector.name, result });
    },
  });
  for (const connector of connectors) {
    if (signal.aborted) break;
    const onEvent = (event: RunEvent): void => {
      const progress = progressOf(connector.name, event);
      if (progress !== null) options.onProgress?.(progress);
    };
    try {
      const run = { isFull: options.full ?? false };
      const globs = { select: [], exclude: [] };
      await inner.sync(connector, { globs, onEvent, run, signal });
    } catch (error) {
      // It is in the results; the other connectors are synced all the same.
      if (!(error instanceof SyncError)) throw error;
    }
  }
  return results;
}

/**
 * Begins what `sync` does, at once, and gives its events to iterate over. The sync waits for no reader: of more than
 * 1,000 events that are not read the oldest are dropped, and the next one read says how many. Ending the iteration
 * ends neither the sync nor anything else: abort `signal` to end it, and await `results` before the program exits.
 */
export function startSync(app: App, options: SyncOptions = {}): SyncRun {
  const events = openEvents();
  const results = sync(app, {
    ...options,
    onProgress: (progress) => {
      options.onProgress?.(progress);
      events.add(progress);
    },
  });
  const iterator = events.until(results);
  return { results, [Symbol.asyncIterator]: () => iterator };
}

function progressOf(connector: string, event: RunEvent): Progress | null {
  if (event.kind === 'page-committed') {
    const { entity, counts } = event;
    const { fetched: read, inserted, updated } = counts;
    return { kind: 'stored', connector, entity, read, written: inserted + updated };
  }
  if (event.kind === 'run-started') {
    return { kind: 'started', connector, run: event.run, resumes: event.continues !== null };
  }
  if (event.kind === 'rate-stated') {
    return { kind: 'rate', connector, requestsPerSecond: event.requestsPerSecond };
  }
  if (event.kind === 'throttled') return { kind: 'waiting', connector, waitMs: event.waitMs };
  if (event.kind !== 'call-retried') return null;
  const { code, attempt, attempts, waitMs } = event;
  return { kind: 'retrying', connector, code, attempt, attempts, waitMs };
}

function resultOf(report: RunReport): SyncResult {
  const { connector, run, outcome, entities, calls, rate, error, resumeAt, partMissing } = report;
  return {
    connector,
    run,
    outcome,
    calls,
    ...(rate === undefined ? {} : { rate }),
    resumeAt,
    error: error === null ? null : { code: error.code, message: error.message },
    entities: entities.map(({ entity, counts, deleted, withheld, completeness }) => ({
      entity,
      read: counts.fetched,
      written: counts.inserted + counts.updated,
      deleted,
      withheld,
      partMissing: partMissing.find((one) => one.entity === entity)?.listings ?? 0,
      completeness,
    })),
  };
}

/** Null for a fault of the program, which `sync` rejects with. */
function resultOfEnd(end: RunEnd, isAborted: boolean): SyncResult | null {
  if (end.kind === 'ended') return resultOf(end.report);
  const { connector, error } = end;
  if (!(error instanceof SyncError)) return null;
  const { code, message } = error;
  const outcome = isAborted ? 'interrupted' : 'failed';
  const nothing = { run: null, calls: 0, resumeAt: null, entities: [] };
  return { connector: connector.name, outcome, error: { code, message }, ...nothing };
}
