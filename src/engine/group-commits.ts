import type { Clock } from '../core/clock.ts';
import type { OnRunEvent } from '../core/events.ts';
import type { CommittedPage, Lease, PageCommit, Sink } from '../sinks/sink.ts';

/** A commit costs a sync of the disk whatever its size: pages are gathered up to this many records... */
const enoughRecords = 1000;
/** ...or for this long, or until every open walk waits for its page. */
const longestWaitMs = 100;

interface Waiting {
  readonly page: PageCommit;
  readonly resolve: (committed: CommittedPage) => void;
  readonly reject: (error: unknown) => void;
}

export interface GroupCommits {
  /** Resolves when the page is stored for good. Rejects when the commit it was part of failed: then none of it is stored. */
  submit(page: PageCommit): Promise<CommittedPage>;
  /** A walk opens or ends; once all open walks wait, nothing more can come and the pages are stored. */
  walkOpened(): void;
  walkClosed(): void;
}

/** Gathers whole pages of several walks into one transaction. */
export function groupCommits(
  sink: Sink,
  lease: Lease,
  options: { readonly clock: Clock; readonly onEvent: OnRunEvent },
): GroupCommits {
  const { clock, onEvent } = options;
  let waiting: Waiting[] = [];
  let openWalks = 0;
  let timer: NodeJS.Timeout | null = null;
  let storing: Promise<void> = Promise.resolve();

  function storeIfEnough(): void {
    const records = waiting.reduce((sum, { page }) => sum + recordsOf(page), 0);
    if (waiting.length === 0) return;
    if (records >= enoughRecords || waiting.length >= openWalks) storeNow();
    else timer ??= setTimeout(storeNow, longestWaitMs);
  }

  function storeNow(): void {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    const group = waiting;
    waiting = [];
    if (group.length > 0) storing = storing.then(() => store(group));
  }

  async function store(group: readonly Waiting[]): Promise<void> {
    const startedMs = clock.now();
    onEvent({
      kind: 'commit-started',
      pages: group.length,
      records: group.reduce((sum, { page }) => sum + page.fetched, 0),
    });
    try {
      const committed = await sink.commit(
        lease,
        group.map(({ page }) => page),
      );
      group.forEach(({ resolve, reject }, index) => {
        const page = committed[index];
        if (page === undefined)
          reject(new Error(`the sink answered ${committed.length} of ${group.length} pages`));
        else resolve(page);
      });
      onEvent({ kind: 'commit-finished', pages: group.length, ms: clock.now() - startedMs });
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  }

  return {
    submit: (page) =>
      new Promise((resolve, reject) => {
        waiting.push({ page, resolve, reject });
        storeIfEnough();
      }),
    walkOpened: () => {
      openWalks += 1;
    },
    walkClosed: () => {
      openWalks -= 1;
      storeIfEnough();
    },
  };
}

function recordsOf(page: PageCommit): number {
  return page.rows.reduce((sum, { records }) => sum + records.length, 0);
}
