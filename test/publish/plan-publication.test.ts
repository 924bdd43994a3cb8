import { describe, expect, it } from 'vitest';
import type { Instant } from '../../src/core/clock.ts';
import type { RunId } from '../../src/core/names.ts';
import type { Column, EntityTable } from '../../src/core/records.ts';
import type { Manifest } from '../../src/publish/manifest.ts';
import {
  restoredBecause,
  type StoredConnector,
  type StoredEntity,
  oldestBase,
} from '../../src/publish/publication.ts';
import { lists, listsTable, members, membersTable, news } from '../contracts/sink/fixture.ts';
import {
  asOf,
  plan,
  publish,
  reasonOf,
  run1,
  run2,
  stored,
  storedLists,
  storedMembers,
  withColumns,
} from '../support/publish/plans.ts';

const ended = { ...run2, finishedAt: '2026-03-02T10:05:00.000Z' };
const later = {
  ...run2,
  run: '20260303T100000000Z-00000003' as RunId,
  startedAt: '2026-03-03T10:00:00.000Z',
};

/** The ledger's runs, newest first, and stored changes. */
interface Known {
  readonly runs: readonly {
    readonly run: RunId;
    readonly startedAt: string;
    readonly finishedAt: string | null;
  }[];
  readonly changes?: readonly { readonly seq: number; readonly run: RunId }[];
}

function readerOf({ runs, changes = [] }: Known): Parameters<typeof restoredBecause>[0] {
  const reader = {
    history: {
      run: async (run: RunId) => Promise.resolve(runs.find((one) => one.run === run) ?? null),
      runs: async () => Promise.resolve(runs),
    },
    changes: async function* () {
      yield await Promise.resolve(changes);
    },
  };
  // `as`: only these are asked.
  return reader as unknown as Parameters<typeof restoredBecause>[0];
}

describe('the plan of a publication', () => {
  it('begins every entity with all of its rows, in publication 1', () => {
    const { publication, isNeeded, entities, unchanged } = plan(null, stored());
    expect({ publication, isNeeded, unchanged }).toEqual({ publication: 1, isNeeded: true, unchanged: [] });
    expect(
      entities.map(({ planned, reason }) => ({ ...planned, table: null, columns: null, reason })),
    ).toEqual([
      {
        connector: news,
        entity: members,
        generation: 1,
        base: 1,
        tableId: 'table-1',
        schema: 1,
        key: ['list_id', 'id'],
        layout: '{entity}.parquet',
        after: 0,
        through: 10,
        asOf,
        run: run1,
        kinds: new Map(),
        described: null,
        isNewGeneration: true,
        table: null,
        columns: null,
        reason: null,
      },
      expect.objectContaining({ entity: lists, generation: 1, base: 1, key: ['id'] }),
    ]);
  });

  it('continues where the newest publication ended', () => {
    const newest = publish(null, stored());
    const { entities, isNeeded } = plan(newest, stored({ newestSeq: 25, newestRun: run2 }));
    expect(isNeeded).toBe(false);
    expect(entities[0]).toMatchObject({
      reason: null,
      hasSnapshot: false,
      planned: {
        after: 10,
        through: 25,
        generation: 1,
        base: 1,
        schema: 1,
        run: run2,
        isNewGeneration: false,
      },
    });
  });

  it.each([
    ['an asOf that is gone', { entities: [{ ...storedMembers, asOf: null }, storedLists] }],
    ['another column', { entities: [withColumns({ name: 'more', type: 'string' }), storedLists] }],
    [
      'another entity',
      {
        entities: [
          storedMembers,
          storedLists,
          { ...storedLists, table: { ...listsTable, entity: 'tags' as never } },
        ],
      },
    ],
  ])('is needed for %s alone', (_what, change) => {
    expect(plan(publish(null, stored()), stored(change)).isNeeded).toBe(true);
  });

  it('is needed for the first complete reading, and not for a later one', () => {
    const at = (asOf: Instant | null) => stored({ entities: [{ ...storedMembers, asOf }, storedLists] });
    const later = at('2026-03-02T10:00:00.000Z');
    expect(plan(publish(null, at(null)), later).isNeeded).toBe(true);
    expect(plan(publish(null, stored()), later).isNeeded).toBe(false);
  });

  it('counts up the schema for a column that was added, and stays in the generation', () => {
    const newest = publish(null, stored());
    const wider = stored({ entities: [withColumns({ name: 'more', type: 'string' }), storedLists] });
    const [first, second] = plan(newest, wider).entities;
    expect(first).toMatchObject({
      hasNewColumns: true,
      planned: { schema: 2, generation: 1, isNewGeneration: false },
    });
    expect(second).toMatchObject({ hasNewColumns: false, planned: { schema: 1 } });
  });
});

describe('a new generation', () => {
  const newest = publish(null, stored());
  const retyped = membersTable.columns.map((one): Column =>
    one.name === 'visits' ? { ...one, type: 'number' } : one,
  );

  // Proves promise 20.4
  it.each<[what: string, StoredEntity | Partial<StoredConnector>, reason: string]>([
    [
      'a table that was made again',
      { ...storedMembers, tableId: 'table-9' },
      'its table in the sink was reset, purged or rewritten',
    ],
    [
      'another key',
      { ...storedMembers, table: { ...membersTable, key: ['id'] } },
      'its key was list_id, id and is now id',
    ],
    [
      'another type',
      { ...storedMembers, table: { ...membersTable, columns: retyped } },
      'its column visits was integer and is now number',
    ],
    [
      'a column that is gone',
      { ...storedMembers, table: { ...membersTable, columns: membersTable.columns.slice(0, -1) } },
      'its column anything is gone',
    ],
  ])('begins with %s, of this entity alone', (_what, entity, reason) => {
    const result = plan(newest, stored({ entities: [entity as StoredEntity, storedLists] }));
    expect(reasonOf(result)).toBe(reason);
    expect(result.isNeeded).toBe(true);
    expect(result.entities.map(({ planned }) => planned)).toMatchObject([
      { generation: 2, base: 2, after: 0, through: 10, isNewGeneration: true },
      { generation: 1, base: 1, after: 10, isNewGeneration: false },
    ]);
  });

  it('begins where files have another format, but not with tables or where it is not known how they were named', () => {
    const other = plan(newest, stored(), { layout: '{entity}.jsonl' });
    expect(reasonOf(other)).toBe('its files were .parquet and are now .jsonl');
    expect(other.entities.map(({ planned }) => planned)).toMatchObject([
      { generation: 2, layout: '{entity}.jsonl' },
      { generation: 2, layout: '{entity}.jsonl' },
    ]);
    const entities = newest.entities.map((entity) => ({ ...entity, layout: null }));
    expect(plan({ ...newest, entities }, stored()).isNeeded).toBe(false);
    expect(plan({ ...newest, entities }, stored(), { layout: null }).isNeeded).toBe(false);
  });

  it('of everything begins where the tables were copied to another sink, or where it is asked for', () => {
    const other = plan(newest, stored({ newestSeq: 3 }), {}, 'sink-2');
    expect(other.entities.map(({ reason }) => reason)).toEqual([
      'the records were copied to another sink',
      'the records were copied to another sink',
    ]);
    const foreign = [storedMembers, storedLists].map((one) => ({ ...one, tableId: `${one.tableId}-new` }));
    expect(() => plan(newest, stored({ entities: foreign }), {}, 'sink-2')).toThrow(
      expect.objectContaining({
        code: 'TARGET_INCOMPATIBLE',
        message: expect.stringContaining('publish lake --new-generation') as string,
      }),
    );
    const asked = plan(newest, stored({ newestSeq: 3 }), { isNewGenerationAsked: true });
    expect(asked.entities.map(({ planned, reason }) => [planned.generation, planned.after, reason])).toEqual([
      [2, 0, 'it was asked for'],
      [2, 0, 'it was asked for'],
    ]);
  });

  it.each<[what: string, known: Known, reason: string | null]>([
    [
      'the ledger lacks the published run and has older ones',
      { runs: [run1] },
      `it knows older runs of news, but not ${run2.run}, which was published`,
    ],
    ['the ledger has forgotten it with all older ones', { runs: [later] }, null],
    [
      'the ledger does not know the end of the published run',
      { runs: [{ ...run2, finishedAt: null }, run1] },
      `it does not know the end of run ${run2.run} of news, which was published`,
    ],
    [
      'a later run has given published numbers again',
      { runs: [later, ended, run1], changes: [{ seq: 20, run: later.run }] },
      'changes of news have numbers that were published before',
    ],
    [
      'a later run has made later changes',
      { runs: [later, ended, run1], changes: [{ seq: 21, run: later.run }] },
      null,
    ],
  ])('is by what the ledger knows: %s', async (_what, known, reason) => {
    const published = publish(newest, stored({ newestSeq: 20, newestRun: ended }));
    expect(await restoredBecause(readerOf(known), news, [storedLists], published)).toBe(reason);
    const begun = reasonOf(plan(published, stored({ newestSeq: 90, restored: reason })));
    expect(begun).toBe(reason && `the sink was restored from a backup: ${reason}`);
  });

  it('of everything begins once where an entity is no longer stored after a backup was restored', () => {
    const later = publish(newest, stored({ newestSeq: 20, newestRun: run2 }));
    const restored = stored({ newestSeq: 15, newestRun: run1, entities: [storedLists] });
    const lost = { ...restored, restored: 'it lacks a run' };
    const anew = publish(later, lost);
    expect(anew.entities.map(({ entity, generation, run }) => [entity, generation, run?.run])).toEqual([
      [lists, 3, run1.run],
      [members, 1, run1.run],
    ]);
  });

  it('is a number that no other has: one that left and came back is not taken for the old one', () => {
    const without = publish(newest, stored({ declared: [lists], entities: [storedLists] }), {
      snapshot: 'asked',
    });
    expect(without.entities.map(({ entity }) => entity)).toEqual([lists]);
    expect(plan(without, stored()).entities[0]?.planned).toMatchObject({ entity: members, generation: 3 });
  });
});

describe('a target that is ahead of its sink', () => {
  const newest = publish(null, stored());

  // Proves promise 20.4
  it('is refused, and the refusal says how to publish all rows again', () => {
    expect(() => plan(newest, stored({ newestSeq: 9 }))).toThrow(
      expect.objectContaining({
        code: 'TARGET_AHEAD',
        recovery: 'stop',
        message: expect.stringContaining('publish lake --new-generation') as string,
        context: { target: 'lake', entity: 'news/members', published: 10, newest: 9 },
      }),
    );
  });

  it('is no obstacle for entities that start from the beginning', () => {
    const reset = [storedMembers, storedLists].map((one) => ({ ...one, tableId: `${one.tableId}-new` }));
    expect(plan(newest, stored({ newestSeq: 9, entities: reset })).entities).toHaveLength(2);
  });
});

describe('a snapshot', () => {
  const newest = publish(null, stored());

  it('gives every entity a new base, and is needed even where nothing has changed', () => {
    const { isNeeded, entities } = plan(newest, stored(), { snapshot: 'asked' });
    expect(isNeeded).toBe(true);
    expect(
      entities.map(({ hasSnapshot, planned: { base, after } }) => ({ hasSnapshot, base, after })),
    ).toEqual([
      { hasSnapshot: true, base: 2, after: 10 },
      { hasSnapshot: true, base: 2, after: 10 },
    ]);
  });

  it('that is due is needed alone only where something was published since the one before', () => {
    expect(plan(newest, stored(), { snapshot: 'due' }).isNeeded).toBe(false);
    const later = publish(newest, stored({ newestSeq: 20 }));
    expect(plan(later, stored({ newestSeq: 20 }), { snapshot: 'due' }).isNeeded).toBe(true);
  });

  it('is not written for a generation that begins: its changes are all rows', () => {
    const [first] = plan(null, stored(), { snapshot: 'asked' }).entities;
    expect(first).toMatchObject({ hasSnapshot: false, planned: { base: 1, after: 0 } });
  });
});

describe('an entity that is no longer stored, or left the settings', () => {
  const newest = publish(null, stored());

  it('stays as it was published, without its files again', () => {
    const { unchanged, isNeeded } = plan(newest, stored({ newestSeq: 30, entities: [storedLists] }));
    expect(isNeeded).toBe(false);
    expect(unchanged).toEqual([
      { ...newest.entities[0], after: 10, through: 10, upserts: 0, deletes: 0, files: [], snapshot: null },
    ]);
  });

  it('is left out by the next snapshot if it left the settings, and stays if it is only not stored', () => {
    const without = stored({ entities: [storedLists] });
    expect(plan(newest, without, { snapshot: 'due' }).unchanged).toHaveLength(1);
    expect(plan(newest, { ...without, declared: [lists] }, { snapshot: 'due' }).unchanged).toEqual([]);
  });
});

describe('the columns of a publication', () => {
  function columnsOf(...names: readonly string[]): EntityTable {
    return { entity: lists, key: [names[0] ?? ''], columns: names.map((name) => ({ name, type: 'string' })) };
  }

  function named(table: EntityTable, newest: Manifest | null = null): readonly (string | undefined)[] {
    const { entities } = plan(newest, stored({ entities: [{ ...storedLists, table }] }));
    return entities[0]?.planned.columns.map(({ name }) => name) ?? [];
  }

  it('have the names of the sink, and a suffix where two would be the same, or ours or those of PostgreSQL', () => {
    expect(named(columnsOf('id', 'Id', 'ID', 'id_2', '_seq', '_Deleted', 'xmin', 'name'))).toEqual([
      'id',
      'Id_2',
      'ID_3',
      'id_2_2',
      '_seq_2',
      '_Deleted_2',
      'xmin_2',
      'name',
    ]);
  });

  it('keep the names that were published, whatever comes before them', () => {
    const newest = publish(null, stored({ entities: [{ ...storedLists, table: columnsOf('id', 'Name') }] }));
    expect(named(columnsOf('id', 'name', 'Name', 'NAME'), newest)).toEqual([
      'id',
      'name_2',
      'Name',
      'NAME_3',
    ]);
  });

  it('name the key as the columns are named', () => {
    const { entities } = plan(
      null,
      stored({ entities: [{ ...storedLists, table: columnsOf('_seq', 'a') }] }),
    );
    expect(entities[0]?.planned.key).toEqual(['_seq_2']);
  });
});

describe('an entity that is no longer in the settings', () => {
  const newest = publish(null, stored());
  const without = stored({ newestSeq: 20, declared: [members], entities: [storedMembers] });

  it('stays as it was published, until all others start a new generation: then it comes back with one', () => {
    expect(plan(newest, without).unchanged).toMatchObject([{ entity: lists, through: 10 }]);
    expect(plan(newest, { ...without, restored: 'it lacks a run' }).unchanged).toEqual([]);
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
