import type { ConnectorName, EntityName, RunId } from '../../core/names.ts';
import { sumsByEntity } from '../../core/records.ts';
import { countPage, countPartial } from '../decisions/add-up.ts';
import type { Tx } from '../../sql/database.ts';
import type { CommittedPage, PageCommit } from '../sink.ts';
import { addCounts, keepQuarantined } from './counts.ts';
import { noteDrift } from './drift/note-drift.ts';
import type { Commit } from './ledger.ts';
import { findPartitions, meetFound, type Finding } from './partitions/due-partitions.ts';
import { moveOn } from './partitions/end-walk.ts';
import { withoutPurged, type WithheldPage } from './purges/purge-notes.ts';
import { partitionsBelow, partitionsById, type PartitionRow } from './partitions/read-partitions.ts';
import { readStored, storeRows, type KnownRows } from './store-rows.ts';

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
  const { held, current, tx, stamp } = commit;
  const known = await withKnownBelowPartial(commit, given);
  const pages = known.map((page) => withoutPurged(current.purged, page));
  const { connector } = held;
  const ids = pages.map(({ walk }) => walk.partition);
  const shown = pages.flatMap(({ rows }) => rows);
  const children = pages.flatMap((page) => page.children);
  const finding = findingOf(commit);
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
  noteShown(tx, { connector, run: current.run }, pages);
  keepQuarantined(
    tx,
    connector,
    pages.flatMap(({ refused }) => refused),
    stamp,
  );
  await noteDrift(
    commit,
    pages.flatMap(({ drift }) => drift),
  );
  const becameDue = (await findPartitions(tx, met, finding)).values();
  const newlyDue = pages.map((page) => page.children.filter(() => becameDue.next().value === true).length);
  const learned = await moveOn(commit, placed);
  current.seen.save(tx);
  return counted.map((one, index) => {
    const { ids, ofRun } = learned[index] ?? { ids: [], ofRun: [] };
    const unsealed = ofRun.length === 0 ? {} : { unsealed: ofRun };
    return { ...one, newlyDue: (newlyDue[index] ?? 0) + ids.length, ...unsealed };
  });
}

/** How far the run is, as its process shows it to people: what the newest of the pages that say something say. */
function noteShown(
  tx: Tx,
  of: { readonly connector: ConnectorName; readonly run: RunId },
  pages: readonly PageCommit[],
): void {
  const shown = pages.findLast((page) => page.shown !== undefined)?.shown;
  if (shown === undefined) return;
  tx.put(
    `INSERT INTO _sync_progress (connector, run, shown) VALUES (:connector, :run, :shown)
     ON CONFLICT (connector) DO UPDATE SET run = excluded.run, shown = excluded.shown`,
    { ...of, shown },
  );
}

/**
 * Stores the pages' records. Of each page the walk's own entity comes first; what its records were exploded into
 * follows.
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
 * What is known to lie below records of which only a part came is read as if they had led to it. A backfill finds its
 * own.
 */
async function withKnownBelowPartial(
  { held, current, tx }: Commit,
  pages: readonly PageCommit[],
): Promise<readonly PageCommit[]> {
  const partialOf = ({ rows }: PageCommit): readonly { entity: EntityName; keyText: string }[] =>
    rows.flatMap(({ entity, records }) =>
      records.flatMap(({ keyText, partial }) => (partial === undefined ? [] : [{ entity, keyText }])),
    );
  const parents = current.window === '' ? pages.flatMap(partialOf) : [];
  if (parents.length === 0) return pages;
  const below = await partitionsBelow(tx, held.connector, parents);
  return pages.map((page) => {
    const keys = new Set(partialOf(page).map(({ keyText }) => keyText));
    const found = below.filter(
      ({ parent }) => page.rows[0]?.entity === parent?.entity && keys.has(parent?.keyText ?? ''),
    );
    return found.length === 0 ? page : { ...page, children: [...page.children, ...found] };
  });
}

function findingOf({ held, current, stamp }: Commit): Finding {
  const { window, origin, reading } = current;
  return { connector: held.connector, window, origin, now: stamp.now, reading };
}
