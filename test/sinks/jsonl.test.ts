import {
  appendFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { isJsonObject, type JsonObject } from '../../src/core/json.ts';
import type { EntityTable } from '../../src/core/records.ts';
import { readJson, writeJson } from '../../src/core/json-text.ts';
import { describeFileSink } from '../contracts/file-sink-contract.ts';
import {
  counts,
  identity,
  member,
  members,
  onlyPartition,
  page,
  report,
  entityReport,
  type Started,
} from '../contracts/sink/fixture.ts';
import { fileSinkKind } from '../contracts/file-sink/file-sink-kind.ts';
import { useBench } from '../contracts/sink/use-bench.ts';
import { byKey } from '../support/sinks/stored-record.ts';

const ledgerFile = (folder: string): string => join(folder, '_ledger.db');

function readLines(folder: string, connector: string, entity: string): readonly JsonObject[] {
  const directory = join(folder, connector, entity);
  const names = existsSync(directory) ? readdirSync(directory) : [];
  return names.flatMap((name) => {
    const text = readFileSync(join(directory, name), 'utf8');
    expect(text === '' || text.endsWith('\n')).toBe(true);
    return text.split('\n').slice(0, -1).map(readJson).filter(isJsonObject);
  });
}

function bySeq(lines: readonly JsonObject[]): readonly JsonObject[] {
  return [...lines].sort((left, right) => Number(left['_seq']) - Number(right['_seq']));
}

/** The last line of a key is its state; a deletion takes the row away. */
function readRows(folder: string, connector: string, table: EntityTable): readonly JsonObject[] {
  const rowByKey = new Map<string, JsonObject>();
  for (const line of bySeq(readLines(folder, connector, table.entity))) {
    rowByKey.set(writeJson(table.key.map((name) => line[name])), line);
  }
  return byKey(
    [...rowByKey.values()].filter((line) => line['_op'] !== 'delete'),
    table.key,
  );
}

const kind = fileSinkKind({
  options: (folder) => ({ type: 'jsonl', name: 'lake', directory: folder, durability: 'full' }),
  ledgerFile,
  ownTables: ['_sync_files'],
  readRows,
  readChanges: (folder, connector, table) => bySeq(readLines(folder, connector, table.entity)),
});

describeFileSink('JSONL', kind, { sharesLedger: true });

describe('JSONL files', () => {
  const bench = useBench(kind);
  const directory = (): string => join(bench().folder, 'news', 'members');
  const names = (): readonly string[] => readdirSync(directory()).sort();
  const lengths = (): readonly number[] =>
    names().map((name) => readFileSync(join(directory(), name), 'utf8').split('\n').length - 1);

  /** A run that has committed two records and is left as a kill leaves it: nothing closed, the lock free. */
  async function killed(): Promise<void> {
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1');
    const { id } = await onlyPartition(sink, started.lease);
    await sink.commit(started.lease, [page(started, id, [member('1')])]);
    await sink.commit(started.lease, [page(started, id, [member('2')])]);
    await started.lease[Symbol.asyncDispose]();
  }

  it('grow under a name of their own epoch and get their final one at the end of the run', async () => {
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1');
    const { id } = await onlyPartition(sink, started.lease);
    await sink.commit(started.lease, [page(started, id, [member('1')])]);
    expect(names()).toEqual(['1-1.jsonl.open']);
    await sink.finish(
      started.lease,
      started.run,
      report(started, { entities: [entityReport(members, { fetched: 1, inserted: 1 })] }),
    );
    expect(names()).toEqual(['1-1.jsonl']);
    expect(readFileSync(join(directory(), '1-1.jsonl'), 'utf8')).toBe(
      '{"list_id":"a","id":"1","name":"Ada","visits":null,"score":null,"vip":null,"address":null,"tags":null,"anything":null,' +
        '"_op":"upsert","_seq":1,"_changed_at":"2026-03-01T10:00:00.000Z","_run_id":"r1"}\n',
    );
    await sink.startRun(started.lease, bench().plan('r2'));
    const next = { ...started, run: 'r2' as Started['run'] };
    await sink.commit(started.lease, [page(next, id, [member('1')])]);
    expect(names(), 'nothing is written for unchanged records').toEqual(['1-1.jsonl']);
    await sink.commit(started.lease, [page(next, id, [member('2')])]);
    expect(names()).toEqual(['1-1.jsonl', '1-2.jsonl.open']);
  });

  it('are closed when they have reached 64 MB', async () => {
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1');
    const { id } = await onlyPartition(sink, started.lease);
    for (const [key, name] of [
      ['1', 'n'.repeat(65 * 1024 * 1024)],
      ['2', 'n'],
    ] as const) {
      await sink.commit(started.lease, [page(started, id, [member(key, name)])]);
    }
    expect(names()).toEqual(['1-1.jsonl', '1-2.jsonl.open']);
  });

  // Proves promise 1
  it('lose what lies past the committed length when the connector is taken again, and keep the rest', async () => {
    await killed();
    appendFileSync(join(directory(), '1-1.jsonl.open'), '{"id":"3","torn":');
    writeFileSync(join(directory(), '1-2.jsonl.open'), '{"id":"4"}\n');
    writeFileSync(join(directory(), 'notes.txt'), 'mine');
    const sink = await bench().open();
    await sink.acquire(identity());
    expect(names()).toEqual(['1-1.jsonl', 'notes.txt']);
    unlinkSync(join(directory(), 'notes.txt'));
    expect((await bench().rows()).map((row) => row['id'])).toEqual(['1', '2']);
  });

  it('get the final name that a kill kept from them', async () => {
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1');
    const { id } = await onlyPartition(sink, started.lease);
    await sink.commit(started.lease, [page(started, id, [member('1')])]);
    await sink.finish(
      started.lease,
      started.run,
      report(started, { entities: [entityReport(members, { fetched: 1, inserted: 1 })] }),
    );
    await started.lease[Symbol.asyncDispose]();
    renameSync(join(directory(), '1-1.jsonl'), join(directory(), '1-1.jsonl.open'));
    await sink.acquire(identity());
    expect(names()).toEqual(['1-1.jsonl']);
  });

  it('that lost committed lines are cut to whole lines, and the newest ones of what was lost come back in another file', async () => {
    await killed();
    const file = join(directory(), '1-1.jsonl.open');
    truncateSync(file, statSync(file).size - 5);
    const sink = await bench().open();
    const lease = await sink.acquire(identity());
    expect(names()).toEqual(['1-1.jsonl', '2-1.jsonl']);
    expect(lengths()).toEqual([1, 1]);
    expect((await bench().rows()).map((row) => row['id'])).toEqual(['1', '2']);
    await sink.startRun(lease, bench().plan('r2'));
    const { id } = await onlyPartition(sink, lease);
    const [committed] = await sink.commit(lease, [
      page({ lease, run: 'r2' as Started['run'] }, id, [member('1'), member('2')]),
    ]);
    expect(committed?.counts[0]?.counts).toEqual(counts({ fetched: 2, duplicate: 2 }));
    expect(names(), 'nothing is written for unchanged records').toEqual(['1-1.jsonl', '2-1.jsonl']);
  });

  it.each([
    ['gone', (file: string) => unlinkSync(file)],
    ['overwritten', (file: string) => writeFileSync(file, Buffer.alloc(100))],
  ])('that are %s are replaced by one with the same lines', async (_how, damage) => {
    await killed();
    const before = readFileSync(join(directory(), '1-1.jsonl.open'), 'utf8');
    damage(join(directory(), '1-1.jsonl.open'));
    const sink = await bench().open();
    await sink.acquire(identity());
    expect(names()).toEqual(['2-1.jsonl']);
    expect(readFileSync(join(directory(), '2-1.jsonl'), 'utf8')).toBe(before);
  });

  it('hold nothing past the committed length when they get their final name', async () => {
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1');
    const { id } = await onlyPartition(sink, started.lease);
    await sink.commit(started.lease, [page(started, id, [member('1')])]);
    appendFileSync(join(directory(), '1-1.jsonl.open'), '{"id":"9"}\n');
    const entities = [entityReport(members, { fetched: 1, inserted: 1 })];
    await sink.finish(started.lease, started.run, report(started, { entities }));
    expect(names()).toEqual(['1-1.jsonl']);
    expect((await bench().rows()).map((row) => row['id'])).toEqual(['1']);
  });

  it('hold nothing of a commit that failed, and continue behind the last good one', async () => {
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1');
    const { id } = await onlyPartition(sink, started.lease);
    const wrong = page(started, id, [member('9')], { fetched: 5 });
    await expect(sink.commit(started.lease, [wrong])).rejects.toMatchObject({ code: 'ACCOUNTING' });
    await sink.commit(started.lease, [page(started, id, [member('1')])]);
    await expect(sink.commit(started.lease, [wrong])).rejects.toMatchObject({ code: 'ACCOUNTING' });
    await sink.commit(started.lease, [page(started, id, [member('2')])]);
    expect(readLines(bench().folder, 'news', 'members').map((line) => [line['id'], line['_seq']])).toEqual([
      ['1', 1],
      ['2', 2],
    ]);
  });
});
