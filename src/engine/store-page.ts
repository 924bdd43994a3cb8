import type { PageCommit } from '../sinks/sink.ts';
import type { PreparedPage } from './prepare/prepare-page.ts';
import type { Walk } from './walk.ts';

/** A page that is to be stored. */
export interface ReadyPage {
  readonly prepared: PreparedPage;
  readonly commit: PageCommit;
  /** As it came. */
  readonly bytes: number;
}

/** Stores a page of a walk, and reports what came of it. Rejects where its commit fails. */
export async function storePage(walk: Walk, page: ReadyPage): Promise<void> {
  const { run, commits, inFlight, partition } = walk;
  const { tally, onEvent } = run;
  const shown = run.shownProgress?.() ?? null;
  const committed = await commits
    .submit(shown === null ? page.commit : { ...page.commit, shown })
    .catch((error: unknown) => {
      onEvent({ kind: 'page-dropped', entity: partition.entity, bytes: page.bytes });
      throw error;
    })
    .finally(() => (inFlight.bytes -= page.bytes));
  walk.onStored(committed.newlyDue);
  tally.pageCommitted(partition, page.prepared, page.commit.fetched, committed);
  for (const { entity, counts } of committed.counts) {
    const isOwn = entity === partition.entity;
    const newlyDue = isOwn ? committed.newlyDue : 0;
    const { params } = partition;
    onEvent({ kind: 'page-committed', entity, params, counts, newlyDue, bytes: isOwn ? page.bytes : 0 });
  }
  for (const found of foundListings(page.prepared, committed.newlyDue)) {
    onEvent({ kind: 'listings-found', parent: partition.entity, ...found });
  }
}

/** By entity, for people. Where only some of the listings became due, which ones is not known. */
function foundListings({ stored: { children } }: PreparedPage, newlyDue: number) {
  if (newlyDue === 0) return [];
  const isAll = newlyDue >= children.length;
  const entities = new Set(children.map(({ entity }) => entity));
  return [...entities].map((entity) => {
    const records = children.filter((one) => one.entity === entity).map((one) => one.records);
    const isStated = isAll && !records.includes(null);
    return {
      entity,
      listings: isAll ? records.length : null,
      records: isStated ? records.reduce<number>((sum, one) => sum + (one ?? 0), 0) : null,
    };
  });
}
