import { afterEach, beforeEach, expect, it } from 'vitest';
import { accessSink } from '../../src/sinks/registry.ts';
import {
  Bench,
  identity,
  member,
  membersTable,
  news,
  onlyPartition,
  page,
} from '../contracts/sink/fixture.ts';
import { fileSinkKind } from '../contracts/file-sink/file-sink-kind.ts';
import { delayedAccess, randomTurns } from '../support/delayed-sink.ts';
import { sampleSinks } from '../support/sample-sinks.ts';

const sqlite = fileSinkKind({ options: (folder) => sampleSinks.sqlite.options(folder), ledgerFile: String });
let bench: Bench;
beforeEach(() => {
  bench = new Bench(sqlite);
});
afterEach(() => bench.close());

it('a delayed sink answers as the sink does, after other tasks had their turn, its readers too', async () => {
  let turns = 0;
  const random = randomTurns(1);
  const access = delayedAccess(accessSink(sqlite.options(bench.folder)), async () => {
    turns += 1;
    await random();
  });
  await using sink = await access.open({ durability: 'normal', clock: bench.clock });
  await using lease = await sink.acquire(identity());
  const { run } = await sink.startRun(lease, bench.plan('r1'));
  const { id } = await onlyPartition(sink, lease);
  await sink.commit(lease, [page({ lease, run }, id, [member('1'), member('2')])]);
  expect((await sink.history.runs({ limit: 5 })).map((one) => one.run)).toEqual(['r1']);
  await using reader = await access.openRecords();
  const found: number[] = [];
  for await (const records of reader.changes(news, membersTable, 0)) {
    found.push(...records.map(({ seq }) => seq));
  }
  expect(found).toEqual([1, 2]);
  // Before and after each of seven calls, before the batches and before each.
  expect(turns).toBe(7 * 2 + 2);
});
