import { contentsAfter } from './disk.ts';
import { readLedger } from './ledger-state.ts';
import type { ToldLine } from './recorded-steps.ts';
import type { Recording } from './recording.ts';

/** The transactions of a recorded ledger, numbered from 0; -1 is the state before the first. */
export interface Commits {
  /** The newest whose last write is among the first `count` operations. */
  newest(count: number): number;
  /** The newest of those after which the ledger was as this digest says; null where it never was. */
  find(digest: string, count: number): number | null;
}

/** `ledger`: the path of the database in the recorded folder. */
export function commitsOf(recording: Recording, ledger: string): Commits {
  const ends = commitEnds(recording);
  const digests = new Map<number, string>();
  const digestAfter = (commit: number): string => {
    const known = digests.get(commit);
    if (known !== undefined) return known;
    const { digest } = readLedger(contentsAfter(recording, ends[commit] ?? 0, { random: null }), ledger);
    digests.set(commit, digest);
    return digest;
  };
  const newest: Commits['newest'] = (count) => ends.findLastIndex((end) => end <= count);
  return {
    newest,
    find: (digest, count) => {
      for (let commit = newest(count); commit >= -1; commit -= 1) {
        if (digestAfter(commit) === digest) return commit;
      }
      return null;
    },
  };
}

const frameHeadBytes = 24;

/**
 * After how many operations each transaction stood in SQLite's log: its last frame carries the size of the database in
 * its head, and the page is written behind that.
 */
function commitEnds({ operations }: Recording): readonly number[] {
  const logs = new Set<number>();
  const ending = new Set<number>();
  const ends: number[] = [];
  for (const [index, operation] of operations.entries()) {
    if (operation.kind === 'opened') {
      logs.delete(operation.descriptor);
      if (operation.path.endsWith('-wal')) logs.add(operation.descriptor);
    }
    if (operation.kind !== 'written' || !logs.has(operation.descriptor)) continue;
    const { descriptor, data } = operation;
    if (ending.delete(descriptor)) ends.push(index + 1);
    else if (data.length === frameHeadBytes && data.readUInt32BE(4) > 0) ending.add(descriptor);
  }
  return ends;
}

/** What the program had reported to its user at some point. */
export interface Told {
  /** After how many operations the last of it was reported. */
  readonly at: number;
  /** Of the account that was being read. */
  readonly revision: number;
  /** `run entity` -> records of the pages that were reported as committed. */
  readonly fetched: ReadonlyMap<string, number>;
}

export function toldBy({ operations }: Recording, count: number): Told {
  const fetched = new Map<string, number>();
  let [at, revision, run] = [0, 0, ''];
  for (const [index, operation] of operations.slice(0, count).entries()) {
    if (operation.kind !== 'told') continue;
    at = index + 1;
    const line = JSON.parse(operation.text) as ToldLine;
    if (line.kind === 'step-begins') revision = line.revision;
    if (line.kind === 'run-started') run = line.run;
    if (line.kind === 'page-committed') {
      const of = `${run} ${line.entity}`;
      fetched.set(of, (fetched.get(of) ?? 0) + line.counts.fetched);
    }
  }
  return { at, revision, fetched };
}
