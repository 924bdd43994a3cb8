import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { transitions } from '../../src/sinks/ledger/partitions/transitions.ts';
import { fullDisk } from '../contracts/file-sink/full-disk.ts';
import { openingFiles } from '../contracts/file-sink/opening-files.ts';
import { describeSink } from '../contracts/sink-contract.ts';
import { member, sealed } from '../contracts/sink/fixture.ts';
import { useBench } from '../contracts/sink/use-bench.ts';
import { sqliteKind } from '../contracts/file-sink/file-sink-kind.ts';
import type { Tx } from '../../src/sql/database.ts';
import { readPartitionTable, type PrintedTransition } from '../support/partition-table.ts';
import { standing } from '../../src/sinks/decisions/becoming-due.ts';

type Run = (tx: Tx, values: object) => unknown;
type Row = { readonly id: number } & Readonly<Record<string, unknown>>;

/** Names of those that were run, in all tests of a file. */
const seenTransitions = new Set<string>();
/** Partitions that were led from or to a state that the printed table of transitions does not name. */
const wrongMoves: string[] = [];
/** Each look reads every partition: null where there are too many. */
const mostRows = 40;

/** From now on every transition of a partition is observed. Ends with what is returned. */
function observeTransitions(): () => void {
  const before = { ...transitions };
  const printed = readPartitionTable();
  // `as`: the table is constant but for this.
  const observed = Object.entries(before).map(([name, run]) => [
    name,
    observedTransition(
      run as Run,
      printed.find((one) => one.name === name),
    ),
  ]);
  Object.assign(transitions, Object.fromEntries(observed));
  return () => void Object.assign(transitions, before);
}

/**
 * The same transition, with a look at all partitions before and behind it. Statements run in the order given, so
 * nothing waits for the looks.
 */
function observedTransition(run: Run, printed: PrintedTransition | undefined): Run {
  if (printed === undefined) throw new TypeError('docs/internals/partitions.md lacks a transition');
  return (tx: Tx, values: object): unknown => {
    seenTransitions.add(printed.name);
    const before = look(tx);
    const result = run(tx, values);
    void Promise.all([before, look(tx)]).then(
      ([old, now]) => void wrongMoves.push(...movesAgainst(printed, old, now)),
      // The transaction has failed, and nothing is stored.
      () => undefined,
    );
    return result;
  };
}

async function look(tx: Tx): Promise<ReadonlyMap<number, Row>> {
  const rows = await tx.rows<Row>(`SELECT * FROM _sync_partitions ORDER BY id LIMIT ${mostRows}`);
  return new Map(rows.map((row) => [row.id, row]));
}

function movesAgainst(
  { name, from, to }: PrintedTransition,
  before: ReadonlyMap<number, Row>,
  after: ReadonlyMap<number, Row>,
): readonly string[] {
  if (before.size >= mostRows || after.size >= mostRows) return [];
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((id) => {
    const [old, now] = [before.get(id), after.get(id)];
    if (textOf(old) === textOf(now)) return [];
    const [left, entered] = [stateOf(old), stateOf(now)];
    const isAllowed = from.includes(left) && (to === null ? left === entered : to.includes(entered));
    return isAllowed
      ? []
      : [`${name} has led a partition from ${left} to ${entered}: ${textOf(old)} ${textOf(now)}`];
  });
}

function textOf(row: Row | undefined): string {
  return JSON.stringify(row) ?? 'none';
}

function stateOf(row: Row | undefined): string {
  if (row === undefined) return 'unknown';
  if (row['gone'] === standing.ended) return 'ended';
  if (row['gone'] === standing.emptied) return 'emptied';
  if (row['gone'] === standing.resting) return 'resting';
  if (row['dueSince'] === null) return row['sweepOrigin'] === null ? 'idle' : 'unswept';
  if (row['listed'] === 1) return 'listed';
  if (row['ready'] === 1) return 'ready';
  return row['setAsideRun'] === null ? 'waiting' : 'set-aside';
}

/** Every move of a partition, in all tests of this file, is one that the table of transitions names. */
let endObserving: () => void;
beforeAll(() => {
  endObserving = observeTransitions();
});
afterAll(() => endObserving());

describeSink('SQLite', sqliteKind);

describe('files of a SQLite sink', () => {
  describe('opening', () => openingFiles(sqliteKind));
  describe('on a full disk', () => fullDisk(sqliteKind));
});

describe('the mark of the last commit of a connector', () => {
  const bench = useBench(sqliteKind);

  it('changes with each transaction of a run that writes, and with no other', async () => {
    const sink = await bench().open();
    const mark = async () => await bench().ledger('SELECT last_commit FROM _sync_commits');
    const walk = await bench().walking('r1', {}, { sink });
    const begun = await mark();
    expect(await sink.findLeftovers(walk.lease)).toBe(0);
    expect(await mark()).toEqual(begun);
    await walk.commit([member('1')], { seal: sealed });
    expect(await mark()).not.toEqual(begun);
    await walk.release();
  });
});

/** A source that asks for quiet is a test of the engine, and what is masked in place one of whole syncs. */
const elsewhere = ['putFirstBack', 'forgetClear', 'hideFailure'];

it('has led partitions through every transition by now, and only as their table says', () => {
  const unseen = Object.keys(transitions).filter((name) => !seenTransitions.has(name));
  expect(unseen).toEqual(elsewhere);
  expect(wrongMoves).toEqual([]);
});
