import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  anyDue,
  anyKnown,
  anyLive,
  type PartitionState,
  type Transition,
} from '../../../../src/sinks/file-ledger/partitions/states.ts';
import { transitions } from '../../../../src/sinks/file-ledger/partitions/transitions.ts';

const all = Object.entries(transitions as unknown as Readonly<Record<string, Transition>>);
const sources = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => name.split(path.sep).join('/'))
  .sort()
  .map((name) => ({ name, text: readFileSync(path.join('src', name), 'utf8') }));
const room = 'sinks/file-ledger/';
/** Of statements in sets, by the same names. */
const otherRoom = 'sinks/ledger/';
/** Versions of the tables are made from one another in their own way. */
const makers = [
  ...['migrations', 'partitions/partitions-sql'].map((name) => `${room}${name}.ts`),
  `${otherRoom}partitions/partitions-sql.ts`,
];

/** Mentions of the table in code and SQL that do not read it. */
function countWrites(text: string): number {
  const mentions = text.match(/_sync_partitions\b(?!\.)/g) ?? [];
  const reads = text.match(/\b(?<!DELETE )(?:FROM|JOIN)\s+(?:\$\{(?:\w+\.)?at\})?_sync_partitions\b/g) ?? [];
  return mentions.length - reads.length;
}

function wordsFor(states: readonly PartitionState[]): string {
  const isAll = (all: readonly PartitionState[]): boolean =>
    states.length === all.length && all.every((state) => states.includes(state));
  if (isAll(anyKnown)) return 'any';
  if (isAll(anyLive)) return 'any live';
  return isAll(anyDue) ? 'any due' : states.join(', ');
}

describe('partitions as a state machine', () => {
  it('writes _sync_partitions only by named transitions', () => {
    const writers = sources.filter(({ text }) => countWrites(text.replaceAll(/^\s*(?:\/|\*).*$/gm, '')) > 0);
    const tables = [
      ...['keeping', 'transitions', 'walking'].map((name) => `${room}partitions/${name}.ts`),
      ...['deleting', 'keeping', 'walking'].map((name) => `${otherRoom}partitions/${name}.ts`),
    ];
    expect(writers.map(({ name }) => name)).toEqual([...tables, ...makers].sort());
    expect(all.filter(([, { sql }]) => countWrites(sql) !== 1)).toEqual([]);
  });

  it('runs each transition from the files that the table names, and from no other', () => {
    const callers: Record<string, string[]> = {};
    for (const { name, text } of sources) {
      const called = [...text.matchAll(/\btransitions\.(\w+)\.(?:run|get|all)\(/g)].map(
        ([, which = '']) => which,
      );
      for (const which of new Set(called)) {
        (callers[which] ??= []).push(name.replace(room, '').replace(/\.ts$/, ''));
      }
    }
    const named = Object.fromEntries(all.map(([name, { by }]) => [name, [...by].sort()]));
    expect(callers).toEqual(named);
  });

  it('draws the states of rows alike in the decision and in the guide', () => {
    const drawn = ['decisions/0010-how-a-record-counts-as-deleted.md', 'guides/deletes.md'].map(
      (name) => /```mermaid[^`]*```/.exec(readFileSync(path.join('docs', name), 'utf8'))?.[0],
    );
    expect(drawn[0]).toContain('live --> missing');
    expect(drawn[1]).toBe(drawn[0]);
  });

  it('prints them all in docs/partitions.md', () => {
    const rows = all.map(([name, { from, to, by, what }]) => [
      `\`${name}\``,
      wordsFor(from),
      to === undefined ? 'as before' : wordsFor(to),
      by.map((file) => `\`${file}\``).join(', '),
      what,
    ]);
    const printed = readFileSync('docs/partitions.md', 'utf8')
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
