import { createHash } from 'node:crypto';
import type { JsonObject } from '../../../src/core/json.ts';
import type { Commits, Told } from './commits.ts';
import { readLedger, type ListedFile } from './ledger-state.ts';
import type { Contents } from './recording.ts';

export interface LeftBehind {
  readonly contents: Contents;
  /** The sink's database, and the folder of its lines where it has some: paths in the contents. */
  readonly ledger: string;
  readonly lines: string | null;
  readonly isDurable: boolean;
  readonly commits: Commits;
  /** After so many operations power was lost. */
  readonly count: number;
  readonly told: Told;
}

export interface Examined {
  /** What breaks a promise; one line each. */
  readonly faults: readonly string[];
  /** Commits at the end that are not there. */
  readonly rolledBack: number;
  /** Files that lack lines which the ledger counts, as they may without durability. */
  readonly shortFiles: number;
}

/** Holds what a loss of power has left against what the sink promises, before any program has repaired it. */
export function examine(left: LeftBehind): Examined {
  const { contents, ledger, isDurable, commits, count, told } = left;
  const state = readLedger(contents, ledger);
  if (state.integrity !== 'ok') {
    return { faults: [`ledger: ${state.integrity}`], rolledBack: 0, shortFiles: 0 };
  }
  const faults = state.miscounted.map((entity) => `miscounted ${entity}`);
  const found = commits.find(state.digest, count);
  if (found === null) faults.push('the ledger is in a state that no commit has left');
  if (isDurable && found !== null && found < commits.newest(told.at)) {
    faults.push(`commit ${commits.newest(told.at)} was acknowledged, and the last one there is ${found}`);
  }
  const unstored = [...told.fetched].filter(([page, records]) => (state.fetched.get(page) ?? 0) < records);
  if (isDurable && unstored.length > 0) {
    faults.push(`pages were reported as committed of ${unstored.join(', ')}`);
  }
  const listed = state.files.filter(({ isToGo }) => !isToGo);
  const short = listed.filter((file) => !isWhole(left, file));
  for (const { path } of short.filter(({ isClosed }) => isDurable || isClosed)) {
    faults.push(`${path} lacks lines`);
  }
  for (const file of listed.filter((one) => !short.includes(one))) faults.push(...wrongLines(left, file));
  return {
    faults: [...faults, ...strayFiles(left, state.files)],
    rolledBack: commits.newest(count) - (found ?? -1),
    shortFiles: short.length,
  };
}

function contentOf({ contents, lines }: LeftBehind, { path }: ListedFile): Buffer {
  const at = `${lines ?? ''}/${path}`;
  return contents.get(at) ?? contents.get(`${at}.open`) ?? Buffer.alloc(0);
}

function isWhole(left: LeftBehind, file: ListedFile): boolean {
  const committed = contentOf(left, file).subarray(0, file.length);
  return createHash('sha256').update(committed).digest('hex') === file.hash;
}

/** Each key has its last line, and no change has two. */
function wrongLines(left: LeftBehind, file: ListedFile): readonly string[] {
  const lines = contentOf(left, file).subarray(0, file.length).toString().trimEnd().split('\n');
  const seqs = lines.map((line) => (JSON.parse(line) as JsonObject)['_seq']);
  const known = new Set(seqs);
  const doubled = known.size === seqs.length ? [] : [`${file.path} holds a change twice`];
  const missing = file.seqs.filter((seq) => !known.has(seq)).map((seq) => `${file.path} has no line ${seq}`);
  return [...doubled, ...missing];
}

/** Readers take files by their final names alone: each must be closed, and whole to its end, or be about to go. */
function strayFiles({ contents, lines }: LeftBehind, files: readonly ListedFile[]): readonly string[] {
  if (lines === null) return [];
  return [...contents].flatMap(([path, content]) => {
    if (!path.endsWith('.jsonl') || content === null) return [];
    const file = files.find((one) => `${lines}/${one.path}` === path);
    return file?.isToGo === true || (file?.isClosed === true && file.length === content.length)
      ? []
      : [`${path} has its final name, and the ledger does not count it as closed`];
  });
}
