import { createHash } from 'node:crypto';
import type { JsonObject } from '../../../src/core/json.ts';
import type { Commits, Told } from './commits.ts';
import { readLedger, type LedgerState, type ListedFile } from './ledger-state.ts';
import type { Contents } from './recording.ts';

interface LeftBehind {
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

export type Examined = ReturnType<typeof examine>;

/** Holds what a loss of power has left against what the sink promises, before any program has repaired it. */
export function examine(left: LeftBehind) {
  const { contents, ledger, isDurable, commits, count, told } = left;
  const state = readLedger(contents, ledger);
  if (state.integrity !== 'ok') {
    return { faults: [`ledger: ${state.integrity}`], rolledBack: 0 };
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
  for (const file of state.files) {
    if (isWhole(left, file)) faults.push(...wrongLines(left, file));
    else faults.push(`${file.path} is not there as it was written`);
  }
  return {
    /** What breaks a promise; one line each. */
    faults: [...faults, ...strayFiles(left, state)],
    /** Commits at the end that are not there. */
    rolledBack: commits.newest(count) - (found ?? -1),
  };
}

/** The next process that takes the connector gives it its name. */
function contentOf({ contents, lines }: LeftBehind, { path, hash }: ListedFile): Buffer | undefined {
  const at = `${lines ?? ''}/${path}`;
  return [contents.get(at), contents.get(`${at}.next`)].find(
    (content): content is Buffer =>
      Buffer.isBuffer(content) && createHash('sha256').update(content).digest('hex') === hash,
  );
}

function isWhole(left: LeftBehind, file: ListedFile): boolean {
  return contentOf(left, file)?.length === file.length;
}

/** Each key has its last line, and no change has two. */
function wrongLines(left: LeftBehind, file: ListedFile): readonly string[] {
  const lines = (contentOf(left, file) ?? '').toString().trimEnd().split('\n');
  const seqs = lines.map((line) => (JSON.parse(line) as JsonObject)['_seq']);
  const known = new Set(seqs);
  const doubled = known.size === seqs.length ? [] : [`${file.path} holds a change twice`];
  const missing = file.seqs.filter((seq) => !known.has(seq)).map((seq) => `${file.path} has no line ${seq}`);
  return [...doubled, ...missing];
}

/**
 * Readers take files by their names: each is listed, or its records were dropped. One that is neither would be written
 * again with other lines.
 */
function strayFiles({ contents, lines }: LeftBehind, { files, newest }: LedgerState): readonly string[] {
  if (lines === null) return [];
  const listed = new Set(files.map(({ path }) => `${lines}/${path}`));
  return [...contents.keys()].flatMap((path) => {
    const [, entity = '', number] = /^[^/]+\/(.+)\/(\d+)\.jsonl$/.exec(path) ?? [];
    const isStray = number !== undefined && !listed.has(path) && (newest.get(entity) ?? 0) >= Number(number);
    return isStray ? [`${path} has its name, and the ledger does not list it`] : [];
  });
}
