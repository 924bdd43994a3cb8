import { countPage, countPartial } from '../decisions/add-up.ts';
import { learnPageLength } from '../decisions/becoming-due.ts';
import { concludeWalk, weakestAbsence, type EndedWalk } from '../decisions/conclude-walk.ts';
import { writePosition, parseDoubt, parseProof } from '../stored-json.ts';
import { columnOf, readFlags, statement, type Flagged } from './statement.ts';
import { endProof, sealProof } from '../decisions/seal-proof.ts';
import { standing } from '../decisions/standing.ts';
import type { CommittedPage, PageCommit, UnsealedWalk } from '../sink.ts';
import type { Commit, HeldConnector, Ledger } from './ledger.ts';
import { findPartition } from './partitions/find-partition.ts';
import type { PartitionRow } from './partitions/read-partitions.ts';
import { storeRows } from './store-rows.ts';
import { inRun } from './transact.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { Absence, FoundPartition, PageLength, Seal, WalkFailure, WalkMode } from '../partition.ts';
import { writeJson } from '../../core/json-text.ts';

/** Stores whole pages in one transaction. A page committed again after a crash finds its rows and children known, and changes nothing. */
export async function commitPages(
  ledger: Ledger,
  held: HeldConnector,
  pages: readonly PageCommit[],
): Promise<readonly CommittedPage[]> {
  const [first] = pages;
  if (first === undefined) return [];
  const stray = pages.find(({ walk }) => walk.run !== first.walk.run && walk.run !== held.run?.run);
  return await inRun(ledger, held, (stray ?? first).walk.run, (commit) => {
    const committed = pages.map((page) => commitPage(commit, page));
    commit.current.seen.save();
    return committed;
  });
}

function commitPage(commit: Commit, page: PageCommit): CommittedPage {
  const { ledger, held, current } = commit;
  const partition = ledger.partitions.get(held.connector, page.walk.partition);
  const { entity, home } = partition;
  const stored = page.rows.map((rows) =>
    storeRows(commit, rows, { home, isInsertOnly: rows.entity !== entity, countsAsSeen: true }),
  );
  const counts = countPage(page, entity, stored);
  for (const one of counts) ledger.counts.add(current.run, one.entity, one.counts);
  for (const refused of page.refused) ledger.quarantine.keep(held.connector, refused, commit.stamp);
  ledger.drift.note(held.connector, page.drift, commit.stamp);
  const newlyDue = makeChildrenDue(commit, page);
  moveOn(commit, page, partition);
  const length = learnPageLength(current.followed, entity, page);
  const { due, ofRun } = length === null ? noWalks : unsealEarlyEnds(commit, entity, length);
  return {
    counts,
    newlyDue: newlyDue + due,
    ...(ofRun.length === 0 ? {} : { unsealed: ofRun }),
    ...countPartial(page, stored),
  };
}

const noWalks = { due: 0, ofRun: [] } as const;

function makeChildrenDue({ ledger, held, current, stamp }: Commit, page: PageCommit): number {
  const { window, origin } = current;
  let newlyDue = 0;
  for (const child of [...page.children, ...knownBelowPartial(ledger, held.connector, page, window)]) {
    const reading = current.reading.get(child.entity);
    const finding = { connector: held.connector, window, origin, now: stamp.now, reading };
    newlyDue += findPartition(ledger, child, finding) ? 1 : 0;
  }
  return newlyDue;
}

/** What is known to lie below records of which only a part came is read as if they had led to it. A backfill finds its own. */
function knownBelowPartial(
  { partitions }: Ledger,
  connector: ConnectorName,
  { rows }: PageCommit,
  window: string,
): readonly FoundPartition[] {
  if (window !== '') return [];
  return rows.flatMap(({ entity, records }) =>
    records
      .filter(({ partial }) => partial !== undefined)
      .flatMap(({ keyText }) => partitions.below(connector, { entity, keyText })),
  );
}

/** A listing that this chain has already read to its end stays as it is, whatever page of it comes again. */
function moveOn(commit: Commit, page: PageCommit, partition: PartitionRow): void {
  const { transitions } = commit.ledger;
  if (partition.dueSince === null || partition.listed === 1) return;
  if (page.seal === null) {
    transitions.advance.run({ id: partition.id, position: writePosition(page.position) });
  } else {
    sealWalk(commit, partition, page.seal);
  }
}

/** A listing with inner listings is sealed only when all of them are read; they are ledger rows until then. Without any it is a tree of one. */
function sealWalk({ ledger, current, stamp }: Commit, partition: PartitionRow, seal: Seal): void {
  const { db, transitions } = ledger;
  const { run, chainStartedAt } = current;
  const { now } = stamp;
  const { absence, watermark } = seal;
  const before = { ...partition, proof: partition.proof === null ? null : parseProof(partition.proof) };
  transitions.endListing.run({ id: partition.id, proof: writeJson(endProof(seal, before)), absence });
  if (partition.tree !== null) transitions.sealInner.run({ id: partition.id, now, run });
  const id = partition.tree ?? partition.id;
  if (isAnyInnerDue(db).get(id) !== undefined) return;
  const ended = endedWalk(db).get(id);
  if (ended === undefined) return;
  const weakest = weakestAbsence([ended.absence, ...innerAbsences(db).all(id)]);
  const doubted = innerDoubt(db).get(id);
  const proof = sealProof(parseProof(ended.proof), {
    mode: ended.mode,
    now,
    ...(doubted === undefined ? {} : { innerDoubt: parseDoubt(doubted) }),
  });
  const conclusion = concludeWalk(readFlags<EndedWalk>(ended, 'isMidway', 'isBelowRecord'), {
    isDoubted: proof.doubt !== undefined,
    absence: weakest,
    watermark: partition.tree === null ? watermark : null,
    chainStartedAt,
  });
  const scope = current.reading.get(partition.entity)?.scope ?? null;
  transitions.seal.run({ ...conclusion, id, run, now, scope, proof: writeJson(proof), absence: weakest });
  transitions.dropInner.run({ tree: id });
}

const isAnyInnerDue = columnOf<[tree: number], number>(
  `SELECT 1 FROM _sync_partitions WHERE tree = ? AND due_since >= '' LIMIT 1`,
);
const innerAbsences = columnOf<[tree: number], Absence>(
  'SELECT DISTINCT absence FROM _sync_partitions WHERE tree = ?',
);
/** Of several the same one in each run: their listings are found again, under other ids. */
const innerDoubt = columnOf<[tree: number], string>(
  `SELECT json_extract(proof, '$.doubt') FROM _sync_partitions WHERE tree = ? AND proof LIKE '%"doubt":%' ORDER BY params LIMIT 1`,
);
const endedWalk = statement<
  [id: number],
  Flagged<EndedWalk> & { readonly absence: Absence; readonly proof: string }
>(
  `SELECT mode, midway AS isMidway, origin, watermark, found_marker AS foundMarker, full_at AS fullAt, full_origin AS fullOrigin,
     parent_key IS NOT NULL AS isBelowRecord, absence, proof
   FROM _sync_partitions WHERE id = ? AND listed = 1 AND due_since IS NOT NULL`,
);

/** Leaves a partition to a later run. A tree with such a listing stays due, as does the listing. */
export function setWalkAside({ ledger, held, current }: Commit, partition: number, why: WalkFailure): void {
  const { id } = ledger.partitions.get(held.connector, partition);
  const drop = { dropPosition: Number(why.dropPosition), dropWatermark: Number(why.dropWatermark) };
  const { transitions } = ledger;
  transitions.setAside.run({ id, run: current.run, failure: writeJson(why), at: why.at, ...drop });
}

/** Walks of this chain that a short page ended, although more follows pages of that length, are due again in full. Gives how many, and those of this run. */
function unsealEarlyEnds(
  { ledger: { db, transitions }, held: { connector }, current, stamp: { now } }: Commit,
  entity: EntityName,
  followed: PageLength,
): { readonly due: number; readonly ofRun: readonly UnsealedWalk[] } {
  const { run, origin, window } = current;
  const early = earlyEnds(db).all({ connector, entity, window, origin, ...followed });
  for (const { id } of early) transitions.unseal.run({ id, now, origin });
  const ofRun = early.filter(({ sealedRun }) => sealedRun === run);
  return { due: early.length, ofRun: ofRun.map(({ mode, proof }) => ({ mode, proof: parseProof(proof) })) };
}

interface EarlyEnd {
  readonly id: number;
  readonly mode: WalkMode;
  readonly proof: string;
  readonly sealedRun: string;
}

/** Walks of the chain that ended with a page of this size and at least so many records. */
const earlyEnds = statement<
  [
    PageLength & {
      readonly connector: string;
      readonly entity: EntityName;
      readonly window: string;
      readonly origin: number;
    },
  ],
  EarlyEnd
>(
  `SELECT id, mode, proof, sealed_run AS sealedRun FROM _sync_partitions AS one
   WHERE connector = :connector AND entity = :entity AND backfill = :window AND origin = :origin AND gone = ${standing.live}
     AND (due_since IS NULL OR listed = 1)
     AND json_extract(proof, '$.lastPage.size') = :size AND json_extract(proof, '$.lastPage.records') >= :records
     AND (listed = 1 OR EXISTS (SELECT 1 FROM _sync_runs WHERE run = one.sealed_run AND origin = :origin))`,
);
