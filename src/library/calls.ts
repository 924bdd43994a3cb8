import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { RunEnd } from '../app/app.ts';
import { readOverviews } from '../app/connector-states.ts';
import { connectorsHeld, copyConnector } from '../app/copy-connector.ts';
import { openSharingApp } from '../app/open-app.ts';
import { ordinaryPublication, publishTarget } from '../app/publish-target.ts';
import { readStatuses } from '../app/read-statuses.ts';
import { jsonText, picked } from '../cli/output/json-text.ts';
import { systemClock } from '../core/clock.ts';
import { SyncError, usage } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import type { JsonObject } from '../core/json.ts';
import { checkSince, type EntityChanges, openChanges, jsonlFormat } from '../export/exported-changes.ts';
import { parseJsonText } from '../http/lossless-json.ts';
import { openNotifier } from '../notify/open-notifier.ts';
import type { PublishEnd } from '../publish/publication.ts';
import { chosenConnectors, chosenTargets, entityTarget, sinkNamed } from '../settings/choices.ts';
import type { LocalSettings } from '../settings/settings.ts';
import { checkTargets, readSettings, withParts } from '../settings/load-settings.ts';
import type { RunReport } from '../sinks/run-report.ts';
import { reasonLine } from '../wording/connector-text.ts';
import type * as shapes from './shapes.ts';

/** The settings of an app are no part of its shape: they may change with any version. */
const settingsOf = new WeakMap<shapes.App, LocalSettings>();

/**
 * Reads and checks the config. Nothing is connected to and nothing is written before `sync`; the API's credentials may
 * be missing until then. Rejects with `SyncError` CONFIG_INVALID (its message names every mistake) or
 * DEFINITION_INVALID.
 */
export async function openApp<
  const Types extends shapes.ConnectorTypes = shapes.ConnectorTypes,
  const Sinks extends string = string,
>(options: shapes.OpenOptions<Types, Sinks>): Promise<shapes.App<Types>> {
  const { config, env = process.env } = options;
  const file = typeof config === 'string' ? resolve(config) : 'config object';
  if (typeof config === 'string' && !existsSync(file)) {
    throw new SyncError(
      `Expected a config file at ${file}, there is none. Write one with "connector-sync init".`,
      { code: 'CONFIG_INVALID', recovery: 'stop', context: { file } },
    );
  }
  // JSON is YAML: an object takes the way of every config. Its relative paths start in the working directory.
  const text = typeof config === 'string' ? {} : { text: JSON.stringify(config, null, 2) };
  const settings = readSettings({ file, ...text, env });
  const app: shapes.App<Types> = { connectors: [...settings.connectors.keys()] };
  settingsOf.set(app, settings);
  return app;
}

/** @internal */
function settingsIn(app: shapes.App): LocalSettings {
  const settings = settingsOf.get(app);
  if (settings !== undefined) return settings;
  throw usage('Expected what openApp returned, got something else.');
}

/**
 * Changes of an entity since a sequence number, in one state of the sink, whichever process writes meanwhile. `target`
 * is `<connector>/<entity>`. Needs no credentials. Rejects with `SyncError` USAGE for an unknown target and for a
 * `since` from which changes are not complete (load the entity again from 0), and SINK_FAILED or SINK_INCOMPATIBLE if
 * the sink cannot be read. Dispose the result: until then the sink's file cannot shrink.
 */
export async function readChanges<
  Types extends shapes.ConnectorTypes,
  const Target extends shapes.TargetOf<Types>,
>(
  app: shapes.App<Types>,
  target: Target,
  { since = 0, signal }: shapes.ChangesOptions = {},
): Promise<shapes.Changes<shapes.ShapeAt<Types, Target>>> {
  if (!Number.isSafeInteger(since) || since < 0) {
    throw usage(`since: expected a whole number from 0, got ${since}.`);
  }
  const found = entityTarget(settingsIn(app), target);
  const changes = await openChanges(found, since);
  try {
    checkSince(changes, found, since, 'since');
    const { sink, nextSeq, asOf, entities } = await changes.end({ upserts: 0, deletes: 0 });
    return {
      sink,
      nextSeq,
      asOf,
      entities,
      [Symbol.asyncIterator]: () => changesOf<shapes.ShapeAt<Types, Target>>(changes, signal),
      [Symbol.asyncDispose]: () => changes[Symbol.asyncDispose](),
    };
  } catch (error) {
    await changes[Symbol.asyncDispose]();
    throw error;
  }
}

/**
 * One page of the stored records that a query finds, beside any sync. `target` is `<connector>/<entity>`. Needs no
 * credentials. Rejects with `SyncError` SEARCH_INVALID for what cannot be asked, SEARCH_TOO_SLOW after a minute, and
 * USAGE for an unknown target and where there is nothing to search.
 */
export async function search<
  Types extends shapes.ConnectorTypes,
  const Target extends shapes.TargetOf<Types>,
>(
  app: shapes.App<Types>,
  target: Target,
  {
    filter,
    sort,
    limit = 1_000,
    cursor,
    signal = new AbortController().signal,
  }: shapes.SearchQuery<NoInfer<shapes.ShapeAt<Types, Target>>> = {},
): Promise<shapes.Found<shapes.ShapeAt<Types, Target>>> {
  // Loaded only here: most programs search nothing.
  const { openSearches } = await import('../app/stored-search.ts');
  const once = { deadlineMs: 60_000, processes: 1, maxWaiting: 1 };
  await using searches = openSearches({ clock: systemClock, ...once });
  const asked = { query: { filter, sort }, limit, cursor };
  const { data, meta } = await searches.search({
    target: entityTarget(settingsIn(app), target),
    // As JSON: without undefined members, and with numbers as they are.
    params: parseJsonText(JSON.stringify(asked)) as JsonObject,
    signal,
    ofType: (directory) => `Read the lines in ${directory}.`,
    ofNothing: 'Sync it first.',
  });
  return {
    // `as`: the searchable fields of the target, which its shape has.
    records: JSON.parse(jsonText(data)) as shapes.Found<shapes.ShapeAt<Types, Target>>['records'],
    cursor: meta.has_more ? meta.cursor : null,
  };
}

/** States of the connectors in their sinks, as `connector-sync status` shows them. Rejects as `readChanges` does. */
export async function status(app: shapes.App): Promise<readonly shapes.ConnectorStatus[]> {
  const statuses: shapes.ConnectorStatus[] = [];
  const connectors = chosenConnectors(settingsIn(app), []);
  const shown = await readStatuses(connectors, await readOverviews(connectors));
  const style = { program: 'connector-sync', nowMs: systemClock.now() };
  for (const { connector, health, lastRun, status: stored } of shown) {
    statuses.push({
      connector: connector.name,
      health: health.word,
      reason: reasonLine(health, connector.name, style),
      lastRun: lastRun === null ? null : picked(lastRun, 'run', 'state', 'startedAt', 'finishedAt'),
      entities: (stored?.entities ?? []).map(({ partMissing, ...one }) => ({
        ...picked(one, 'entity', 'rows', 'deleted', 'missing', 'due', 'quarantined', 'completeness'),
        partMissing: partMissing?.listings ?? 0,
      })),
    });
  }
  return statuses;
}

async function* changesOf<Shape extends shapes.RecordShape>(
  changes: EntityChanges,
  signal: AbortSignal | undefined,
): AsyncGenerator<shapes.Change<Shape>, void, undefined> {
  const format = jsonlFormat(changes.table);
  for await (const records of changes.records()) {
    for (const stored of records) {
      signal?.throwIfAborted();
      const { seq, changedAt, isDeleted } = stored;
      const record: unknown = JSON.parse(format.text(stored));
      // `as`: a record has the shape that `export` gives it, and a deleted one that of its key.
      yield { kind: isDeleted ? 'delete' : 'upsert', seq, changedAt, record } as shapes.Change<Shape>;
    }
  }
}

/**
 * Publishes stored changes that are not published yet into targets of the config, one after another, each as
 * `connector-sync publish` does. If a target fails, its result has an `error`, and the others are still published.
 * Calls no API. Rejects with `SyncError` USAGE for a name that the config does not have, and with the reason of
 * `signal` once that is aborted: the current publication is not made.
 */
export async function publish(
  app: shapes.App,
  options: shapes.PublishOptions = {},
): Promise<readonly shapes.Publication[]> {
  const settings = settingsIn(app);
  const { signal = new AbortController().signal, newGeneration = false } = options;
  const asked = { ...ordinaryPublication, isNewGenerationAsked: newGeneration };
  await using notifier = await openNotifier({ settings, clock: systemClock, note: () => undefined });
  const results: shapes.Publication[] = [];
  for (const target of chosenTargets(settings, options.targets ?? [])) {
    const { name } = target;
    try {
      checkTargets(settings, [target]);
      const end = await publishTarget(target, {
        ...asked,
        notifier,
        clock: systemClock,
        signal,
        onProgress: ({ connector, entity, rows }) =>
          options.onProgress?.({ target: name, connector, entity, rows }),
      });
      results.push(publicationOf(name, end));
    } catch (error) {
      signal.throwIfAborted();
      const nothing = { publication: null, createdAt: null, upserts: 0, deletes: 0 };
      results.push({ target: name, result: 'failed', ...nothing, error: failureOf(error) });
    }
  }
  return results;
}

function publicationOf(target: string, end: PublishEnd): shapes.Publication {
  const nothing = { publication: null, createdAt: null, upserts: 0, deletes: 0, error: null };
  if (end.kind === 'nothing-stored') return { ...nothing, target, result: end.kind };
  const { publication, createdAt, entities } = (end.kind === 'published' ? end.published : end.newest)
    .manifest;
  const put = end.kind === 'published' ? entities : [];
  const upserts = put.reduce((sum, one) => sum + one.upserts, 0);
  const deletes = put.reduce((sum, one) => sum + one.deletes, 0);
  return { target, result: end.kind, publication, createdAt, upserts, deletes, error: null };
}

/**
 * Copies connectors with their whole state from one sink of the config into another, as `connector-sync copy` does:
 * afterwards the config has to name the other one. A connector that fails does not keep the others from theirs: its
 * result has an `error`. Rejects with `SyncError` USAGE for a name that the config does not have and where there is
 * nothing to copy, and with the reason of `signal` once that is aborted: the next copy resumes.
 */
export async function copy<Types extends shapes.ConnectorTypes>(
  app: shapes.App<Types>,
  options: shapes.CopyOptions<NoInfer<Types>>,
): Promise<readonly shapes.Copied[]> {
  const settings = settingsIn(app);
  const from = sinkNamed(settings, 'from', options.from);
  const to = sinkNamed(settings, 'to', options.to);
  const { connectors: names = [], signal = new AbortController().signal } = options;
  const connectors =
    names.length === 0 ? await connectorsHeld(settings, from) : chosenConnectors(settings, names);
  const copies: shapes.Copied[] = [];
  for (const { name: connector } of connectors) {
    try {
      const { state, rows } = await copyConnector({
        connector,
        from,
        to,
        clock: systemClock,
        signal,
        onProgress: (progress) =>
          options.onProgress?.({ connector, rows: progress.rows, allRows: progress.allRows }),
      });
      copies.push({ connector, state: state === 'begun' ? 'copied' : state, rows, error: null });
    } catch (error) {
      signal.throwIfAborted();
      copies.push({ connector, state: 'failed', rows: 0, error: failureOf(error) });
    }
  }
  return copies;
}

/**
 * Checks config, definitions, credentials, connectors, sinks, targets and Redis, as `connector-sync check` does. The
 * result contains all problems. Rejects with `SyncError` CONFIG_INVALID if credentials are missing.
 */
export async function check(app: shapes.App, options: shapes.CheckOptions = {}): Promise<shapes.Checks> {
  const settings = withParts(settingsIn(app), 'access', 'redis');
  // Loaded only here: most programs check nothing.
  const { runChecks } = await import('../app/setup-checks.ts');
  const { signal = new AbortController().signal, deep = false } = options;
  const context = { signal, clock: systemClock, program: 'connector-sync' };
  const results = await runChecks(context, settings, deep, () => undefined);
  return {
    ok: results.every(({ state }) => state !== 'failed'),
    checks: results.map(({ what, state, detail, code }) =>
      code === undefined ? { what, state, detail } : { what, state, detail, code },
    ),
  };
}

/** An error that is no failure of the work is a fault of the program, and is thrown. */
function failureOf(error: unknown): NonNullable<shapes.Copied['error']> {
  if (!(error instanceof SyncError)) throw error;
  return { code: error.code, message: error.message };
}

/**
 * Syncs connectors, one after another, each as `connector-sync sync` does, and resolves with a result for each that was
 * begun. If a connector fails, its result has an `error`, and the others are still synced. Rejects with `SyncError`
 * USAGE for a name that the config does not have, and CONFIG_INVALID if credentials are missing. Aborting `signal` ends
 * the run after the fetched records are stored, with the outcome `interrupted`; the next sync resumes it.
 */
export async function sync<Types extends shapes.ConnectorTypes>(
  app: shapes.App<Types>,
  options: shapes.SyncOptions<NoInfer<Types>> = {},
): Promise<readonly shapes.SyncResult[]> {
  const settings = withParts(settingsIn(app), 'access', 'redis');
  const connectors = chosenConnectors(settings, options.connectors ?? []);
  const signal = options.signal ?? new AbortController().signal;
  const results: shapes.SyncResult[] = [];
  await using inner = await openSharingApp({
    settings,
    clock: systemClock,
    command: 'a program',
    note: () => undefined,
    onRunEnd: (end) => {
      const result = resultOfEnd(end, signal.aborted);
      if (result === null) return;
      results.push(result);
      options.onProgress?.({ kind: 'ended', connector: end.connector.name, result });
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
      await inner.sync(connector, { globs: { select: [], exclude: [] }, onEvent, run, signal });
    } catch (error) {
      // It is in the results; the other connectors are synced all the same.
      if (!(error instanceof SyncError)) throw error;
    }
  }
  return results;
}

function progressOf(connector: string, event: RunEvent): shapes.Progress | null {
  if (event.kind === 'page-committed') {
    const { entity, counts } = event;
    const { fetched: read, inserted, updated } = counts;
    return { kind: 'stored', connector, entity, read, written: inserted + updated };
  }
  if (event.kind === 'run-started') {
    return { kind: 'started', connector, run: event.run, resumes: event.continues !== null };
  }
  if (event.kind === 'rate-stated') return { kind: 'rate', connector, ...picked(event, 'requestsPerSecond') };
  if (event.kind === 'throttled') return { kind: 'waiting', connector, waitMs: event.waitMs };
  if (event.kind !== 'call-retried') return null;
  return { kind: 'retrying', connector, ...picked(event, 'code', 'attempt', 'attempts', 'waitMs') };
}

function resultOf(report: RunReport): shapes.SyncResult {
  const { entities, rate, error, partMissing } = report;
  return {
    ...picked(report, 'connector', 'run', 'outcome', 'calls', 'resumeAt'),
    ...(rate === undefined ? {} : { rate }),
    error: error && picked(error, 'code', 'message'),
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
function resultOfEnd(end: RunEnd, isAborted: boolean): shapes.SyncResult | null {
  if (end.kind === 'ended') return resultOf(end.report);
  const { connector, error } = end;
  if (!(error instanceof SyncError)) return null;
  const { code, message } = error;
  const outcome = isAborted ? 'interrupted' : 'failed';
  const nothing = { run: null, calls: 0, resumeAt: null, entities: [] };
  return { connector: connector.name, outcome, error: { code, message }, ...nothing };
}
