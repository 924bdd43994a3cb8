import type Database from 'better-sqlite3';
import type { Instant } from '../../core/clock.ts';
import type { SyncError } from '../../core/errors.ts';
import type { Definition } from '../../definitions/definition.ts';
import { isSinkThere, openReadonlyDatabase } from '../../sinks/ledger/open-database.ts';
import { readConnectors } from '../../sinks/ledger/read-connectors.ts';
import { readFreshness } from '../../sinks/ledger/read-operations.ts';
import { readRuns } from '../../sinks/ledger/read-runs.ts';
import { toSinkError } from '../../sinks/ledger/sink-error.ts';
import { searchableEntities } from './store-entities.ts';
import { storeConnector } from './store-file.ts';
import { problemOf } from './store-problem.ts';

/** What a store's own account says of it. Small, so that it can be sent from process to process. */
export interface StoreLedger {
  /** Of the entities that can be searched and have a table. */
  readonly entities: readonly StoredEntity[];
  /** A sync came to its end, whatever that was. */
  readonly hasEnded: boolean;
  /** When the last sync that was not cut off ended. */
  readonly endedAt: Instant | null;
  /** What the last sync left out; null: nothing. */
  readonly problem: string | null;
}

export interface StoredEntity {
  readonly entity: string;
  /** Without those that were deleted: what a search without a filter finds. */
  readonly records: number;
  /** A sync read all of it. */
  readonly isWhole: boolean;
  readonly updatedAt: Instant | null;
}

export const emptyLedger: StoreLedger = { entities: [], hasEnded: false, endedAt: null, problem: null };

/** So many runs back is looked for one that ended: runs that are killed again and again are rare. */
const runsLookedAt = 20;

/**
 * From the file, read only, in one state; at once, because a store is always a SQLite file of this machine. Empty where there is none, or
 * nothing in it yet. Throws `SyncError` where it cannot be read.
 */
export function readStoreLedger(file: string, definition: Definition): StoreLedger {
  if (!isSinkThere(file)) return emptyLedger;
  const db = openReadonlyDatabase({ file, kind: 'sqlite' });
  try {
    return db.transaction(() => readIn(db, definition)).deferred();
  } catch (error) {
    throw toSinkError(error, file);
  } finally {
    db.close();
  }
}

function readIn(db: Database.Database, definition: Definition): StoreLedger {
  const [status] = readConnectors(db, [storeConnector]);
  const tables = new Map(status?.entities.map((entity) => [String(entity.entity), entity]));
  const whole = new Map(readFreshness(db, storeConnector).map(({ entity, asOf }) => [entity, asOf]));
  const runs = readRuns(db, { connector: storeConnector, kind: 'sync', limit: runsLookedAt });
  const ended = runs.find(({ report }) => report !== null && report.outcome !== 'interrupted');
  return {
    entities: searchableEntities(definition).flatMap(({ name, table, explodedTable }) => {
      const stored = tables.get((explodedTable ?? table).entity);
      if (stored === undefined) return [];
      return [
        {
          entity: name,
          records: stored.rows,
          isWhole: (whole.get(name) ?? null) !== null,
          updatedAt: tables.get(name)?.lastSealedAt ?? null,
        },
      ];
    }),
    hasEnded: ended !== undefined,
    endedAt: ended?.finishedAt ?? null,
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
