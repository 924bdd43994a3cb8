import { describe, expect, it } from 'vitest';
import { oldestBase, type StoredConnector } from '../../src/publish/publication.ts';
import { lists, members, news } from '../contracts/sink/fixture.ts';
import {
  asOf,
  plan,
  publish,
  reasonOf,
  stored,
  storedLists,
  storedMembers,
} from '../support/publish/plans.ts';

describe('an entity that is no longer in the settings', () => {
  const newest = publish(null, stored());
  const without = stored({ newestSeq: 20, declared: [members], entities: [storedMembers] });

  it('stays as it was published, until all others start a new generation: then it comes back with one', () => {
    expect(plan(newest, without).unchanged).toMatchObject([{ entity: lists, through: 10 }]);
    for (const change of [{ hasReusedNumbers: true }, { isPublishedEndKnown: false }]) {
      expect(plan(newest, { ...without, ...change }).unchanged).toEqual([]);
    }
    const asked = publish(newest, without, { isNewGenerationAsked: true });
    expect(asked.entities.map(({ entity }) => entity)).toEqual([members]);
    const back = plan(asked, stored({ newestSeq: 30 }));
    expect(
      back.entities.map(({ planned }) => [planned.entity, planned.isNewGeneration, planned.after]),
    ).toEqual([
      [members, false, 20],
      [lists, true, 0],
    ]);
  });
});

describe('a table that was made again', () => {
  const newest = publish(null, stored());
  const begun = { ...storedMembers, tableId: 'table-3', asOf: null };
  const others = { ...stored({ newestSeq: 20 }), entities: [begun, storedLists] };
  const held = { connector: news, entity: members };

  // Proves promise 20.4
  it('is published when it has been read completely; until then what was published complete stays', () => {
    const waiting = plan(newest, others);
    expect(waiting).toMatchObject({
      heldBack: [held],
      unchanged: [{ ...held, generation: 1, base: 1, asOf }],
    });
    expect(waiting.entities.map(({ planned: { entity } }) => entity)).toEqual([lists]);
    // In another sink too.
    expect(plan(newest, others, {}, 'sink-2')).toMatchObject({ heldBack: [held], unchanged: [held] });
    const read = plan(publish(newest, others), { ...others, entities: [{ ...begun, asOf }, storedLists] });
    expect([reasonOf(read), read.heldBack]).toEqual([
      'its table in the sink was reset, purged or rewritten',
      [],
    ]);
  });

  it('is published at once where it was never complete, or where a new generation is asked for', () => {
    const never = publish(null, stored({ entities: [{ ...storedMembers, asOf: null }, storedLists] }));
    expect(plan(never, others)).toMatchObject({ heldBack: [], unchanged: [] });
    const asked = plan(newest, others, { isNewGenerationAsked: true });
    expect(asked).toMatchObject({ heldBack: [], unchanged: [] });
  });

  it('waits where a row stands for several records, published before or not', () => {
    const collided = {
      ...stored({ newestSeq: 20 }),
      entities: [{ ...storedMembers, isColliding: true }, storedLists],
    };
    expect(plan(newest, collided)).toMatchObject({
      heldBack: [held],
      entities: [{ planned: { entity: lists } }],
    });
    expect(plan(null, collided).entities.map(({ planned }) => planned.entity)).toEqual([lists]);
    expect(plan(newest, collided, { isNewGenerationAsked: true }).entities).toHaveLength(2);
  });

  it('makes no snapshot due again and again while it is held back', () => {
    const later = publish(publish(newest, others), others, { snapshot: 'due' });
    expect(later.entities.map(({ entity, base }) => [entity, base])).toEqual([
      [lists, 3],
      [members, 1],
    ]);
    const oldest = (connector: StoredConnector): number =>
      oldestBase(later, { sinkId: 'sink-1', connectors: [connector], removed: [] });
    expect([oldest(others), oldest(stored())]).toEqual([3, 1]);
    expect(plan(later, others, { snapshot: 'due' }).isNeeded).toBe(false);
  });
});
