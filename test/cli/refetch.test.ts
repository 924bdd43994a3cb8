import { afterEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { text } from '../support/service/served-api.ts';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import type { SampleSinkType } from '../support/sample-sinks.ts';
import { jsonLines } from '../support/run-cli.ts';
import { triedSinks } from '../support/trials.ts';

let world: CliWorld;
/** Stands between the service and the account; changed by the tests. */
let change: (record: JsonObject) => JsonObject | null = (record) => record;

const wrap = (account: SampleAccount): SampleAccount => ({
  list: (entity, params) => account.list(entity, params),
  get: (entity, params) => {
    const record = account.get(entity, params);
    return record === null ? null : change(record);
  },
});

async function open(sink: SampleSinkType, settings = ''): Promise<void> {
  change = (record) => record;
  world = await openCliWorld({ sink, wrap, settings });
  expect((await world.cli('sync')).code).toBe(0);
}

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

async function rows(target: string): Promise<readonly Record<string, unknown>[]> {
  return jsonLines(await world.cli('export', target));
}

describe.each(triedSinks)('refetch into a %s sink', (sink) => {
  it('writes nothing for an unchanged record, also in a tree', async () => {
    await open(sink);
    const [member] = await rows('newsletter/list_members');
    const [report] = await rows('newsletter/reports');
    const blocks = await rows('wiki/blocks');
    const block = blocks.find(({ depth }) => Number(depth) > 0);
    const asked = [
      ['newsletter/list_members', `id=${String(member?.['id'])}`, `list_id=${String(member?.['list_id'])}`],
      ['newsletter/reports', `id=${String(report?.['id'])}`],
      ['wiki/blocks', `id=${String(block?.['id'])}`],
    ];
    for (const [target = '', ...key] of asked) {
      const [result] = await world.json('refetch', target, '--key', ...key);
      expect(result).toMatchObject({ target, result: 'unchanged' });
    }
    expect(await rows('wiki/blocks')).toEqual(blocks);
    const [history] = await world.json('runs', '--limit', '3');
    expect(history?.['runs']).toMatchObject([{ kind: 'refetch' }, { kind: 'refetch' }, { kind: 'refetch' }]);
  });

  it('stores what has changed, as a walk would have', async () => {
    await open(sink);
    const [list] = await rows('newsletter/lists');
    change = (record) => ({ ...record, name: 'Renamed', brand_new: 1 });
    const [result] = await world.json('refetch', 'newsletter/lists', '--key', `id=${String(list?.['id'])}`);
    expect(result).toMatchObject({ result: 'updated' });
    const after = (await rows('newsletter/lists')).at(-1);
    expect(after).toMatchObject({ id: list?.['id'], name: 'Renamed', _run_id: result?.['run'] });
    expect(after?.['_extra']).toMatchObject({ brand_new: 1 });
  });

  it('stores a record that no sync has met yet', async () => {
    await open(sink, '    include: [lists]\n');
    const lists = await rows('newsletter/lists');
    const known = new Set(lists.map(({ id }) => id));
    let added: JsonObject | undefined;
    for (let revision = 1; added === undefined && revision < 10; revision += 1) {
      world.moveTo(revision);
      added = world.newsletter
        .list('lists', {})
        .slice(0, 100)
        .find(({ id }) => !known.has(id));
    }
    const [result] = await world.json(
      'refetch',
      'newsletter/lists',
      '--key',
      `id=${text(added?.['id'] ?? null)}`,
    );
    expect(result).toMatchObject({ result: 'inserted' });
    expect((await rows('newsletter/lists')).map(({ id }) => id)).toContain(added?.['id']);
    // The next sync finds it as it is.
    const report = (await world.json('sync', 'newsletter')).at(-1);
    expect(report).toMatchObject({ report: { outcome: 'ok', entities: [{ counts: { inserted: 0 } }] } });
  });

  it('leaves the row of a deleted record unchanged, and ends with 3, unless deletes are allowed', async () => {
    await open(sink);
    const before = await rows('newsletter/lists');
    const key = `id=${String(before[0]?.['id'])}`;
    change = () => null;
    const kept = await world.cli('refetch', 'newsletter/lists', '--key', key);
    expect(kept).toMatchObject({ code: 3, stdout: expect.stringContaining('nothing was changed') as string });
    expect(await rows('newsletter/lists')).toEqual(before);
    const [deleted] = await world.json('refetch', 'newsletter/lists', '--key', key, '--allow-deletes');
    expect(deleted).toMatchObject({ result: 'deleted' });
    expect((await rows('newsletter/lists')).at(-1)).toMatchObject({ id: before[0]?.['id'], _op: 'delete' });
    const [again] = await world.json('refetch', 'newsletter/lists', '--key', key, '--allow-deletes');
    expect(again).toMatchObject({ result: 'not-stored' });
    change = (record) => record;
    const [back] = await world.json('refetch', 'newsletter/lists', '--key', key);
    expect(back).toMatchObject({ result: 'updated' });
  });

  it('stores nothing of a record that is not the one that was asked for', async () => {
    await open(sink);
    const before = await rows('newsletter/lists');
    change = (record) => ({ ...record, id: 'other' });
    const key = `id=${String(before[0]?.['id'])}`;
    const result = await world.cli('refetch', 'newsletter/lists', '--key', key);
    expect(result.code).toBe(1);
    expect(result.stderr).toContain('["other"]');
    expect(await rows('newsletter/lists')).toEqual(before);
  });
});

describe('refetch', () => {
  it.each([
    [['newsletter/list_members', '--key', 'id=x'], 'missing: list_id'],
    [['newsletter/lists', '--key', 'id=x', 'name=y'], 'a record of lists is known by id'],
    [['newsletter/lists', '--key', 'id=x', '--key', 'id=y'], 'is given twice'],
    [['newsletter/lists', '--key', 'x'], 'expected name=value'],
    [['newsletter/segments', '--key', 'list_id=a', 'id=one'], 'expected integer'],
    [['newsletter/tags', '--key', 'list_id=a', 'id=1'], 'has the actions list, not get'],
    [['newsletter/email_activity_events', '--key', 'id=1'], 'elements of email_activity'],
    [['wiki/blocks', '--key', 'id=nowhere'], 'does not say which listing it belongs to'],
  ])('refuses %j before any call', async (args, message) => {
    await open('sqlite', '    include: [lists]\n');
    const result = await world.cli('refetch', ...args);
    expect(result).toMatchObject({ code: 2, stderr: expect.stringContaining(message) as string });
  });
});
