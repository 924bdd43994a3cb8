import { SyncError } from '../../core/errors.ts';
import type { EntityName } from '../../core/names.ts';
import { addCounts, noCounts, type PageCounts } from '../../core/records.ts';
import { checkCounts } from '../decisions/add-up.ts';
import type { Position } from '../partition.ts';
import type { CommittedPage, PageCommit } from '../sink.ts';
import { writeJson } from './json-text.ts';
import type { Commit, HeldConnector, Ledger } from './ledger.ts';
import { sealWalk, unsealEarlyEnds } from './partitions/end-walk.ts';
import { findPartition } from './partitions/find-partition.ts';
import type { PartitionRow } from './partitions/read-partitions.ts';
import { storeRows } from './store-rows.ts';
import { inRun } from './transact.ts';

/**
 * Stores whole pages in one transaction. A page committed a second time (after a crash, the engine asks for it again)
 * finds its rows already met and its children already found: it yields duplicates and changes nothing else.
 */
export async function commitPages(
  ledger: Ledger,
  held: HeldConnector,
  pages: readonly PageCommit[],
): Promise<readonly CommittedPage[]> {
  const [first] = pages;
  if (first === undefined) {
    return [];
  }
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
  const counts = storePage(commit, page, partition);
  for (const one of counts) {
    checkCounts(one.entity, one.counts);
    ledger.counts.add(current.run, one.entity, one.counts);
  }
  for (const refused of page.refused) {
    ledger.quarantine.keep(held.connector, refused, commit.stamp);
  }
  ledger.drift.note(held.connector, page.drift, commit.stamp);
  const newlyDue = findChildren(commit, page);
  moveOn(commit, page, partition);
  const { due, ofRun } = learnPageLength(commit, page, partition);
  return { counts, newlyDue: newlyDue + due, ...(ofRun.length === 0 ? {} : { unsealed: ofRun }) };
}

/** Also a walk whose end was decided before what its last page's length is worth was known. */
function learnPageLength(
  commit: Commit,
  { followed, seal }: PageCommit,
  { entity }: PartitionRow,
): ReturnType<typeof unsealEarlyEnds> {
  const known = commit.current.followed;
  const size = followed?.size ?? seal?.lastPage?.size ?? 0;
  const name = JSON.stringify([entity, size]);
  const records = Math.min(known.get(name) ?? Infinity, followed?.records ?? Infinity);
  const isNews = followed !== undefined || (seal?.lastPage?.records ?? -1) >= records;
  if (!isNews) return { due: 0, ofRun: [] };
  known.set(name, records);
  return unsealEarlyEnds(commit, entity, { size, records });
}

/** The walk's own entity comes first; what its records were exploded into follows. */
function storePage(
  commit: Commit,
  page: PageCommit,
  { entity, home }: PartitionRow,
): CommittedPage['counts'] {
  const tally = new Map<EntityName, PageCounts>();
  const add = (one: EntityName, counts: Partial<PageCounts>): void =>
    void tally.set(one, addCounts(tally.get(one) ?? noCounts, { ...noCounts, ...counts }));
  add(entity, { fetched: page.fetched, filtered: page.filtered, duplicate: page.foreign });
  for (const { entity: refused } of page.refused) {
    add(refused, { fetched: refused === entity ? 0 : 1, quarantined: 1 });
  }
  for (const rows of page.rows) {
    const isExploded = rows.entity !== entity;
    const fetched = isExploded ? rows.records.length : 0;
    add(rows.entity, { fetched, ...storeRows(commit, rows, isExploded, home) });
  }
  return [...tally].map(([one, counts]) => ({ entity: one, counts }));
}

function findChildren({ ledger, held, current, stamp }: Commit, page: PageCommit): number {
  const { window, origin } = current;
  let newlyDue = 0;
  for (const child of page.children) {
    const reading = current.reading.get(child.entity);
    const finding = { connector: held.connector, window, origin, now: stamp.now, reading };
    newlyDue += findPartition(ledger, child, finding) ? 1 : 0;
  }
  return newlyDue;
}

/** A listing that this chain has already read to its end stays as it is, whatever page of it comes again. */
function moveOn(commit: Commit, page: PageCommit, partition: PartitionRow): void {
  const { transitions } = commit.ledger;
  if (partition.dueSince === null || partition.listed === 1) {
    return;
  }
  if (page.seal === null) {
    transitions.advance.run({ id: partition.id, position: positionText(page.position) });
  } else {
    sealWalk(commit, partition, page.seal);
  }
}

const maxPositionBytes = 64 * 1024;

/** Throws `SyncError` INTERNAL for a position that is too long to be written with every page. */
function positionText(position: Position): string {
  const text = writeJson(position);
  const bytes = Buffer.byteLength(text);
  if (bytes > maxPositionBytes) {
    throw new SyncError(
      `A position may take ${maxPositionBytes} bytes, but a "${position.kind}" one takes ${bytes}. Shorten what it keeps.`,
      { code: 'INTERNAL', recovery: 'stop', context: { bytes } },
    );
  }
  return text;
}
