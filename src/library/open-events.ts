import type { Progress } from './shapes.ts';

const mostUnread = 1_000;

/** Events between a run, which does not wait, and a reader who may be slow, or gone. */
export function openEvents() {
  const unread: Progress[] = [];
  let missed = 0;
  let isRead = true;
  let hasEnded = false;
  let wake = (): void => undefined;

  async function* read(work: Promise<unknown>): AsyncGenerator<Progress, void, undefined> {
    try {
      for (;;) {
        if (missed > 0) {
          const events = missed;
          missed = 0;
          yield { kind: 'missed', events };
        }
        const next = unread.shift();
        if (next !== undefined) yield next;
        else if (hasEnded) break;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
      await work;
    } finally {
      isRead = false;
      unread.length = 0;
    }
  }

  return {
    add(event: Progress): void {
      if (!isRead) return;
      unread.push(event);
      if (unread.length > mostUnread) {
        unread.shift();
        missed += 1;
      }
      wake();
    },
    /** The events, in their order, until the work has ended; then it throws what the work was rejected with. */
    until(work: Promise<unknown>): AsyncGenerator<Progress, void, undefined> {
      const end = (): void => {
        hasEnded = true;
        wake();
      };
      // A program that only iterates hears of a failure there: this promise alone must not end the process.
      work.then(end, end);
      return read(work);
    },
  };
}
