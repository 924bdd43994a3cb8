import { countPage } from '../decisions/add-up.ts';
import { learnPageLength } from '../decisions/conclude-walk.ts';
import { writePosition } from '../stored-json.ts';
import type { CommittedPage, PageCommit } from '../sink.ts';
import type { Commit, HeldConnector, Ledger } from './ledger.ts';
import { sealWalk, unsealEarlyEnds } from './partitions/end-walk.ts';
import { findPartition } from './partitions/find-partition.ts';
import type { PartitionRow } from './partitions/read-partitions.ts';
import { storeRows } from './store-rows.ts';
import { inRun } from './transact.ts';

/** Stores whole pages in one transaction. A page committed again after a crash finds its rows and children known, and changes nothing. */
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
  const { entity, home } = partition;
  const stored = page.rows.map((rows) =>
    storeRows(commit, rows, { home, isInsertOnly: rows.entity !== entity, countsAsSeen: true }),
  );
  const counts = countPage(page, entity, stored);
  for (const one of counts) ledger.counts.add(current.run, one.entity, one.counts);
  for (const refused of page.refused) {
    ledger.quarantine.keep(held.connector, refused, commit.stamp);
  }
  ledger.drift.note(held.connector, page.drift, commit.stamp);
  const newlyDue = findChildren(commit, page);
  moveOn(commit, page, partition);
  const length = learnPageLength(current.followed, entity, page);
  const { due, ofRun } = length === null ? noWalks : unsealEarlyEnds(commit, entity, length);
  return { counts, newlyDue: newlyDue + due, ...(ofRun.length === 0 ? {} : { unsealed: ofRun }) };
}

const noWalks = { due: 0, ofRun: [] } as const;

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
    transitions.advance.run({ id: partition.id, position: writePosition(page.position) });
  } else {
    sealWalk(commit, partition, page.seal);
  }
}
