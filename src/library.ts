import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { openSharingApp } from './app/open-app.ts';
import { systemClock } from './core/clock.ts';
import { SyncError } from './core/errors.ts';
import type { RunEvent } from './core/events.ts';
import { usage } from './core/usage-error.ts';
import { openChanges, type EntityChanges } from './export/open-changes.ts';
import { jsonlFormat } from './export/record-format.ts';
import { chosenConnectors } from './settings/chosen-connectors.ts';
import { entityTarget } from './settings/entity-target.ts';
import { readSettings, withParts } from './settings/load-settings.ts';
import type { ConnectorSettings, LocalSettings } from './settings/settings.ts';
import { storedStatus } from './sinks/registry.ts';
import type { RunReport } from './sinks/run-report.ts';
import type {
  App,
  Change,
  Changes,
  ChangesOptions,
  ConnectorStatus,
  OpenOptions,
  Progress,
  SyncOptions,
  SyncResult,
} from './library-shapes.ts';

export { SyncError };
export type * from './library-shapes.ts';

/** What an app holds is no part of its shape: it may change with any version. */
const settingsOf = new WeakMap<App, LocalSettings>();

/**
 * Reads and checks the config. Nothing is connected to and nothing is written before `sync`; the API's credentials may
 * be missing until then. Rejects with `SyncError` CONFIG_INVALID (its message names every mistake) or
 * DEFINITION_INVALID.
 */
export async function openApp({ config, env = process.env }: OpenOptions): Promise<App> {
  const settings = typeof config === 'string' ? readFile(config, env) : readObject(config, env);
  const app: App = { connectors: [...settings.connectors.keys()] };
  settingsOf.set(app, settings);
  return app;
}

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
      if (end.kind === 'ended') results.push(resultOf(end.report));
      else if (end.error instanceof SyncError) {
        results.push(notBegun(end.connector, end.error, signal.aborted));
      }
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
 * What changed in an entity since a sequence number, in one state of the sink, whichever process writes meanwhile.
 * `target` is `<connector>/<entity>`. Needs no credentials. Rejects with `SyncError` USAGE for an unknown target and
 * for a `since` that this sink never gave (load the entity again from 0), and SINK_FAILED or SINK_INCOMPATIBLE where
 * the sink cannot be read. Dispose the result: until then the sink's file cannot shrink.
 */
export async function readChanges(
  app: App,
  target: string,
  { since = 0, signal }: ChangesOptions = {},
): Promise<Changes> {
  if (!Number.isSafeInteger(since) || since < 0) {
    throw usage(`since: expected a whole number from 0, got ${since}.`);
  }
  const found = entityTarget(settingsIn(app), target);
  const changes = await openChanges(found, since);
  try {
    if (since > changes.newestSeq) {
      throw usage(
        `since ${since}: the sink has given numbers up to ${changes.newestSeq} only, so this one is of another sink. Load ${target} again from 0.`,
      );
    }
    const { sink, nextSeq, asOf, entities } = await changes.end({ upserts: 0, deletes: 0 });
    return {
      sink,
      nextSeq,
      asOf,
      entities,
      [Symbol.asyncIterator]: () => changesOf(changes, signal),
      [Symbol.asyncDispose]: () => changes[Symbol.asyncDispose](),
    };
  } catch (error) {
    await changes[Symbol.asyncDispose]();
    throw error;
  }
}

/** What the sinks hold of each connector, as `connector-sync status` shows it. Rejects as `readChanges` does. */
export async function status(app: App): Promise<readonly ConnectorStatus[]> {
  const statuses: ConnectorStatus[] = [];
  for (const { name, sink } of chosenConnectors(settingsIn(app), [])) {
    const stored = await storedStatus({ name, sink });
    const last = stored?.lastRun ?? null;
    statuses.push({
      connector: name,
      lastRun:
        last === null
          ? null
          : { run: last.run, state: last.state, startedAt: last.startedAt, finishedAt: last.finishedAt },
      entities: (stored?.entities ?? []).map(
        ({ entity, rows, deleted, missing, due, quarantined, unproven }) => ({
          entity,
          rows,
          deleted,
          missing,
          due,
          quarantined,
          unproven: unproven?.listings ?? 0,
        }),
      ),
    });
  }
  return statuses;
}

function readFile(config: string, env: NonNullable<OpenOptions['env']>): LocalSettings {
  const file = resolve(config);
  if (existsSync(file)) return readSettings({ file, env });
  throw new SyncError(
    `Expected a config file at ${file}, there is none. Write one with "connector-sync init".`,
    {
      code: 'CONFIG_INVALID',
      recovery: 'stop',
      context: { file },
    },
  );
}

/** JSON is YAML: the object takes the way of every config. Its relative paths start in the working directory. */
function readObject(config: object, env: NonNullable<OpenOptions['env']>): LocalSettings {
  return readSettings({ file: 'config object', text: JSON.stringify(config, null, 2), env });
}

function settingsIn(app: App): LocalSettings {
  const settings = settingsOf.get(app);
  if (settings !== undefined) return settings;
  throw usage('Expected what openApp returned, got something else.');
}

function progressOf(connector: string, event: RunEvent): Progress | null {
  if (event.kind === 'page-committed') {
    const { entity, counts } = event;
    const { fetched: read, inserted, updated } = counts;
    return { kind: 'stored', connector, entity, read, written: inserted + updated };
  }
  if (event.kind === 'throttled') return { kind: 'waiting', connector, waitMs: event.waitMs };
  if (event.kind !== 'call-retried') return null;
  const { code, attempt, attempts, waitMs } = event;
  return { kind: 'retrying', connector, code, attempt, attempts, waitMs };
}

function resultOf(report: RunReport): SyncResult {
  const { connector, run, outcome, entities, calls, error, resumeAt, unproven } = report;
  return {
    connector,
    run,
    outcome,
    calls,
    resumeAt,
    error: error === null ? null : { code: error.code, message: error.message },
    entities: entities.map(({ entity, counts, deleted, withheld }) => ({
      entity,
      read: counts.fetched,
      written: counts.inserted + counts.updated,
      deleted,
      withheld,
      unproven: unproven.find((one) => one.entity === entity)?.listings ?? 0,
    })),
  };
}

function notBegun(
  connector: ConnectorSettings,
  { code, message }: SyncError,
  isAborted: boolean,
): SyncResult {
  const outcome = isAborted ? 'interrupted' : 'failed';
  const nothing = { run: null, calls: 0, resumeAt: null, entities: [] };
  return { connector: connector.name, outcome, error: { code, message }, ...nothing };
}

async function* changesOf(
  changes: EntityChanges,
  signal: AbortSignal | undefined,
): AsyncGenerator<Change, void, undefined> {
  const format = jsonlFormat(changes.table);
  for await (const records of changes.records()) {
    for (const record of records) {
      signal?.throwIfAborted();
      const { seq, changedAt, isDeleted } = record;
      // `as`: the text of a record is a JSON object, in the shape that `export` gives it.
      const fields = JSON.parse(format.text(record)) as Record<string, unknown>;
      yield { kind: isDeleted ? 'delete' : 'upsert', seq, changedAt, record: fields };
    }
  }
}
