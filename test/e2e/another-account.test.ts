import { expect, it } from 'vitest';
import { exitCodeOfReport } from '../../src/cli/output/exit-codes.ts';
import { createSampleAccount } from '../../src/sample/create-sample-account.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import { openCliWorld } from '../support/cli-world.ts';
import { openRevisionWorld } from '../support/revision-world.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { entityNamed } from '../support/sync-once.ts';
import { triedSinks } from '../support/trials.ts';

const members = entityNamed(builtInDefinition('email-marketing'), 'list_members').table;
const size = { members: 1_200 };

const entities = ['lists', 'campaigns', 'reports', 'list_members', 'unsubscribes'];

/** A service at one address under one id, whose account may become another one. */
async function openSwitched(sink: (typeof triedSinks)[number]) {
  let isOther = false;
  const other = createSampleAccount({ definitionName: 'email-marketing', seed: 4_711, size });
  const wrap = (own: SampleAccount): SampleAccount => ({
    list: (entity, params) => (isOther ? other : own).list(entity, params),
    get: (entity, params) => (isOther ? other : own).get(entity, params),
  });
  const world = await openRevisionWorld({ definitionName: 'email-marketing', sink, size, entities, wrap });
  return {
    world,
    sync: async (account: 'own' | 'other', isFull = false) => {
      isOther = account === 'other';
      return await world.sync({ isFull }, { doubtsAccount: true });
    },
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  };
}

const inserted = ({ entities }: RunReport): number =>
  entities.reduce((sum, { counts }) => sum + counts.inserted, 0);

// Proves promise 4.1
it.each(triedSinks)(
  'stops at the first large listing of another account, in every run (%s)',
  async (sink) => {
    await using switched = await openSwitched(sink);
    const { world, sync } = switched;
    expect((await sync('own')).outcome).toBe('ok');
    const before = world.stored(members);
    expect(before.size).toBe(1_200);

    for (const isFull of [true, false]) {
      const stopped = await sync('other', isFull);
      expect(stopped).toMatchObject({
        outcome: 'failed',
        error: { code: 'IDENTITY_CHANGED', recovery: 'stop' },
      });
      expect(exitCodeOfReport(stopped)).toBe(2);
      const message = stopped.error?.message ?? '';
      expect(message).toContain('none of the stored keys');
      expect(
        [...before.keys()].some((key) => message.includes(key)),
        'a stored key',
      ).toBe(true);
      expect(message).toMatch(/Served: \["/);
      // Of listings with fewer rows, which say nothing: a tenth of the members has unsubscribed.
      expect(inserted(stopped)).toBeLessThan(200);
      expect(world.stored(members)).toEqual(before);
    }

    const right = await sync('own', true);
    expect(right.error).toBeNull();
    expect(world.stored(members)).toEqual(before);
  },
);

// Proves promise 4.1
it('continues with the other account once it is adopted', async () => {
  let isOther = false;
  const other = createSampleAccount({ definitionName: 'email-marketing', seed: 4_711, size });
  const wrap = (own: SampleAccount): SampleAccount => ({
    list: (entity, params) => (isOther ? other : own).list(entity, params),
    get: (entity, params) => (isOther ? other : own).get(entity, params),
  });
  const settings = '    include: [lists, list_members]\n';
  await using world = await openCliWorld({ size, wrap, settings });
  const code = async (...args: readonly string[]) => (await world.cli(...args)).code;
  expect(await code('sync', 'newsletter')).toBe(0);
  isOther = true;
  expect(await code('sync', 'newsletter')).toBe(2);
  const shown = await world.cli('adopt', 'newsletter');
  expect(shown.stdout).toContain('The API serves other records than those that are stored.');
  expect(await code('sync', 'newsletter')).toBe(2);
  expect(await code('adopt', 'newsletter', '--yes')).toBe(0);
  expect(await code('sync', 'newsletter')).toBe(6);
  expect(await code('sync', 'newsletter', '--allow-deletes')).toBe(0);
  expect(await code('adopt', 'newsletter')).toBe(0);
});
