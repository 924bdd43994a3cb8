import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../../src/core/json.ts';
import type { EntityName } from '../../../src/core/names.ts';
import { findGetParams } from '../../../src/engine/complete-page.ts';
import { builtInDefinition } from '../../support/sample-service.ts';
import { fakeDeletes } from '../../support/sweep/fake-deletes.ts';
import { entityNamed } from '../../support/sync-once.ts';
import { campaigns, fails, lists, members, missingRows, sweep } from '../../support/sweep/sweeping.ts';

const member = (id: string, more: Readonly<Record<string, JsonValue>> = {}): JsonValue => ({
  id,
  list_id: 'a1',
  email_address: `${id}@example.com`,
  status: 'subscribed',
  ...more,
});
const large = { list_members: 10_000, campaigns: 10_000, lists: 10_000 };
const blocks = 'blocks' as EntityName;
const needsGet = { needs: 'get' as const };

describe('a row that looks deleted', () => {
  it('is deleted when get does not find it either', async () => {
    const deletes = fakeDeletes(missingRows(members, 3, needsGet), large);
    const { report, asked, events } = await sweep(deletes);
    expect(asked.toSorted()).toEqual(['m1', 'm2', 'm3']);
    expect(deletes.judged.map(({ verdict }) => verdict)).toEqual(['gone', 'gone', 'gone']);
    expect(report(members)).toMatchObject({ deleted: 3, pending: 0, withdrawn: 0 });
    expect(events.filter(({ kind }) => kind === 'record-confirmed')).toHaveLength(3);
  });

  // Proves promise 4
  it('is stored when get returns it, and withdraws the proof of its walk', async () => {
    const deletes = fakeDeletes(missingRows(members, 1, needsGet), large);
    const { report, tally } = await sweep(deletes, { answers: (id) => member(id) });
    expect(deletes.judged).toMatchObject([
      { verdict: 'there', isUnlisted: false, record: { keyText: '["a1","m1"]' } },
    ]);
    expect(report(members)).toMatchObject({
      deleted: 0,
      withdrawn: 1,
      isWhole: false,
      counts: { fetched: 1, unchanged: 1 },
    });
    expect(tally.isDegraded()).toBe(true);
    expect(() => tally.check()).not.toThrow();
  });

  it('withdraws each walk once, however many of its records exist', async () => {
    const rows = [
      ...missingRows(members, 5, { ...needsGet, partition: 'a' }),
      ...missingRows(members, 30, { ...needsGet, partition: 'b' }).slice(5),
    ];
    const { report } = await sweep(fakeDeletes(rows, large), { answers: (id) => member(id) });
    expect(report(members)).toMatchObject({ withdrawn: 2, counts: { fetched: 30 } });
  });

  it('withdraws nothing where listings are known to leave such records out, or were before', async () => {
    const rows = [
      ...missingRows(members, 1, needsGet),
      ...missingRows(members, 2, { ...needsGet, wasVouchedFor: true }).slice(1),
    ];
    const deletes = fakeDeletes(rows, large);
    const { report, tally } = await sweep(deletes, {
      answers: (id) => member(id, id === 'm1' ? { status: 'archived' } : {}),
    });
    expect(deletes.judged.map((one) => one.verdict === 'there' && one.isUnlisted)).toEqual([true, false]);
    expect(report(members)).toMatchObject({ withdrawn: 0, deleted: 0 });
    expect(tally.isDegraded()).toBe(false);
  });

  it('stays unchanged if get returns another record or one that cannot be stored', async () => {
    const deletes = fakeDeletes(missingRows(members, 2, needsGet), large);
    const { report } = await sweep(deletes, {
      answers: (id) => (id === 'm1' ? member('someone-else') : { status: 'subscribed' }),
    });
    expect(deletes.judged).toMatchObject([
      { verdict: 'there', record: null },
      { verdict: 'there', record: null },
    ]);
    expect(report(members).counts.fetched).toBe(0);
  });

  it('stays unchanged if get returns only a part of a block, which does not say that it has left its page', async () => {
    const keyText = '["b1"]';
    const deletes = fakeDeletes(missingRows(blocks, 1, { ...needsGet, keyText }), { blocks: 10_000 });
    const { report } = await sweep(deletes, {
      definition: builtInDefinition('workspace-notes'),
      answers: (id) => ({ object: 'block', id }),
    });
    expect(deletes.judged).toMatchObject([{ verdict: 'there', record: null, isUnlisted: false }]);
    expect(report(blocks)).toMatchObject({ deleted: 0 });
  });

  // Proves promise 4
  it('is asked about at most as often as the rate allows in ten minutes, entities taking turns', async () => {
    const rows = [...missingRows(members, 1_500, needsGet), ...missingRows(campaigns, 30, needsGet)];
    const { report, asked } = await sweep(fakeDeletes(rows, large), { requestsPerSecond: 2 });
    expect(asked).toHaveLength(1_200);
    expect(new Set(asked).size).toBe(1_200);
    expect(report(campaigns)).toMatchObject({ deleted: 30, pending: 0, toConfirm: 0 });
    expect(report(members)).toMatchObject({ deleted: 1_170, pending: 330, toConfirm: 330 });
  });

  it('is asked about 200 times in a run where the rate is lower', async () => {
    const { asked } = await sweep(fakeDeletes(missingRows(members, 500, needsGet), large));
    expect(asked).toHaveLength(200);
  });

  it.each([{ maxCalls: 5_000 }, { budgetMs: 3_600_000 }])(
    'is asked about until nothing is left where the run has a limit: %j',
    async (limit) => {
      const deletes = fakeDeletes(missingRows(members, 1_000, needsGet), large);
      const { asked, report } = await sweep(deletes, limit);
      expect(asked).toHaveLength(1_000);
      expect(report(members)).toMatchObject({ deleted: 1_000, pending: 0, toConfirm: 0 });
    },
  );

  it('is deleted with what was answered before it, round by round', async () => {
    const deletes = fakeDeletes(missingRows(members, 450, needsGet), large);
    await sweep(deletes, { maxCalls: 5_000 });
    const tombstones = deletes.calls.filter((call) => call.startsWith('tombstone'));
    expect(tombstones).toEqual([200, 200, 50].map((rows) => `tombstone list_members all ${rows}`));
  });

  // Proves promise 4
  it('is deleted although the time of the run is over, once it was answered', async () => {
    const deletes = fakeDeletes(missingRows(members, 100, needsGet), large);
    const over = new AbortController();
    let answered = 0;
    const answers = (): null => {
      answered += 1;
      if (answered === 30) over.abort(new Error('over'));
      return null;
    };
    const { report, error } = await sweep(deletes, { answers, signal: over.signal, budgetMs: 1_000 });
    expect(error).toMatchObject({ message: 'over' });
    expect(report(members).deleted).toBeGreaterThanOrEqual(30);
  });

  it('is asked about by the next run where this one had no more questions', async () => {
    const deletes = fakeDeletes(missingRows(members, 250, needsGet), large);
    const first = await sweep(deletes);
    const second = await sweep(deletes);
    expect([first.asked.length, second.asked.length]).toEqual([200, 50]);
    expect(second.report(members)).toMatchObject({ deleted: 50, pending: 0 });
  });

  it.each([
    ['UPSTREAM', 'retry'],
    ['NOT_FOUND', 'skip-partition'],
    ['UPSTREAM', 'skip-entity'],
  ] as const)(
    'stays pending when its question fails (%s, %s), and others are asked',
    async (code, recovery) => {
      const deletes = fakeDeletes(missingRows(members, 40, needsGet), large);
      const { report, error, asked } = await sweep(deletes, {
        answers: (id) => (id === 'm2' || id === 'm35' ? fails(code, recovery) : null),
      });
      expect(error).toBeNull();
      expect(asked).toHaveLength(40);
      expect(report(members)).toMatchObject({ deleted: 38, pending: 2, withdrawn: 0 });
    },
  );

  it('is asked about in this run although others before it got no answer', async () => {
    const deletes = fakeDeletes(missingRows(members, 100, needsGet), large);
    const isUnanswered = (id: string): boolean => id.endsWith('7');
    const answers = (id: string): JsonValue => (isUnanswered(id) ? fails('UPSTREAM', 'retry') : null);
    const { asked, report } = await sweep(deletes, { answers });
    expect(asked).toHaveLength(100);
    expect(new Set(asked).size, 'each once').toBe(100);
    expect(report(members)).toMatchObject({ deleted: 90, pending: 10 });
    const next = await sweep(deletes);
    expect(next.asked.toSorted(), 'again in the next run').toEqual(asked.filter(isUnanswered).toSorted());
  });

  it('costs only a few calls if none of an entity is answered', async () => {
    const rows = [...missingRows(members, 100, needsGet), ...missingRows(campaigns, 10, needsGet)];
    const { report, asked } = await sweep(fakeDeletes(rows, large), {
      answers: (id) => (id.startsWith('m') ? fails('UPSTREAM', 'retry') : null),
    });
    expect(asked.filter((id) => id.startsWith('m')).length).toBeLessThanOrEqual(7);
    expect(report(members)).toMatchObject({ deleted: 0, pending: 100 });
    expect(report(campaigns)).toMatchObject({ deleted: 10 });
  });

  it.each([
    ['AUTH_FAILED', 'stop'],
    ['UPSTREAM', 'throttle'],
    ['BUDGET_SPENT', 'stop'],
  ] as const)(
    'ends the sweep when its question fails with %s (%s), after the answers are stored',
    async (code, recovery) => {
      const deletes = fakeDeletes([...missingRows(members, 40, needsGet), ...missingRows(lists, 2)], large);
      let answered = 0;
      const { error, report, asked } = await sweep(deletes, {
        answers: () => {
          answered += 1;
          return answered > 30 ? fails(code, recovery) : null;
        },
      });
      expect(error).toMatchObject({ code });
      expect(asked.length).toBeLessThanOrEqual(33);
      expect(report(members).deleted).toBe(30);
      expect(report(lists).deleted, 'needs no question').toBe(2);
    },
  );

  it('that no get can be made for stays pending and costs no call', async () => {
    const rows = missingRows(members, 30, needsGet).map((row) => ({ ...row, keyText: '["a1"]' }));
    const { asked, report } = await sweep(fakeDeletes(rows, large));
    expect(asked).toEqual([]);
    expect(report(members)).toMatchObject({ deleted: 0, pending: 30 });
  });
});

describe('the parameters of a get', () => {
  const mailing = builtInDefinition('email-marketing');
  const members = entityNamed(mailing, 'list_members');
  const interests = entityNamed(mailing, 'interests');
  const segments = entityNamed(mailing, 'segments');

  it('come from the key, in the type that the service wants', () => {
    const row = { keyText: '["a1","5d41402abc4b2a76b9719d911017c592"]', inject: {}, params: {} };
    expect(findGetParams(members, row)).toEqual({
      list_id: 'a1',
      subscriber_hash: '5d41402abc4b2a76b9719d911017c592',
    });
  });

  it('come from what the partition fills in, and from its own parameters', () => {
    const parts = keyOf(interests.key, { id: 'i1', category_id: 'c1', list_id: 'a1' });
    const params = { list_id: 'a1', interest_category_id: 'c1' };
    expect(findGetParams(interests, { keyText: parts, inject: {}, params })).toEqual({
      ...params,
      interest_id: 'i1',
    });
  });

  it.each([9007199254740993n, 9007199254740992n])('keep every digit of a number: %s', (id) => {
    const keyText = keyOf(segments.key, { list_id: 'a1', id });
    expect(findGetParams(segments, { keyText, inject: {}, params: { list_id: 'a1' } })).toEqual({
      list_id: 'a1',
      segment_id: String(id),
    });
  });

  it('are not to be had where the entity has no get, or where a part is missing', () => {
    const none = entityNamed(mailing, 'segment_members');
    expect(findGetParams(none, { keyText: '["x"]', inject: {}, params: {} })).toBeNull();
    expect(findGetParams(members, { keyText: '["a1"]', inject: {}, params: {} })).toBeNull();
    expect(findGetParams(members, { keyText: '["a1",null]', inject: {}, params: {} })).toBeNull();
  });

  it('hold what looks like JSON in a key as the text that it is', () => {
    const keyText = '["a,\\"]1","[\\\\\\",\\"x"]';
    expect(findGetParams(members, { keyText, inject: {}, params: {} })).toEqual({
      list_id: 'a,"]1',
      subscriber_hash: '[\\","x',
    });
  });
});

function keyOf(names: readonly string[], values: Readonly<Record<string, string | bigint>>): string {
  const parts = names.map((name) => values[name] ?? null);
  return `[${parts.map((part) => (typeof part === 'bigint' ? String(part) : JSON.stringify(part))).join(',')}]`;
}
