import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  anyDue,
  anyKnown,
  anyLive,
  transitions,
  type PartitionState,
  type Transition,
} from '../../../../src/sinks/ledger/partitions/transitions.ts';

const all: readonly (readonly [string, Transition])[] = Object.entries(transitions);
const room = 'sinks/ledger/';
const sources = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => name.split(path.sep).join('/'))
  .sort()
  .map((name) => ({ name, text: readFileSync(path.join('src', name), 'utf8') }));
/** Versions of the tables are made from one another in their own way. */
const makers = /\/(?:(?:jsonl|ledger|sqlite)\/schema|from-[\w-]+)\.ts$/;

/** Mentions of the table in code and SQL that do not read it. */
function countWrites(text: string): number {
  // The driver gets its name, to reserve numbers of its rows.
  const code = text.replaceAll(/^\s*(?:\/|\*).*$|table: '_sync_partitions'/gm, '');
  const mentions = code.match(/_sync_partitions\b(?!\.)/g) ?? [];
  const reads = code.match(/\b(?<!DELETE )(?:FROM|JOIN)\s+(?:\$\{(?:\w+\.)?at\})?_sync_partitions\b/g) ?? [];
  return mentions.length - reads.length;
}

function wordsFor(states: readonly PartitionState[]): string {
  const isAll = (every: readonly PartitionState[]): boolean =>
    states.length === every.length && every.every((state) => states.includes(state));
  if (isAll(anyKnown)) return 'any';
  if (isAll(anyLive)) return 'any live';
  return isAll(anyDue) ? 'any due' : states.join(', ');
}

function callersOf(transition: string): readonly string[] {
  return sources
    .filter(({ text }) => new RegExp(`\\btransitions\\.${transition}\\(`).test(text))
    .map(({ name }) => `\`${name.replace(room, '').replace(/\.ts$/, '')}\``);
}

describe('partitions as a state machine', () => {
  it('writes _sync_partitions only by named transitions, and by copies', () => {
    const writers = sources.filter(({ name, text }) => !makers.test(name) && countWrites(text) > 0);
    expect(writers.map(({ name }) => name)).toEqual(
      ['copies', 'partitions/transitions', 'repair/resets'].map((name) => `${room}${name}.ts`),
    );
  });

  it('draws the states of rows in the decision that the guide names', () => {
    const decision = 'internals/decisions/0009-a-delete-needs-a-walk-a-confirmation-and-a-limit.md';
    const [drawn] = /```mermaid[^`]*```/.exec(readFileSync(path.join('docs', decision), 'utf8')) ?? [];
    expect(drawn).toContain('live --> missing');
    expect(readFileSync('docs/guides/deletes.md', 'utf8')).toContain(`../${decision}#states-of-a-row`);
  });

  it('prints them all in docs/internals/partitions.md, with the files that run each', () => {
    const rows = all.map(([name, { from, to, what }]) => [
      `\`${name}\``,
      wordsFor(from),
      to === undefined ? 'as before' : wordsFor(to),
      callersOf(name).join(', '),
      what,
    ]);
    const printed = readFileSync('docs/internals/partitions.md', 'utf8')
      .split('\n')
      .filter((line) => line.startsWith('| `'))
      .map((line) =>
        line
          .split('|')
          .slice(1, -1)
          .map((cell) => cell.trim()),
      );
    expect(printed.filter(({ length }) => length === 5)).toEqual(rows);
  });
});
