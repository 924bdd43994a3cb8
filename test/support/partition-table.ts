import { readFileSync } from 'node:fs';

const due = ['waiting', 'ready', 'listed', 'set-aside'];
const live = ['idle', 'unswept', ...due];
const known = [...live, 'ended', 'emptied', 'resting'];
const statesOfWords = new Map([
  ['any due', due],
  ['any live', live],
  ['any', known],
]);

/** A transition as docs/internals/partitions.md prints it. */
export interface PrintedTransition {
  readonly name: string;
  readonly from: readonly string[];
  /** Null: the partition keeps its state. */
  readonly to: readonly string[] | null;
  /** The files that run it. */
  readonly by: string;
}

export function readPartitionTable(): readonly PrintedTransition[] {
  const rows = readFileSync('docs/internals/partitions.md', 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
  return rows
    .filter(({ length }) => length === 5)
    .map(([name = '', from = '', to = '', by = '']) => ({
      name: name.replaceAll('`', ''),
      from: statesFor(from),
      to: to === 'as before' ? null : statesFor(to),
      by,
    }));
}

function statesFor(words: string): readonly string[] {
  const states = statesOfWords.get(words) ?? words.split(', ');
  const stray = states.find((state) => state !== 'unknown' && !known.includes(state));
  if (stray !== undefined) throw new TypeError(`docs/internals/partitions.md names no state "${stray}"`);
  return states;
}
