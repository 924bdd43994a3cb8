import type { EntityName } from '../../core/names.ts';
import { sumsByEntity } from '../../core/records.ts';
import { countPage, countPartial, addCounts, keepQuarantined } from './counts.ts';
import { ask } from '../../sql/database.ts';
import type { CommittedPage, PageCommit } from '../sink.ts';
import { noteDrift } from './drift/note-drift.ts';
import type { Commit } from './ledger.ts';
import {
  findPartitions,
  meetFound,
  type Finding,
  partitionsBelow,
  partitionsById,
  type PartitionRow,
} from './partitions/due-partitions.ts';
import { withoutPurged, type WithheldPage } from './purges/purge-notes.ts';
import { dueById, transitions } from './partitions/transitions.ts';
import { readStored, storeRows, type KnownRows } from './store-rows.ts';
import type { Instant } from '../../core/clock.ts';
import { writeJson } from '../../core/json.ts';
import {
  learnPageLength,
  concludeWalk,
  weakestAbsence,
  type EndedWalk,
  standing,
} from '../decisions/becoming-due.ts';
import type {
  Absence,
  Doubt,
  PageLength,
  Position,
  Seal,
  StoredProof,
  UnsealedWalk,
  WalkMode,
} from '../partition.ts';
import { parseDoubt, parseProof, writePosition } from '../stored-json.ts';

interface PlacedPage {
  readonly page: WithheldPage;
  readonly partition: PartitionRow;
}

/**
 * Stores whole pages with their positions, children and seals in one transaction, each step for all of them: a round
 * trip costs as much as hundreds of rows. The result is that of one page after the other; counts come in the pages'
 * order. A page committed a second time (after a crash, the engine asks for it again) finds its rows already met and
 * its children already found: it yields duplicates and changes nothing else.
 */
export async function commitPages(
  commit: Commit,
  given: readonly PageCommit[],
): Promise<readonly CommittedPage[]> {
  const { connector, current, tx, stamp } = commit;
  const pages = given.map((page) => withoutPurged(current.purged, page));
  const ids = pages.map(({ walk }) => walk.partition);
  const shown = pages.flatMap(({ rows }) => rows);
  const children = [
    ...pages.flatMap((page) => page.children),
    ...(await partitionsBelow(tx, connector, partialParents(commit, pages))),
  ];
  const { window, origin, reading } = current;
  const finding: Finding = { connector, window, origin, now: stamp.now, reading };
  // The counter is locked in the same round trip: the numbers of the rows are known before they are sent.
  const [, partitions, stored, met] = await Promise.all([
    stamp.takeSeqs(0),
    partitionsById(tx, connector, ids),
    readStored(commit, shown),
    meetFound(tx, children, finding),
  ]);
  const placed = pages.flatMap((page): readonly PlacedPage[] => {
    const partition = partitions.get(page.walk.partition);
    return partition === undefined ? [] : [{ page, partition }];
  });
  const counted = await countPages(commit, placed, stored);
  const counts = counted.map((one) => one.counts);
  addCounts(tx, current.run, sumsByEntity(counts.flat()));
  const refused = pages.flatMap((page) => page.refused);
  keepQuarantined(tx, connector, refused, stamp);
  const drift = pages.flatMap((page) => page.drift);
  await noteDrift(commit, drift);
  const becameDue = (await findPartitions(tx, met, finding)).values();
  const newlyDue = pages.map((page) => page.children.filter(() => becameDue.next().value === true).length);
  const belowPartial = [...becameDue].filter(Boolean).length;
  const learned = await moveOn(commit, placed);
  current.seen.save(tx);
  return counted.map((one, index) => {
    const { ids, ofRun } = learned[index] ?? { ids: [], ofRun: [] };
    const unsealed = ofRun.length === 0 ? {} : { unsealed: ofRun };
    const due = (newlyDue[index] ?? 0) + (index === 0 ? belowPartial : 0) + ids.length;
    return { ...one, newlyDue: due, ...unsealed };
  });
}

/**
 * Stores the pages' records. The walk's own entity comes first in each page, and the entities exploded from its records
 * follow.
 */
async function countPages(commit: Commit, placed: readonly PlacedPage[], known: KnownRows) {
  const shown = placed.flatMap(({ page, partition: { entity, owner } }) =>
    page.rows.map((rows) => ({ ...rows, owner, isInsertOnly: rows.entity !== entity })),
  );
  const stored = await storeRows(commit, shown, known);
  let next = 0;
  return placed.map(({ page, partition: { entity } }) => {
    const ofPage = stored.slice(next, next + page.rows.length);
    next += page.rows.length;
    return { counts: countPage(page, entity, ofPage), ...countPartial(page, ofPage) };
  });
}

/**
 * Records that came only in part: the known partitions below them count as found, as if these had led to them again. A
 * backfill finds its own partitions.
 */
function partialParents({ current }: Commit, pages: readonly PageCommit[]) {
  if (current.window !== '') return [];
  return pages.flatMap(({ rows }) =>
    rows.flatMap(({ entity, records }) =>
      records.flatMap(({ keyText, partial }) => (partial === undefined ? [] : [{ entity, keyText }])),
    ),
  );
}

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
    if (walked.length > 0) transitions.advance(commit.tx, { walked });
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
    // A page length applies to all walks that ended before it, including those of this commit.
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
  transitions.endListing(tx, {
    ended: ended.map(({ partition, seal }) => ({
      id: partition.id,
      proof: writeJson(endProof(seal, partition.proof === null ? null : parseProof(partition.proof))),
      absence: seal.absence,
      size: seal.lastPage?.size ?? null,
      records: seal.lastPage?.records ?? null,
    })),
  });
  const inner = ended.filter(({ partition }) => partition.tree !== null).map(({ partition }) => partition.id);
  if (inner.length > 0) transitions.sealInner(tx, { ids: inner, now, run });
  // If several listings of a tree end in one transaction, the last one's seal counts.
  const byTree = new Map(ended.map((one) => [one.partition.tree ?? one.partition.id, one]));
  const read = await readWholeTrees(tx, { ids: [...byTree.keys()] });
  if (read.length === 0) return;
  const sealed = read.flatMap(({ id, innerAbsences, innerDoubt, ...tree }) => {
    const last = byTree.get(id);
    if (last === undefined) return [];
    // `as`: as `endListing` has written them.
    const inside = (innerAbsences?.split(' ') ?? []).map((one) => (one === 'null' ? null : (one as Absence)));
    const absence = weakestAbsence([tree.absence, ...inside]);
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
  transitions.seal(tx, { run, now, sealed });
  transitions.dropInner(tx, { trees: sealed.map(({ id }) => id) });
}

interface WholeTree extends EndedWalk {
  readonly id: number;
  readonly proof: string;
  readonly absence: Absence;
  /** Absence proofs of the inner listings, each once; null where the tree has no inner listings. */
  readonly innerAbsences: string | null;
  /**
   * Doubt of one inner listing. The choice among several is the same in each run, although the listings get new ids.
   */
  readonly innerDoubt: string | null;
}

/** Trees of the given partitions whose own listing and every inner listing have been read. */
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

/** Walks that are due again because of a learned page length. `ofRun`: those among them that this run had sealed. */
type EarlyEnds = Awaited<ReturnType<typeof unsealEarlyEnds>>;

/**
 * Makes walks of this chain due again that a short page ended, although more records follow pages of that length. They
 * count as never read: they are read in full, and neither a watermark nor rows that they did not meet count.
 */
async function unsealEarlyEnds(
  { connector, current, stamp: { now }, tx }: Commit,
  entity: EntityName,
  followed: PageLength,
) {
  const { run, origin, window } = current;
  const { size, records } = followed;
  const early = await readEarlyEnds(tx, { connector, entity, window, origin, size, records });
  const ids = early.map(({ id }) => id);
  if (ids.length > 0) await transitions.unseal(tx, { ids, now, origin });
  const ofRun = early.flatMap(({ sealedRun, mode, proof }): readonly UnsealedWalk[] =>
    sealedRun === run ? [{ mode, proof: parseProof(proof) }] : [],
  );
  return { ids, ofRun };
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

/**
 * Proof stored when a partition's own listing has been read to its end. It takes full effect only when the whole tree
 * is read. `before`: proof of the previous walk.
 */
export function endProof(
  { proof, doubt, absence: _absence, watermark: _watermark, reach, ...shown }: Seal,
  before: StoredProof | null,
): StoredProof {
  // A walk that proves nothing does not take back how far an earlier one has reached.
  const isKnown = doubt === undefined && reach !== undefined;
  const kept = isKnown ? reach : Math.max(reach ?? 0, before?.reach ?? 0);
  const doubtBefore = before?.doubt;
  return {
    ...proof,
    ...shown,
    ...(kept === 0 ? {} : { reach: kept }),
    ...(doubt === undefined ? {} : { doubt: { ...doubt, runs: 1 } }),
    ...(doubtBefore === undefined ? {} : { doubtBefore }),
    readAt: before?.readAt ?? null,
  };
}

/**
 * Proof stored when every listing of the tree has been read. If one of them ended with a doubt (`innerDoubt`: one
 * inside the tree), the last complete read remains as it was.
 */
export function sealProof(
  { doubt: own, doubtBefore, ...ended }: StoredProof,
  walk: { readonly mode: WalkMode | null; readonly innerDoubt?: Doubt; readonly now: Instant },
): StoredProof {
  const doubt = own ?? walk.innerDoubt;
  if (doubt === undefined) return walk.mode === 'full' ? { ...ended, readAt: walk.now } : ended;
  const isSame = doubtBefore !== undefined && numbersOf(doubtBefore) === numbersOf(doubt);
  return { ...ended, doubt: { ...doubt, runs: isSame ? doubtBefore.runs + 1 : 1 } };
}

function numbersOf(doubt: Doubt): string {
  return doubt.kind === 'total' ? `${doubt.total} ${doubt.shown}` : doubt.kind;
}
