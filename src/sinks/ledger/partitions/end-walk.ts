import type { Instant } from '../../../core/clock.ts';
import type { EntityName } from '../../../core/names.ts';
import { learnPageLength } from '../../decisions/becoming-due.ts';
import {
  concludeWalk,
  weakestAbsence,
  type Conclusion,
  type EndedWalk,
} from '../../decisions/conclude-walk.ts';
import { writeJson } from '../../../core/json-text.ts';
import { endProof, sealProof } from '../../decisions/seal-proof.ts';
import { standing } from '../../decisions/standing.ts';
import { parseDoubt, parseProof, writePosition } from '../../stored-json.ts';
import type { Absence, PageLength, Position, Seal, UnsealedWalk, WalkMode } from '../../partition.ts';
import type { PageCommit } from '../../sink.ts';
import type { Commit } from '../ledger.ts';
import { dueById, type PartitionRow } from './read-partitions.ts';
import { ask, put, write } from '../../../sql/database.ts';
import { anyDue, anyLive, transition } from './states.ts';
import { walking, type Ids } from './walking.ts';

type Moved = Pick<PageCommit, 'position' | 'seal' | 'followed'>;

/**
 * Notes positions and ends of the walks of a commit's pages, in their order; for each page, which walks are due again
 * because of it. A listing that this chain has already read to its end stays as it is when a page of it is repeated.
 */
export async function moveOn(
  commit: Commit,
  pages: readonly { readonly page: Moved; readonly partition: PartitionRow }[],
): Promise<readonly EarlyEnds[]> {
  const open = new Set(
    pages.flatMap(({ partition }) => (partition.isDue && !partition.isListed ? [partition.id] : [])),
  );
  const positions = new Map<number, Position>();
  const ended: EndedListing[] = [];
  const learned: EarlyEnds[] = [];
  const writeEnds = async (): Promise<void> => {
    const inOrder = [...positions].toSorted(([left], [right]) => left - right);
    const walked = inOrder.map(([id, position]) => ({ id, position: writePosition(position) }));
    if (walked.length > 0) walking.advance(commit.tx, { walked });
    await sealWalks(commit, ended);
    positions.clear();
    ended.length = 0;
  };
  for (const { page, partition } of pages) {
    if (open.has(partition.id)) {
      if (page.seal === null) {
        positions.set(partition.id, page.position);
      } else {
        positions.delete(partition.id);
        ended.push({ partition, seal: page.seal });
        open.delete(partition.id);
      }
    }
    const length = learnPageLength(commit.current.followed, partition.entity, page);
    if (length === null) {
      learned.push({ ids: [], ofRun: [] });
      continue;
    }
    // It is about all walks that ended before it, including those of this commit.
    await writeEnds();
    const early = await unsealEarlyEnds(commit, partition.entity, length);
    for (const id of early.ids) open.add(id);
    learned.push(early);
  }
  await writeEnds();
  return learned;
}

interface EndedListing {
  readonly partition: PartitionRow;
  readonly seal: Seal;
}

/**
 * Ends walks, in the order given. A listing with inner listings counts as sealed only when all of them are read too;
 * they are ledger rows until then, and go in the same transaction. A partition without inner listings is a tree of one.
 */
async function sealWalks(commit: Commit, ended: readonly EndedListing[]): Promise<void> {
  if (ended.length === 0) return;
  const { current, stamp, tx } = commit;
  const { run, chainStartedAt } = current;
  const { now } = stamp;
  sealing.endListing(tx, {
    ended: ended.map(({ partition, seal }) => ({
      id: partition.id,
      proof: writeJson(endProof(seal, partition.proof === null ? null : parseProof(partition.proof))),
      absence: seal.absence,
      size: seal.lastPage?.size ?? null,
      records: seal.lastPage?.records ?? null,
    })),
  });
  const inner = ended.filter(({ partition }) => partition.tree !== null).map(({ partition }) => partition.id);
  if (inner.length > 0) sealing.sealInner(tx, { ids: inner, now, run });
  // If several listings of a tree end in one transaction, the last one's seal counts.
  const byTree = new Map(ended.map((one) => [one.partition.tree ?? one.partition.id, one]));
  const read = await readWholeTrees(tx, { ids: [...byTree.keys()] });
  if (read.length === 0) return;
  const sealed = read.flatMap(({ id, innerAbsences, innerDoubt, ...tree }) => {
    const last = byTree.get(id);
    if (last === undefined) return [];
    const absence = weakestAbsence([tree.absence, ...absencesOf(innerAbsences)]);
    const watermark = last.partition.tree === null ? last.seal.watermark : null;
    const collision = current.collisions.doubts.get(id);
    const inner = innerDoubt === null ? collision : parseDoubt(innerDoubt);
    const ended = { ...parseProof(tree.proof), ...(collision === undefined ? {} : { readAt: null }) };
    const doubted = inner === undefined ? {} : { innerDoubt: inner };
    const proof = sealProof(ended, { mode: tree.mode, now, ...doubted });
    const isDoubted = proof.doubt !== undefined;
    const conclusion = concludeWalk(tree, { isDoubted, absence, watermark, chainStartedAt });
    const scope = current.reading.get(last.partition.entity)?.scope ?? null;
    return [{ id, scope, proof: writeJson(proof), absence, ...conclusion }];
  });
  sealing.seal(tx, { run, now, sealed });
  sealing.dropInner(tx, { trees: sealed.map(({ id }) => id) });
}

interface WholeTree extends EndedWalk {
  readonly id: number;
  readonly proof: string;
  readonly absence: Absence;
  /** Each once; null where the tree has no inner listings. */
  readonly innerAbsences: string | null;
  /** Of several, the same one in each run: their listings are found again, under other ids. */
  readonly innerDoubt: string | null;
}

/** Those of the partitions whose own listing is read, and every listing inside their trees. */
const readWholeTrees = ask<
  { ids: readonly number[] },
  WholeTree
>(`SELECT one.id, one.mode, one.midway = 1 AS is_midway, one.origin, one.watermark, one.found_marker, one.full_at, one.full_origin,
       one.parent_key IS NOT NULL AS is_below_record, one.absence, one.proof,
       (SELECT string_agg(inside.absence, ' ') FROM (
          SELECT DISTINCT coalesce(p.absence, 'null') AS absence FROM _sync_partitions AS p WHERE p.tree = one.id
        ) AS inside) AS inner_absences,
       (SELECT {json inside.proof doubt} FROM _sync_partitions AS inside
        WHERE inside.tree = one.id AND inside.proof LIKE '%"doubt":%' ORDER BY inside.params LIMIT 1) AS inner_doubt
     FROM _sync_partitions AS one
     WHERE one.id IN {ids bigint} AND one.listed = 1 AND ${dueById}
       AND (SELECT count(inside.due_since) FROM _sync_partitions AS inside WHERE inside.tree = one.id) = 0`);

function absencesOf(texts: string | null): readonly Absence[] {
  if (texts === null) return [];
  return texts.split(' ').map((text) => (text === 'null' ? null : (text as Absence)));
}

/** Walks that are due again because of what a page's length has taught. */
interface EarlyEnds {
  readonly ids: readonly number[];
  /** Those of this run. */
  readonly ofRun: readonly UnsealedWalk[];
}

/**
 * Walks that a short page ended, although more comes after pages of that length: makes those that this chain has sealed
 * due again, as if they had never been read: in full, and neither a watermark nor what they did not meet counts.
 */
async function unsealEarlyEnds(
  { held: { connector }, current, stamp: { now }, tx }: Commit,
  entity: EntityName,
  followed: PageLength,
): Promise<EarlyEnds> {
  const { run, origin, window } = current;
  const { size, records } = followed;
  const early = await readEarlyEnds(tx, { connector, entity, window, origin, size, records });
  const ids = early.map(({ id }) => id);
  if (ids.length > 0) await sealing.unseal(tx, { ids, now, origin });
  const ofRun = early.filter(({ sealedRun }) => sealedRun === run);
  return { ids, ofRun: ofRun.map(({ mode, proof }) => ({ mode, proof: parseProof(proof) })) };
}

/** Walks of the chain that ended with a page of this size and at least so many records. */
const readEarlyEnds = ask<
  { connector: string; entity: string; window: string; origin: number; size: number; records: number },
  { readonly id: number; readonly mode: WalkMode; readonly proof: string; readonly sealedRun: string }
>(`SELECT one.id, one.mode, one.proof, one.sealed_run FROM _sync_partitions AS one
     WHERE one.connector = :connector AND one.entity = :entity AND one.backfill = :window AND one.origin = :origin
       AND one.gone = ${standing.live} AND (one.due_since IS NULL OR one.listed = 1)
       AND one.last_page_size = :size AND one.last_page_records >= :records
       AND (one.listed = 1 OR EXISTS (SELECT 1 FROM _sync_runs AS run WHERE run.run = one.sealed_run AND run.origin = :origin))
     ORDER BY one.id`);

/** How walks end. */
export const sealing = {
  // What failed in an earlier run of the chain is forgotten here.
  endListing: transition({
    what: 'its own listing has been read to its end',
    from: ['ready', 'set-aside'],
    to: ['listed'],
    run: put<{ ended: readonly ListedWalk[] }>(
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
  doubt: transition({
    what: 'another listing shows records of its keys with other content: what it proved no longer counts, and the next walk is full',
    from: anyLive,
    to: ['idle', ...anyDue],
    run: write<{ origin: number; doubted: readonly Pick<WholeTree, 'id' | 'proof'>[] }>(
      `UPDATE _sync_partitions AS one SET proof = doubted.proof, watermark = NULL, marker = NULL, full_at = NULL,
        full_origin = nullif(one.full_origin, :origin), sweep_origin = NULL, swept_to = 0
      FROM {doubted: id bigint, proof text} WHERE one.id = doubted.id`,
    ),
  }),
} as const;

interface ListedWalk extends Pick<WholeTree, 'id' | 'proof' | 'absence'> {
  /** Of its last page. */
  readonly size: number | null;
  readonly records: number | null;
}

interface SealedWalk extends Conclusion, Pick<WholeTree, 'id' | 'proof' | 'absence'> {
  readonly scope: string | null;
}
