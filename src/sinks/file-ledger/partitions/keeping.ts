import type { Instant } from '../../../core/clock.ts';
import { factColumns, type FactValue } from '../../copies/facts.ts';
import { inScope, type BoundScope } from './read-partitions.ts';
import { standing } from '../../decisions/standing.ts';
import { anyDue, anyKnown, anyLive, transition } from './states.ts';

const ofEntities = 'connector = :connector AND entity IN (SELECT value FROM json_each(:entities))';
const aged = `SELECT id FROM _sync_partitions INDEXED BY _sync_partitions_aged
        WHERE connector = :connector AND entity = :entity AND due_since IS NULL
          AND backfill = '' AND parent_key IS NOT NULL AND tree IS NULL AND gone = ${standing.live}`;

const copiedColumns = factColumns('partitions').flatMap(({ name, isDerived }) => (isDerived ? [] : [name]));

/** What a new chain of runs, the age of partitions, a person and a damaged file do to them. */
export const keeping = {
  // The index holds the few listings inside trees; any other would lead through all partitions.
  dropHalfRead: transition<BoundScope>({
    what: 'a new chain begins: listings inside trees are found anew',
    from: anyLive,
    to: ['unknown'],
    by: ['start-run'],
    sql: `DELETE FROM _sync_partitions INDEXED BY _sync_partitions_tree WHERE tree IS NOT NULL AND ${inScope}`,
  }),
  stopSweep: transition<BoundScope>({
    what: 'a new chain begins: what was to be swept for an earlier one is not swept any more',
    from: ['unswept', ...anyDue, 'resting'],
    to: ['idle', ...anyDue, 'resting'],
    by: ['start-run'],
    sql: `UPDATE _sync_partitions INDEXED BY _sync_partitions_sweep SET sweep_origin = NULL, swept_to = 0
      WHERE sweep_origin IS NOT NULL AND ${inScope}`,
  }),
  startOver: transition<BoundScope & { readonly leaves: string; readonly keepAfter: Instant }>({
    what: 'a new chain begins: roots are found anew, what lies below a record waits',
    from: anyDue,
    to: ['idle', 'unswept', 'waiting'],
    by: ['start-run'],
    sql: `UPDATE _sync_partitions SET ready = 0, listed = 0, set_aside_run = NULL,
        position = CASE WHEN set_aside_run IS NOT NULL AND failed_at > :keepAfter
                          AND (sealed_at IS NULL OR mode = 'incremental')
                          AND entity IN (SELECT value FROM json_each(:leaves)) THEN position END,
        due_since = CASE WHEN parent_key IS NOT NULL THEN due_since END,
        failure = CASE WHEN parent_key IS NOT NULL THEN failure END,
        failed_at = CASE WHEN parent_key IS NOT NULL THEN failed_at END
      WHERE ${inScope} AND due_since IS NOT NULL`,
  }),
  park: transition<{ readonly connector: string }>({
    what: 'a new chain begins that does not read the entity',
    from: ['ready'],
    to: ['waiting'],
    by: ['start-run'],
    sql: "UPDATE _sync_partitions SET ready = 0 WHERE connector = :connector AND backfill = '' AND ready = 1",
  }),
  // Without a time, too, or with an impossible one: a full walk that was never swept, or whose proof was withdrawn. Each is a range of the index.
  age: transition<Ageing>({
    what: 'a new chain begins: what lies below a record was not read in full for too long',
    from: ['idle'],
    to: ['waiting'],
    by: ['start-run'],
    sql: `UPDATE _sync_partitions SET due_since = :now, ready = 0 WHERE id IN (
        ${aged} AND full_at <= :fullBefore UNION ALL ${aged} AND full_at > :believedUntil UNION ALL ${aged} AND full_at IS NULL)`,
  }),
  release: transition<{ readonly id: number }>({
    what: 'nothing leads to it any more',
    from: ['waiting', 'set-aside'],
    to: ['idle', 'unswept'],
    by: ['partitions/find-partition'],
    sql: `UPDATE _sync_partitions SET due_since = NULL, ready = 0, position = NULL, failure = NULL, failed_at = NULL
      WHERE id = :id`,
  }),
  forget: transition<{ readonly id: number }>({
    what: 'nothing has led to it, or was read in it, for too long',
    from: ['idle', 'unswept', 'emptied', 'resting'],
    to: ['unknown'],
    by: ['finish'],
    sql: 'DELETE FROM _sync_partitions WHERE id = :id',
  }),
  abandon: transition<{ readonly connector: string; readonly since: Instant }>({
    what: 'of a backfill that was not resumed for too long',
    from: anyKnown,
    to: ['unknown'],
    by: ['finish'],
    sql: "DELETE FROM _sync_partitions WHERE connector = :connector AND backfill <> '' AND found_at < :since",
  }),
  dropWindow: transition<{ readonly connector: string; readonly window: string }>({
    what: 'of a window of a backfill that is done, or begins anew',
    from: anyKnown,
    to: ['unknown'],
    by: ['finish', 'start-run'],
    sql: "DELETE FROM _sync_partitions WHERE connector = :connector AND backfill = :window AND backfill <> ''",
  }),
  dropUnfinished: transition<OfEntities>({
    what: 'a reset: listings inside trees, and those of backfills',
    from: anyKnown,
    to: ['unknown'],
    by: ['repair/ledger-repair'],
    sql: `DELETE FROM _sync_partitions WHERE ${ofEntities} AND (tree IS NOT NULL OR backfill <> '')`,
  }),
  readAgain: transition<OfEntities & { readonly now: Instant }>({
    what: 'a reset: due from the start, and ready where the unfinished run reads the entity',
    from: anyLive,
    to: ['ready', 'waiting'],
    by: ['repair/ledger-repair'],
    sql: `UPDATE _sync_partitions SET position = NULL, mode = 'full', midway = 0, watermark = NULL, marker = NULL, found_marker = NULL,
        sealed_at = NULL, sealed_run = NULL, sealed_scope = NULL, proof = NULL, absence = NULL, full_at = NULL, full_origin = NULL,
        sweep_origin = NULL, swept_to = 0, listed = 0, set_aside_run = NULL, failure = NULL, failed_at = NULL,
        due_since = :now, ready = entity IN (SELECT value FROM json_each(
          (SELECT scope FROM _sync_runs WHERE connector = :connector AND chain = '' ORDER BY number DESC LIMIT 1), '$.entities'
        ))
      WHERE ${ofEntities} AND gone = ${standing.live}`,
  }),
  dropConnector: transition<{ readonly connector: string }>({
    what: 'a reset of a whole connector with its data, or a copy that begins again',
    from: anyKnown,
    to: ['unknown'],
    by: ['copies/copy-in', 'repair/ledger-repair'],
    sql: 'DELETE FROM _sync_partitions WHERE connector = :connector',
  }),
  copyIn: transition<Readonly<Record<string, FactValue>>>({
    what: 'a copy from another sink: as it is there',
    from: ['unknown'],
    to: anyKnown,
    by: ['copies/write-facts'],
    sql: `INSERT INTO _sync_partitions (connector, ${copiedColumns.join(', ')})
      VALUES (:connector, ${copiedColumns.map((name) => `:${name}`).join(', ')})`,
  }),
  // A walk from a position or a watermark on would not meet the rows that are lost.
  distrust: transition<{ readonly connector: string }>({
    what: 'stored rows were lost: every walk begins anew and in full',
    from: anyKnown,
    to: ['idle', ...anyDue, 'ended', 'emptied', 'resting'],
    by: ['acquire'],
    sql: `UPDATE _sync_partitions SET position = NULL, watermark = NULL, marker = NULL, full_at = NULL, sweep_origin = NULL
      WHERE connector = :connector`,
  }),
} as const;

interface Ageing {
  readonly connector: string;
  readonly entity: string;
  readonly fullBefore: Instant;
  readonly believedUntil: Instant;
  readonly now: Instant;
}

interface OfEntities {
  readonly connector: string;
  /** JSON array of names. */
  readonly entities: string;
}
