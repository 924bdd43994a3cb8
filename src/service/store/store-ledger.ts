import { hash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type ErrorCode, SyncError, usage } from '../../core/errors.ts';
import { isConnectorId, isConnectorName } from '../../core/names.ts';
import type { ConnectorId, ConnectorName, EntityName } from '../../core/names.ts';
import type { Definition, Entity } from '../../definitions/definition.ts';
import { ordinaryChoice, type ChosenEntities } from '../../engine/chosen-entities.ts';
import type { RunSummary } from '../../sinks/ledger-reader.ts';
import { readConnectors } from '../../sinks/ledger/history/history.ts';
import { readFreshness, readRuns } from '../../sinks/ledger/history/overview.ts';
import type { RunReport } from '../../sinks/run-report.ts';
import { isSinkThere } from '../../sinks/sqlite/open-database.ts';
import { readSqliteSink } from '../../sinks/sqlite/readers.ts';
import type { Tx } from '../../sql/database.ts';

/**
 * Interval of full reads below the roots. Root entities are read in full by every sync: they are small, and only a full
 * read shows deletes. Listings below are read when their parent changed, or by their own changes, and in full once a
 * day.
 */
const fullEveryMs = 24 * 60 * 60 * 1000;

/** Entities that can be searched, in the definition's order. */
export function searchableEntities(definition: Definition): readonly Entity[] {
  return [...definition.entities.values()].filter(({ actions }) => actions.has('context_store_search'));
}

/** Entities that a store's sync reads: the searchable ones, and those through which they are found. */
export function storeEntities(definition: Definition): ChosenEntities {
  const wanted = new Set<EntityName>();
  const want = (entity: Entity): void => {
    wanted.add(entity.name);
    for (const name of ordinaryChoice(entity).parents) {
      const parent = definition.entities.get(name);
      if (parent !== undefined && !wanted.has(name)) want(parent);
    }
  };
  for (const entity of searchableEntities(definition)) want(entity);
  return new Map(
    [...definition.entities.values()]
      .filter(({ name }) => wanted.has(name))
      .map((entity) => [entity.name, ordinaryChoice(entity, entity.parents.length === 0 ? 0 : fullEveryMs)]),
  );
}

/**
 * The definition as a store's sync reads it. What a search shows is no longer `volatile`: a change of it alone would
 * otherwise be stored a day late.
 */
export function storeDefinition(definition: Definition): Definition {
  const entities = [...definition.entities].map(([name, entity]): [EntityName, Entity] => {
    const shown = new Set(['*', ...[...entity.searchable.values()].flatMap(({ from }) => from)]);
    // A search of an entity without searchable fields shows every column.
    const isAllShown = entity.searchable.size === 0 && entity.actions.has('context_store_search');
    const volatile = isAllShown ? [] : entity.volatile.filter(([field = '*']) => !shown.has(field));
    return [name, { ...entity, volatile }];
  });
  return { ...definition, entities: new Map(entities) };
}

/** Name of the only connector in a store's file, whatever its name elsewhere. */
export const storeConnector: ConnectorName = nameOf('store');

/**
 * Origin that a store's file records: with other masks it is another store, and one that was filled before is of no
 * use.
 */
export function storeOrigin({ entities }: Definition): string {
  const masks = [...entities].flatMap(([name, { mask }]) =>
    mask === null ? [] : [[name, mask.fingerprint]],
  );
  return `context-store:${masks.length === 0 ? '' : hash('sha256', JSON.stringify(masks), 'hex')}`;
}

/** The SQLite file of a connector's store. Throws `SyncError` USAGE for an id that makes no file name. */
export function storeFile(folder: string, connectorId: string): string {
  return join(folder, 'stores', `${checkedId(connectorId)}.db`);
}

/** The id as the other rooms know it. Throws as `storeFile` does. */
export function checkedId(connectorId: string): ConnectorId {
  if (isConnectorId(connectorId)) return connectorId;
  throw usage(
    `Expected a connector id of letters, digits, "_" and "-", at most 128, got ${JSON.stringify(connectorId.slice(0, 140))}.`,
  );
}

/**
 * Removes a store with the files that SQLite and the lock keep beside it. No process may be writing it. A missing file
 * is no error; rejects with the system's error for one that cannot be removed.
 */
export async function removeStore(file: string): Promise<void> {
  // The file last: while it exists, the others are found again with it.
  for (const beside of [
    '-wal',
    '-shm',
    '-journal',
    `.${storeConnector}.lock`,
    `.${storeConnector}.lock-journal`,
  ]) {
    await rm(`${file}${beside}`, { force: true });
  }
  await rm(file, { force: true });
}

function nameOf(text: string): ConnectorName {
  if (isConnectorName(text)) return text;
  throw new TypeError(`${text} is no name for a connector`);
}

/** State of a store according to its ledger. Small, so that it can be sent from process to process. */
export type StoreLedger = Awaited<ReturnType<typeof readIn>>;

export const emptyLedger: StoreLedger = { entities: [], endedAt: null, problem: null };

/** Runs that are searched back for one that ended: runs that are killed again and again are rare. */
const runsLookedAt = 20;

/**
 * Reads the ledger from the file, read only, in one state. Empty where there is no file, or nothing in it yet. Rejects
 * with `SyncError` where it cannot be read, and where its records are of another `origin`: then it is unusable.
 */
export async function readStoreLedger(file: string, definition: Definition, origin: string) {
  if (!isSinkThere(file)) return emptyLedger;
  await using db = readSqliteSink(file);
  return await db.read(async (tx) => await readIn(tx, definition, origin));
}

async function readIn(tx: Tx, definition: Definition, origin: string) {
  const [status] = await readConnectors(tx, [storeConnector]);
  if (status !== undefined && status.baseUrl !== origin) {
    const message = 'Expected records that were stored with the masks of this server, got others.';
    throw new SyncError(message, { code: 'IDENTITY_CHANGED', recovery: 'stop' });
  }
  const tables = new Map(status?.entities.map((entity) => [String(entity.entity), entity]));
  const freshness = await readFreshness(tx, storeConnector);
  const whole = new Map(freshness.map(({ entity, asOf }) => [entity, asOf]));
  const runs = await readRuns(tx, { connector: storeConnector, kind: 'sync', limit: runsLookedAt });
  const ended = runs.find(({ report }) => report !== null && report.outcome !== 'interrupted');
  return {
    /** State of the entities that can be searched and have a table. */
    entities: searchableEntities(definition).flatMap(({ name, table, explodedTable }) => {
      const stored = tables.get((explodedTable ?? table).entity);
      if (stored === undefined) return [];
      return [
        {
          entity: name,
          /** Count without deleted records: those that a search without a filter finds. */
          records: stored.rows,
          /** A sync read all of it. */
          isWhole: (whole.get(name) ?? null) !== null,
        },
      ];
    }),
    /** When the last sync that was not cut off ended. */
    endedAt: ended?.finishedAt ?? null,
    /** Problem of the last sync; null: none. */
    problem: runs[0] === undefined ? null : problemOf(runs[0]),
  };
}

/** Whether a failure says that a store's file is of no use: it is derived data, and is made again then. */
export function isUnusable(error: SyncError): boolean {
  if (error.code === 'IDENTITY_CHANGED' || error.code === 'SINK_INCOMPATIBLE') return true;
  const cause = error.context['cause'];
  return error.code === 'SINK_FAILED' && typeof cause === 'string' && damaged.test(cause);
}

const damaged = /^SQLITE_(CORRUPT|NOTADB|FORMAT)(_|$)/;

/**
 * Explains why a sync was not complete; null: it was complete. Codes and numbers alone: words of a third party may
 * quote a record, or a credential.
 */
function problemOf({ report }: Pick<RunSummary, 'report'>): string | null {
  if (report === null) return cutOff;
  switch (report.outcome) {
    case 'ok':
      return null;
    case 'interrupted':
      return cutOff;
    case 'partial':
      return report.resumeAt === null
        ? 'The last sync ended before everything was read; the next one resumes.'
        : `The last sync was refused further calls; it resumes at ${report.resumeAt}.`;
    case 'degraded':
      return `The last sync left something out of ${leftOut(report)}.`;
    case 'failed':
      return failedWith(report.error?.code ?? 'INTERNAL');
  }
}

const cutOff = 'The last sync was cut off before its end; the next one resumes.';

export function failedWith(code: ErrorCode): string {
  const advice =
    code === 'AUTH_FAILED' ? 'the third party does not take the credentials' : 'the next sync tries again';
  return `The last sync failed (${code}): ${advice}.`;
}

/** Entities, with the codes of what failed. */
function leftOut({ entities, failures }: RunReport): string {
  const names = entities.flatMap(({ entity, setAside, counts, depthLimited }) =>
    setAside + counts.quarantined + depthLimited === 0 ? [] : [entity],
  );
  const codes = [...new Set(failures.map(({ code }) => code))];
  return `${names.join(', ') || 'some listings'}${codes.length === 0 ? '' : ` (${codes.join(', ')})`}`;
}
