import { learnPageLength } from '../../decisions/becoming-due.ts';
import type { Position } from '../../partition.ts';
import type { PageCommit, UnsealedWalk } from '../../sink.ts';
import type { Commit } from '../ledger.ts';
import { advanceWalks, sealWalks, unsealEarlyEnds, type EndedListing } from './end-walk.ts';
import type { PartitionRow } from './read-partitions.ts';

type Moved = Pick<PageCommit, 'position' | 'seal' | 'followed'>;

/** What a page's length taught about other walks. */
export interface Learned {
  /** How many walks are due again. */
  readonly due: number;
  readonly ofRun: readonly UnsealedWalk[];
}

/**
 * Notes positions and ends of the walks of a commit's pages, in their order; for each page, which walks are due again because of it. A listing
 * that this chain has already read to its end stays as it is, whatever page of it comes again.
 */
export async function moveOn(
  commit: Commit,
  pages: readonly { readonly page: Moved; readonly partition: PartitionRow }[],
): Promise<readonly Learned[]> {
  const open = new Set(
    pages.flatMap(({ partition }) => (partition.isDue && !partition.isListed ? [partition.id] : [])),
  );
  const positions = new Map<number, Position>();
  const ended: EndedListing[] = [];
  const learned: Learned[] = [];
  const write = async (): Promise<void> => {
    advanceWalks(commit, positions);
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
      learned.push({ due: 0, ofRun: [] });
      continue;
    }
    // What it says is about all walks that ended before it, those of this commit among them.
    await write();
    const { ids, ofRun } = await unsealEarlyEnds(commit, partition.entity, length);
    for (const id of ids) open.add(id);
    learned.push({ due: ids.length, ofRun });
  }
  await write();
  return learned;
}
