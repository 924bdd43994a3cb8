import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { decideMode, type KnownWalks } from './becoming-due.ts';
import { isLeftover } from './due-work.ts';
import type { CurrentRun, HeldConnector, Ledger } from './ledger.ts';
import { inRun } from './transact.ts';

/**
 * Makes ready what is due below parents that this chain did not have to read; gives how many. What lies below a parent that
 * seems to be gone waits, and what nothing leads to any more is due no longer.
 */
export async function findLeftovers(ledger: Ledger, held: HeldConnector): Promise<number> {
  const { run } = held;
  if (run === null) return 0;
  return await inRun(ledger, held, run.run, (current, { now }) => {
    const { connector } = held;
    const { origin, window } = current;
    let count = 0;
    for (const entity of current.entities) {
      const reading = current.reading.get(entity);
      for (const one of inBatches(ledger.leftovers, { connector, window, entity, origin })) {
        const standing = parentStanding(current, one, ledger.leftovers);
        if (standing === 'leads-elsewhere') ledger.leftovers.drop(one.id);
        if (standing !== 'is-there') continue;
        const mode = decideMode(one, reading);
        ledger.partitions.begin({ id: one.id, connector, entity, origin, now, reading, mode });
        count += 1;
      }
    }
    return count;
  });
}

function* inBatches(leftovers: Leftovers, of: LeftoversOf): Generator<Leftover> {
  for (let after = 0; ;) {
    const batch = leftovers.next({ ...of, after });
    yield* batch;
    const last = batch.at(-1);
    if (last === undefined) return;
    after = last.id;
  }
}

type ParentStanding = 'is-there' | 'seems-gone' | 'leads-elsewhere';

/**
 * A full walk of the parent's home after the partition was found last decides: it has either not met the parent, or has met
 * it and was not led here (another variant of the parameters by now, a parent in the trash).
 */
function parentStanding(
  { tables, seen, origin }: CurrentRun,
  { parentEntity, parentKey, foundOrigin }: Leftover,
  leftovers: Leftovers,
): ParentStanding {
  const parent = tables.get(parentEntity)?.table.rowOf(parentKey);
  if (parent === undefined || parent.deletedAt !== null) return 'leads-elsewhere';
  const fullOrigin = parent.home === null ? null : leftovers.fullOrigin(parent.home);
  if (fullOrigin === origin && !seen.has(parentEntity, parent.row)) return 'seems-gone';
  return fullOrigin !== null && fullOrigin > foundOrigin ? 'leads-elsewhere' : 'is-there';
}

export interface Leftovers {
  /** The next thousand of what is due although the chain has not found it. */
  next(of: LeftoversOf & { readonly after: number }): readonly Leftover[];
  /** The chain that last walked a partition in full. */
  fullOrigin(partition: number): number | null;
  /** Nothing leads to it: it is due no more. */
  drop(id: number): void;
}

interface LeftoversOf {
  readonly connector: ConnectorName;
  readonly window: string;
  readonly entity: EntityName;
  readonly origin: number;
}

interface Leftover extends KnownWalks {
  readonly id: number;
  readonly parentEntity: EntityName;
  readonly parentKey: string;
  readonly foundOrigin: number;
}

export function prepareLeftovers(db: Database.Database): Leftovers {
  const next = db.prepare<[LeftoversOf & { readonly after: number }], Leftover>(
    `SELECT id, parent_entity AS parentEntity, parent_key AS parentKey, origin AS foundOrigin,
       due_since AS dueSince, watermark, marker, full_at AS fullAt, sealed_scope AS sealedScope
     FROM _sync_partitions INDEXED BY _sync_partitions_due
     WHERE connector = :connector AND entity = :entity AND backfill = :window AND ${isLeftover} AND id > :after
     ORDER BY id LIMIT 1000`,
  );
  const fullOrigin = db
    .prepare<[number], number | null>('SELECT full_origin FROM _sync_partitions WHERE id = ?')
    .pluck();
  const drop = db.prepare<[number]>(
    `UPDATE _sync_partitions SET due_since = NULL, ready = 0, position = NULL, failure = NULL, failed_at = NULL
     WHERE id = ?`,
  );
  return {
    next: (of) => next.all(of),
    fullOrigin: (partition) => fullOrigin.get(partition) ?? null,
    drop: (id) => void drop.run(id),
  };
}
