import { readOverviews } from '../app/connector-states.ts';
import { readStatuses } from '../app/read-statuses.ts';
import { jsonText, picked } from '../cli/output/json-text.ts';
import type { JsonObject } from '../core/json.ts';
import { usage } from '../core/usage-error.ts';
import { systemClock } from '../core/clock.ts';
import { checkSince, openChanges, type EntityChanges } from '../export/open-changes.ts';
import { jsonlFormat } from '../export/record-format.ts';
import { parseJsonText } from '../http/lossless-json.ts';
import { chosenConnectors, entityTarget } from '../settings/choices.ts';
import { reasonLine } from '../wording/trouble-text.ts';
import { settingsIn } from './open-app.ts';
import type {
  App,
  Change,
  Changes,
  ChangesOptions,
  ConnectorStatus,
  ConnectorTypes,
  Found,
  RecordShape,
  SearchQuery,
  ShapeAt,
} from './shapes.ts';

/**
 * What changed in an entity since a sequence number, in one state of the sink, whichever process writes meanwhile.
 * `target` is `<connector>/<entity>`. Needs no credentials. Rejects with `SyncError` USAGE for an unknown target and
 * for a `since` from which changes are not complete (load the entity again from 0), and SINK_FAILED or
 * SINK_INCOMPATIBLE where the sink cannot be read. Dispose the result: until then the sink's file cannot shrink.
 */
export async function readChanges<Types extends ConnectorTypes, const Target extends string>(
  app: App<Types>,
  target: Target,
  { since = 0, signal }: ChangesOptions = {},
): Promise<Changes<ShapeAt<Types, Target>>> {
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
      [Symbol.asyncIterator]: () => changesOf<ShapeAt<Types, Target>>(changes, signal),
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
export async function search<Types extends ConnectorTypes, const Target extends string>(
  app: App<Types>,
  target: Target,
  { filter, sort, limit = 1_000, cursor, signal = new AbortController().signal }: SearchQuery = {},
): Promise<Found<ShapeAt<Types, Target>>> {
  // Loaded only here: most programs search nothing.
  const { openSearches } = await import('../app/stored-search.ts');
  const once = { deadlineMs: 60_000, processes: 1, maxWaiting: 1 };
  await using searches = openSearches({ clock: systemClock, ...once });
  const asked = { query: { filter, sort }, limit, cursor };
  const { data, meta } = await searches.search({
    target: entityTarget(settingsIn(app), target),
    // As JSON: without what is undefined, and with numbers as they are.
    params: parseJsonText(JSON.stringify(asked)) as JsonObject,
    signal,
    ofType: (directory) => `Read the lines in ${directory}.`,
    ofNothing: 'Sync it first.',
  });
  return {
    // `as`: the searchable fields of the target, which its shape has.
    records: JSON.parse(jsonText(data)) as Found<ShapeAt<Types, Target>>['records'],
    cursor: meta.has_more ? meta.cursor : null,
  };
}

/** What the sinks hold of each connector, as `connector-sync status` shows it. Rejects as `readChanges` does. */
export async function status(app: App): Promise<readonly ConnectorStatus[]> {
  const statuses: ConnectorStatus[] = [];
  const connectors = chosenConnectors(settingsIn(app), []);
  const shown = await readStatuses(connectors, await readOverviews(connectors));
  const style = { program: 'connector-sync', nowMs: systemClock.now() };
  for (const { connector, health, lastRun, status: stored } of shown) {
    statuses.push({
      connector: connector.name,
      health: health.word,
      reason: reasonLine(health, connector.name, style),
      lastRun: lastRun === null ? null : picked(lastRun, 'run', 'state', 'startedAt', 'finishedAt'),
      entities: (stored?.entities ?? []).map(
        ({ entity, rows, deleted, missing, due, quarantined, partMissing, completeness }) => ({
          entity,
          rows,
          deleted,
          missing,
          due,
          quarantined,
          partMissing: partMissing?.listings ?? 0,
          completeness,
        }),
      ),
    });
  }
  return statuses;
}

async function* changesOf<Shape extends RecordShape>(
  changes: EntityChanges,
  signal: AbortSignal | undefined,
): AsyncGenerator<Change<Shape>, void, undefined> {
  const format = jsonlFormat(changes.table);
  for await (const records of changes.records()) {
    for (const stored of records) {
      signal?.throwIfAborted();
      const { seq, changedAt, isDeleted } = stored;
      const record: unknown = JSON.parse(format.text(stored));
      // `as`: a record has the shape that `export` gives it, and a deleted one that of its key.
      yield { kind: isDeleted ? 'delete' : 'upsert', seq, changedAt, record } as Change<Shape>;
    }
  }
}
