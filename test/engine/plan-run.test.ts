import { describe, expect, it } from 'vitest';
import type { EntityName } from '../../src/core/names.ts';
import { compilePreparePage } from '../../src/engine/prepare/prepare-page.ts';
import { planRun, withWindow, ordinaryRun } from '../../src/engine/plan-run.ts';
import type { FoundPartition, Partition } from '../../src/sinks/partition.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { allEntities, chosenEntities, entityNamed } from '../support/sync-once.ts';
import { readRecords } from '../../src/source/source.ts';

const mailing = builtInDefinition('email-marketing');
const notes = builtInDefinition('workspace-notes');
const nowMs = Date.UTC(2026, 4, 8);
const window = { sinceMs: Date.UTC(2026, 0, 1), untilMs: Date.UTC(2026, 1, 1) };
const bounds = { since: '2025-12-31T23:59:59+00:00', before: '2026-02-01T00:00:00+00:00' };

describe('the plan of a sync', () => {
  it('says how each entity is read, and from when on that is in full', () => {
    const plan = planRun(mailing, allEntities(mailing), nowMs, ordinaryRun);
    expect(plan.reading.get('list_members' as EntityName)).toEqual({
      isIncremental: true,
      fullBefore: '2026-05-01T00:00:00.000Z',
      mayMove: false,
    });
    expect(plan.reading.get('unsubscribes' as EntityName)).toMatchObject({
      isIncremental: false,
      mayMove: false,
    });
    expect(plan).toMatchObject({ kind: 'sync', window: '', backfill: '', isFull: false, isBudgeted: false });
    expect(planRun(mailing, allEntities(mailing), nowMs, { ...ordinaryRun, maxCalls: 5 }).isBudgeted).toBe(
      true,
    );
  });

  it('says whose records may move from below one parent to another: those whose key does not name it', () => {
    const { reading } = planRun(notes, allEntities(notes), nowMs, ordinaryRun);
    const moving = [...reading].filter(([, { mayMove }]) => mayMove).map(([name]) => name);
    expect(moving).toEqual(['blocks']);
  });

  it('reads in full where the settings send the lower bound themselves', () => {
    const entities = new Map(allEntities(mailing));
    const name = entityNamed(mailing, 'list_members').name;
    const members = entities.get(name);
    if (members === undefined) throw new Error('no list_members');
    entities.set(name, { ...members, variants: [{}, { since_last_changed: '2026-01-01' }] });
    expect(planRun(mailing, entities, nowMs, ordinaryRun).reading.get(name)?.isIncremental).toBe(false);
  });

  it('keeps partitions for twice as long as a full read may wait', () => {
    const kept = (fullEveryMs: number): string => {
      const entities = [...allEntities(mailing)].map(
        ([name, entity]) => [name, { ...entity, fullEveryMs }] as const,
      );
      return planRun(mailing, new Map(entities), nowMs, ordinaryRun).keepPartitionsSince;
    };
    expect(kept(86_400_000)).toBe('2026-04-08T00:00:00.000Z');
    expect(kept(30 * 86_400_000)).toBe('2026-03-09T00:00:00.000Z');
  });
});

describe('the plan of a backfill', () => {
  const run = { ...ordinaryRun, kind: 'backfill', window, backfill: 'b1' } as const;

  it('bounds the roots and names the living partitions that their records belong to', () => {
    const chosen = withWindow(mailing, chosenEntities(mailing, ['campaigns', 'email_activity']), window);
    const plan = planRun(mailing, chosen, nowMs, run);
    expect(plan).toMatchObject({
      kind: 'backfill',
      window: '2026-01-01T00:00:00.000Z/2026-02-01T00:00:00.000Z',
      backfill: 'b1',
    });
    expect(plan.roots).toEqual([
      expect.objectContaining({
        params: { since_send_time: bounds.since, before_send_time: bounds.before },
        base: {},
      }),
    ]);
  });

  it('bounds the deepest entity that takes bounds, and reads what leads to it in full', async () => {
    const chosen = withWindow(mailing, chosenEntities(mailing, ['lists', 'list_members']), window);
    expect(chosen.get('lists' as EntityName)?.bounds).toBeUndefined();
    expect(chosen.get('list_members' as EntityName)?.bounds).toEqual({
      since_last_changed: bounds.since,
      before_last_changed: bounds.before,
    });
    const [found] = await childrenOf('lists', { id: 'a1' }, true);
    expect(found).toMatchObject({
      params: { list_id: 'a1', since_last_changed: bounds.since, before_last_changed: bounds.before },
      base: { list_id: 'a1' },
      parent: { entity: 'lists', keyText: '["a1"]' },
    });
    expect((await childrenOf('lists', { id: 'a1' }, false))[0]).toMatchObject({
      params: { list_id: 'a1' },
      base: null,
    });
  });

  it('covers its last second where the window ends in the middle of one', () => {
    const untilMs = window.untilMs + 500;
    const chosen = withWindow(mailing, allEntities(mailing), { ...window, untilMs });
    expect(chosen.get('reports' as EntityName)?.bounds?.['before_send_time']).toBe(
      '2026-02-01T00:00:01+00:00',
    );
  });
});

describe('a child partition', () => {
  const page = { id: 'p1', object: 'page', created_time: '2026-01-01', parent: 'top', properties: 'none' };
  const edited = (time: string, more = {}) =>
    childrenOf('pages', { ...page, last_edited_time: time, ...more }, false);

  it('carries the change value of its parent, settled once its clock must have moved on', async () => {
    expect((await edited('2026-05-07T23:58:00.000Z'))[0]?.marker).toEqual({
      value: '2026-05-07T23:58:00.000Z',
      isSettled: true,
    });
    expect((await edited('2026-05-07T23:59:00.000Z'))[0]?.marker?.isSettled).toBe(false);
    expect((await edited('2099-01-01T00:00:00.000Z'))[0]?.marker?.isSettled).toBe(false);
  });

  it('is always read where the parent has no change value that can be read', async () => {
    expect((await edited('some day')).map(({ marker }) => marker)).toEqual([null, null]);
  });

  it('is not found below what listings leave out', async () => {
    expect(await edited('2026-05-07T23:58:00.000Z', { in_trash: true })).toEqual([]);
    expect(await edited('2026-05-07T23:58:00.000Z', { in_trash: false, archived: false })).toHaveLength(2);
  });
});

async function childrenOf(
  name: string,
  record: Record<string, string | boolean>,
  isBackfill: boolean,
): Promise<readonly FoundPartition[]> {
  const definition = name === 'pages' ? notes : mailing;
  const entity = entityNamed(definition, name);
  const entities = name === 'pages' ? allEntities(notes) : chosenEntities(mailing, ['lists', 'list_members']);
  const chosen = isBackfill ? withWindow(definition, entities, window) : entities;
  const prepare = compilePreparePage(
    { definition, entities: chosen, policies: new Map(), capMs: nowMs, isBackfill },
    entity,
  );
  const partition: Partition = {
    id: 1,
    entity: entity.name,
    params: {},
    inject: {},
    rank: 0,
    treeDepth: null,
    tree: null,
    position: null,
    mode: 'full',
    storedRows: 0,
    clockDifferences: [],
    watermark: null,
  };
  const context = { alreadyRead: 0, answeredMs: nowMs, differenceMs: 0 };
  return (await prepare(partition, readRecords([record]), context)).stored.children;
}
