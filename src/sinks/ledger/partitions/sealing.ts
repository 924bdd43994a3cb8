import type { Instant } from '../../../core/clock.ts';
import type { Conclusion } from '../../decisions/conclude-walk.ts';
import type { Absence } from '../../partition.ts';
import { put, write } from '../../../sql/database.ts';
import { anyLive, transition } from './states.ts';
import type { Ids } from './walking.ts';

/** How walks end. */
export const sealing = {
  // What failed in an earlier run of the chain is forgotten here.
  endListing: transition({
    what: 'its own listing has been read to its end',
    from: ['ready', 'set-aside'],
    to: ['listed'],
    run: put<{ ended: readonly EndedWalk[] }>(
      `UPDATE _sync_partitions AS one SET listed = 1, ready = 0, position = NULL, set_aside_run = NULL, failure = NULL,
        failure_code = NULL, failed_at = NULL, proof = ended.proof, absence = ended.absence, last_page_size = ended.size,
        last_page_records = ended.records
      FROM {ended: id bigint, proof text, absence text, size bigint, records bigint} WHERE one.id = ended.id`,
    ),
  }),
  sealInner: transition({
    what: 'a listing inside a tree is read; its row goes with the seal of the tree',
    from: ['listed'],
    to: ['idle'],
    run: put<Ids & { now: Instant; run: string }>(
      `UPDATE _sync_partitions SET due_since = NULL, sealed_at = :now, sealed_run = :run WHERE id IN {ids bigint}`,
    ),
  }),
  seal: transition({
    what: 'it and every listing inside its tree are read; unswept where its walk says what is missing',
    from: ['listed'],
    to: ['idle', 'unswept'],
    run: put<{ run: string; now: Instant; sealed: readonly SealedWalk[] }>(
      `UPDATE _sync_partitions AS one SET due_since = NULL, listed = 0, sealed_at = :now, sealed_run = :run,
        sealed_scope = sealed.scope, proof = sealed.proof, absence = sealed.absence, watermark = sealed.watermark,
        marker = sealed.marker, full_at = sealed.full_at, full_origin = sealed.full_origin, sweep_origin = sealed.sweep_origin, swept_to = 0
      FROM {sealed: id bigint, scope text, proof text, absence text, watermark text, marker text, full_at text, full_origin bigint,
        sweep_origin bigint}
      WHERE one.id = sealed.id`,
    ),
  }),
  dropInner: transition({
    what: 'listings inside a tree that is sealed, or whose record is deleted or left out',
    from: anyLive,
    to: ['unknown'],
    run: put<{ trees: readonly number[] }>(
      `DELETE FROM _sync_partitions {index _sync_partitions_tree} WHERE tree IN {trees bigint}`,
    ),
  }),
  unseal: transition({
    what: 'a short page ended its walk, and more comes after pages of that length: as if it had never been read',
    from: ['listed', 'idle', 'unswept'],
    to: ['ready'],
    run: write<Ids & { now: Instant; origin: number }>(
      `UPDATE _sync_partitions SET due_since = :now, ready = 1, listed = 0, position = NULL, mode = 'full', midway = 0,
        watermark = NULL, proof = NULL, last_page_size = NULL, last_page_records = NULL, absence = NULL, full_at = NULL,
        full_origin = nullif(full_origin, :origin), sweep_origin = NULL, swept_to = 0
      WHERE id IN {ids bigint}`,
    ),
  }),
} as const;

interface EndedWalk {
  readonly id: number;
  readonly proof: string;
  readonly absence: Absence;
  /** Of its last page. */
  readonly size: number | null;
  readonly records: number | null;
}

interface SealedWalk extends Conclusion {
  readonly id: number;
  readonly scope: string | null;
  readonly proof: string;
  readonly absence: Absence;
}
