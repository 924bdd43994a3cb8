import type { CommittedPage, PageCommit } from '../sinks/sink.ts';
import type { Run } from './run.ts';

/** A commit costs a disk sync whatever its size: pages are gathered up to this many records... */
const enoughRecords = 4000;
/** ...or for this long while a walk waits for its pages, or until every open walk does... */
const longestWaitMs = 50;
/**
 * ...or for this long while all walks read ahead: small commits cost more than what a kill makes the next run ask for
 * again.
 */
const longestGatheringMs = 500;

interface Waiting {
  readonly page: PageCommit;
  readonly resolve: (committed: CommittedPage) => void;
  readonly reject: (error: unknown) => void;
}

export type GroupCommits = ReturnType<typeof groupCommits>;

/**
 * Gathers whole pages of several walks into one transaction. A commit that fails ends the run before its pages are
 * refused.
 */
export function groupCommits(run: Pick<Run, 'sink' | 'lease' | 'clock' | 'onEvent' | 'ending'>) {
  const { sink, lease, clock, onEvent, ending } = run;
  let gathered: Waiting[] = [];
  let records = 0;
  let groupsUnderWay = 0;
  let openWalks = 0;
  let waitingWalks = 0;
  let timer: NodeJS.Timeout | null = null;
  let isShort = false;
  let storing: Promise<void> = Promise.resolve();

  function storeIfEnough(): void {
    if (gathered.length === 0) return;
    if (records >= enoughRecords) storeNow();
    // What is gathered during a commit follows it at once, as one.
    else if (groupsUnderWay > 0) return;
    else if (waitingWalks >= openWalks) storeNow();
    else setTimer();
  }

  function setTimer(): void {
    const isWaiting = waitingWalks > 0;
    if (timer !== null && (isShort || !isWaiting)) return;
    if (timer !== null) clearTimeout(timer);
    isShort = isWaiting;
    timer = setTimeout(storeNow, isWaiting ? longestWaitMs : longestGatheringMs);
  }

  function storeNow(): void {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    const group = gathered;
    gathered = [];
    records = 0;
    if (group.length === 0) return;
    groupsUnderWay += 1;
    storing = storing
      .then(() => store(group))
      .then(() => {
        groupsUnderWay -= 1;
        storeIfEnough();
      });
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
        if (page === undefined) {
          reject(new Error(`the sink answered ${committed.length} of ${group.length} pages`));
        } else resolve(page);
      });
      onEvent({ kind: 'commit-finished', pages: group.length, ms: clock.now() - startedMs });
    } catch (error) {
      ending.end(error);
      for (const { reject } of group) reject(error);
    }
  }

  return {
    /**
     * Resolves when the page is stored for good. Rejects when the commit it was part of failed: then none of it is
     * stored.
     */
    submit: (page: PageCommit): Promise<CommittedPage> =>
      new Promise((resolve, reject) => {
        gathered.push({ page, resolve, reject });
        records += page.rows.reduce((sum, rows) => sum + rows.records.length, 0);
        storeIfEnough();
      }),
    /** Waits for pages of one walk; once all open walks wait, nothing more can come and the pages are stored. */
    waitFor: async <T>(stored: Promise<T>): Promise<T> => {
      waitingWalks += 1;
      storeIfEnough();
      try {
        return await stored;
      } finally {
        waitingWalks -= 1;
      }
    },
    walkOpened: (): void => {
      openWalks += 1;
    },
    walkClosed: (): void => {
      openWalks -= 1;
      storeIfEnough();
    },
  };
}
