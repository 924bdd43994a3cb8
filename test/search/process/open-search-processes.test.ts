import { renameSync, rmSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Bench } from '../../contracts/sink/fixture.ts';
import { never, sqlite } from '../../support/search/index-world.ts';
import {
  callFor,
  listMember,
  listMembers,
  membersPlan,
  openProcesses,
  sinkOfMembers,
} from '../../support/search/process-world.ts';

describe('search processes', () => {
  let bench: Bench;
  let file: string;

  beforeEach(async () => {
    bench = new Bench(sqlite);
    const members = ['1', '2', '3'].map((id) =>
      listMember(id, { full_name: `Ada ${id}`, web_id: Number(id) }),
    );
    file = await sinkOfMembers(bench, members, { isIndexed: true });
  });

  afterEach(async () => {
    await bench.close();
  });

  it('answer searches, page after page', async () => {
    await using processes = openProcesses();
    const query = { filter: { keyword: { full_name: 'ada' } }, sort: [{ web_id: 'desc' }] };
    const first = await processes.search(callFor(file, { query, limit: 2, fields: ['id'] }), never);
    expect(first.data).toEqual([{ id: '3' }, { id: '2' }]);
    const { cursor } = first.meta;
    const second = await processes.search(callFor(file, { query, limit: 2, fields: ['id'], cursor }), never);
    expect(second).toMatchObject({ data: [{ id: '1' }], meta: { has_more: false, cursor: null } });
  });

  it('reject an invalid query with its place, and serve the next one', async () => {
    await using processes = openProcesses();
    const wrong = processes.search(callFor(file, { query: { filter: { eq: { nobody: 1 } } } }), never);
    await expect(wrong).rejects.toMatchObject({
      code: 'SEARCH_INVALID',
      recovery: 'stop',
      context: { path: expect.stringContaining('nobody') as string },
    });
    const right = await processes.search(callFor(file, { query: {}, limit: 1 }), never);
    expect(right.data).toHaveLength(1);
  });

  it('take names of the language of objects for names like others', async () => {
    await using processes = openProcesses();
    for (const text of [
      '{"eq":{"__proto__":"x"}}',
      '{"__proto__":{"id":"1"}}',
      '{"eq":{"constructor":"x"}}',
    ]) {
      const query = { filter: JSON.parse(text) as never };
      await expect(processes.search(callFor(file, { query }), never)).rejects.toMatchObject({
        code: 'SEARCH_INVALID',
      });
    }
    expect(({} as Record<string, unknown>)['id']).toBeUndefined();
  });

  it('refuse what is too deep or too large to be handed on', async () => {
    await using processes = openProcesses();
    const deep = JSON.parse(`${'{"not":'.repeat(100_000)}1${'}'.repeat(100_000)}`) as never;
    const large = { filter: { eq: { id: 'x'.repeat(200_000) } } };
    for (const query of [deep, large]) {
      await expect(processes.search(callFor(file, { query }), never)).rejects.toMatchObject({
        code: 'SEARCH_INVALID',
      });
    }
  });

  it('say that there is no file, find it when it comes, and another one in its place', async () => {
    await using processes = openProcesses();
    const all = callFor(file, { query: {}, fields: ['id'] });
    expect((await processes.search(all, never)).data).toHaveLength(3);
    for (const suffix of ['', '-wal', '-shm']) rmSync(`${file}${suffix}`, { force: true });
    await expect(processes.search(all, never)).rejects.toMatchObject({ code: 'SINK_FAILED' });
    const other = new Bench(sqlite);
    const made = await sinkOfMembers(other, [listMember('9')], { isIndexed: false });
    renameSync(made, file);
    expect((await processes.search(all, never)).data).toEqual([{ id: '9' }]);
    await other.close();
  });

  it('see what was written since, without being reopened', async () => {
    await using processes = openProcesses();
    const count = async (): Promise<number> =>
      (await processes.search(callFor(file, { query: {} }), never)).data.length;
    expect(await count()).toBe(3);
    const sink = await bench.open();
    const started = await bench.begin(sink, 'run-2', membersPlan);
    const { keyText } = listMember('2');
    await sink.repair.tombstoneRecord(started.lease, started.run, listMembers.name, keyText);
    expect(await count()).toBe(2);
  });
});
