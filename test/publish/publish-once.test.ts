import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { PublishEnd, PublishRequest } from '../../src/publish/publication.ts';
import type { Target } from '../../src/publish/target.ts';
import { openSink } from '../../src/sinks/registry.ts';
import type { SinkOptions } from '../../src/sinks/sink-access.ts';
import { hourMs, identity, members, membersTable } from '../contracts/sink/fixture.ts';
import { connectorOf, openPublishWorld, type PublishWorld } from '../support/publish/publish-world.ts';
import { lakeManifests, readLake, seqsOf, unnamedFiles } from '../support/publish/read-lake.ts';
import { copyNews, stoppingSink } from '../support/sinks/copying.ts';

let world: PublishWorld;

beforeEach(() => {
  world = openPublishWorld();
});

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

/** What a reader of the newest publication finds is what the sink has. */
async function expectPublished(): Promise<void> {
  const manifests = lakeManifests(world.lake);
  const newest = manifests.at(-1)?.publication ?? 0;
  expect(seqsOf(readLake(world.lake, manifests, newest))).toEqual(seqsOf(await world.rows()));
  await using target = world.target();
  expect((await target.check(new AbortController().signal)).problems).toEqual([]);
}

async function publishTwoRuns(): Promise<void> {
  await world.run({
    upserts: [
      ['1', 'Ada'],
      ['2', 'Bob'],
      ['3', 'Cy'],
    ],
  });
  await world.publish();
  await world.run({ upserts: [['2', 'Bea']], deletes: ['3'] });
  await world.publish();
}

function entityOf(end: PublishEnd, name: string) {
  if (end.kind !== 'published') throw new Error(`Expected a publication, got ${end.kind}`);
  const entity = end.published.manifest.entities.find((one) => one.entity === name);
  if (entity === undefined) throw new Error(`${name} was not published`);
  return entity;
}

describe('a publication', () => {
  it('holds what has changed since the one before, deletes included, and a reader of all of them has what the sink has', async () => {
    await world.run({
      upserts: [
        ['1', 'Ada'],
        ['2', 'Bob'],
        ['3', 'Cy'],
      ],
    });
    const first = await world.publish();
    expect(first).toMatchObject({
      kind: 'published',
      published: { manifest: { publication: 1, previous: null } },
    });
    await expectPublished();
    await world.run({ upserts: [['2', 'Bea']], deletes: ['3'] });
    const second = await world.publish();
    expect(second).toMatchObject({ kind: 'published', newGenerations: [], warnings: [] });
    expect(entityOf(second, members)).toMatchObject({
      upserts: 1,
      deletes: 1,
      after: 6,
      asOf: '2026-03-01T10:02:00.000Z',
    });
    await expectPublished();
  });

  it('is not made where nothing has changed', async () => {
    await publishTwoRuns();
    expect(await world.publish()).toMatchObject({
      kind: 'unchanged',
      newest: { manifest: { publication: 2 } },
    });
    // A run that read nothing new, and not to the end.
    await world.run({ isWhole: false });
    expect((await world.publish()).kind).toBe('unchanged');
  });

  // Proves promise 20.6
  it('says that an entity was read completely, also where no row has changed', async () => {
    await publishTwoRuns();
    await world.run({ upserts: [['2', 'Bea']] });
    const entity = entityOf(await world.publish(), members);
    expect(entity).toMatchObject({ asOf: '2026-03-01T10:03:00.000Z', upserts: 0, deletes: 0, files: [] });
    await expectPublished();
  });

  it('is not made of a sink that is not there, and makes no target', async () => {
    expect(await world.publish()).toEqual({ kind: 'nothing-stored' });
    await world.withSink((sink) => sink.acquire(identity()).then((lease) => lease[Symbol.asyncDispose]()));
    expect(await world.publish()).toEqual({ kind: 'nothing-stored' });
    expect(lakeManifests(world.lake)).toEqual([]);
  });

  it('is not made of a connector that is only partly in the sink: a copy of it was broken off', async () => {
    await world.run({ upserts: [['1', 'Ada']] });
    const copy = { ...world.sink, path: join(world.folder, 'copy.db') } as SinkOptions;
    await using to = await openSink(copy, { clock: world.clock });
    const cut = new Error('cut');
    await expect(world.withSink((from) => copyNews(from, stoppingSink(to, 3, cut)))).rejects.toBe(cut);
    const settings = { name: 'lake', connectors: [connectorOf(copy)], snapshotEveryMs: null, keepMs: null };
    await expect(world.publish({ settings })).rejects.toMatchObject({ code: 'COPY_UNFINISHED' });
    expect(lakeManifests(world.lake)).toEqual([]);
  });

  it('reports how many rows it has written of each entity', async () => {
    await world.run({
      upserts: [
        ['1', 'Ada'],
        ['2', 'Bob'],
      ],
    });
    const told: string[] = [];
    await world.publish({
      onProgress: ({ connector, entity, rows }) => told.push(`${connector}/${entity} ${rows}`),
    });
    expect(told).toEqual(['news/members 2', 'news/member_opens 2']);
  });

  it('leaves nothing behind when it is interrupted', async () => {
    await publishTwoRuns();
    await world.run({ upserts: [['4', 'Dee']] });
    const controller = new AbortController();
    const request: Partial<PublishRequest> = {
      signal: controller.signal,
      onProgress: ({ entity }) => {
        if (entity !== members) controller.abort(new Error('enough'));
      },
    };
    await expect(world.publish(request)).rejects.toThrow('enough');
    expect(lakeManifests(world.lake)).toHaveLength(2);
    expect(unnamedFiles(world.lake)).toEqual([]);
    await world.publish();
    await expectPublished();
  });

  // Proves promise 20
  it.each<[string, (target: Target) => Target]>([
    [
      'left out rows',
      (target) => withRows(target, (written) => ({ ...written, upserts: written.upserts - 1 })),
    ],
    [
      'lost a file',
      (target) => withRows(target, (written) => ({ ...written, files: written.files.slice(1) })),
    ],
    [
      'wrote other numbers',
      (target) =>
        withRows(target, (one) => ({ ...one, files: one.files.map((file) => ({ ...file, lastSeq: 99 })) })),
    ],
  ])('is refused where the target %s', async (_what, broken) => {
    await world.run({
      upserts: [
        ['1', 'Ada'],
        ['2', 'Bob'],
      ],
    });
    const target = broken(world.target());
    await expect(world.publish({}, target)).rejects.toMatchObject({ code: 'ACCOUNTING' });
    expect(lakeManifests(world.lake)).toEqual([]);
    expect(unnamedFiles(world.lake)).toEqual([]);
  });
});

type Written = Awaited<ReturnType<Awaited<ReturnType<Target['begin']>>['write']>>;

function withRows(target: Target, change: (written: Written) => Written): Target {
  return {
    ...target,
    begin: async (number) => {
      const open = await target.begin(number);
      return { ...open, write: async (entity, rows) => change(await open.write(entity, rows)) };
    },
  };
}

describe('a new generation', () => {
  // Proves promise 20.4
  it('begins after reset --data, so that no row of before stays', async () => {
    await publishTwoRuns();
    await world.withSink((sink) =>
      sink.repair.reset('news' as never, {
        entity: null,
        tables: [],
        withData: true,
        now: '2026-03-01T12:00:00.000Z',
      }),
    );
    const heldBack = [members, 'member_opens'].map((entity) => ({ connector: 'news', entity }));
    expect(await world.publish()).toMatchObject({ kind: 'unchanged', heldBack });
    // A sync that was interrupted: readers keep what was complete.
    await world.run({ upserts: [['9', 'Zoe']], isWhole: false });
    expect(await world.publish()).toMatchObject({ kind: 'unchanged', heldBack });
    await world.run({
      upserts: [
        ['2', 'Bea'],
        ['9', 'Zoe'],
      ],
    });
    expect(await world.publish()).toMatchObject({
      newGenerations: [
        {
          entity: members,
          reason: 'its table in the sink was reset, purged or rewritten',
        },
        {
          entity: 'member_opens',
          reason: 'its table in the sink was reset, purged or rewritten',
        },
      ],
    });
    await expectPublished();
  });

  // Proves promise 20.4
  it.each(['at once', 'and has synced since'])('begins with a backup that was restored %s', async (when) => {
    await world.run({
      upserts: [
        ['1', 'Ada'],
        ['2', 'Bob'],
      ],
    });
    const backup = world.backup();
    await world.run({ upserts: [['3', 'Cy']] });
    await world.publish();
    await backup.restore();
    // Its numbers are ahead of what was published then, and other rows have them.
    if (when === 'and has synced since') {
      await world.run({
        upserts: [
          ['4', 'Dee'],
          ['5', 'Eve'],
        ],
      });
    }
    const end = await world.publish();
    expect(end).toMatchObject({ newGenerations: [{ entity: members }, { entity: 'member_opens' }] });
    expect(end.kind === 'published' ? end.newGenerations[0]?.reason : null).toContain(
      'restored from a backup',
    );
    await expectPublished();
  });

  /** Publishes a run, and restores a backup from its middle. */
  async function restoreMiddleOfRun(published: 'at its end' | 'before its end'): Promise<void> {
    await world.run({ upserts: [['1', 'Ada']] });
    let backup = null as ReturnType<PublishWorld['backup']> | null;
    const onStored = (): void => {
      backup = world.backup();
    };
    const onEnding = async (): Promise<void> => {
      if (published === 'before its end') await world.publish();
    };
    await world.run({ upserts: [['2', 'Bob']], onStored, more: [['3', 'Cy']], onEnding });
    if (published === 'at its end') await world.publish();
    await backup?.restore();
  }

  // Proves promise 20.4
  it('begins with a backup from the middle of the run that was published', async () => {
    await restoreMiddleOfRun('at its end');
    const end = await world.publish();
    expect(end).toMatchObject({ newGenerations: [{ entity: members }, { entity: 'member_opens' }] });
    expect(end.kind === 'published' ? end.newGenerations[0]?.reason : null).toMatch(
      /^the sink was restored from a backup: it does not know the end of run \S+ of news, which was published$/,
    );
    await expectPublished();
    await world.run({ upserts: [['4', 'Dan']] });
    expect(await world.publish()).toMatchObject({ newGenerations: [] });
    await expectPublished();
  });

  // Proves promise 20.4
  it('begins only when it is asked for, where the published run had not ended', async () => {
    await restoreMiddleOfRun('before its end');
    await expect(world.publish()).rejects.toMatchObject({ code: 'TARGET_AHEAD' });
    expect(lakeManifests(world.lake)).toHaveLength(1);
    await world.publish({ isNewGenerationAsked: true });
    await expectPublished();
  });

  // Proves promise 20.4
  it('begins with such a backup by itself, once a later run has given the published numbers again', async () => {
    await restoreMiddleOfRun('before its end');
    await world.run({
      upserts: [
        ['4', 'Dee'],
        ['5', 'Eve'],
        ['6', 'Fay'],
      ],
    });
    // More runs than are read first.
    for (let more = 0; more < 25; more += 1) await world.run({ upserts: [] });
    const end = await world.publish();
    expect(end).toMatchObject({ newGenerations: [{ entity: members }, { entity: 'member_opens' }] });
    await expectPublished();
    await world.run({ upserts: [['4', 'Dan']] });
    expect(await world.publish()).toMatchObject({ newGenerations: [] });
    await expectPublished();
  });

  // Proves promise 20.4
  it("begins with another sink only when it is asked for: the place may be another project's", async () => {
    await publishTwoRuns();
    const other = openPublishWorld();
    await other.run({ upserts: [['8', 'Hal']] });
    const settings = {
      name: 'lake',
      connectors: [connectorOf(other.sink)],
      snapshotEveryMs: null,
      keepMs: null,
    };
    await expect(world.publish({ settings })).rejects.toMatchObject({
      code: 'TARGET_INCOMPATIBLE',
      message: expect.stringContaining('holds publication 2 of another sink') as string,
    });
    await expectPublished();
    const end = await world.publish({ settings, isNewGenerationAsked: true });
    expect(end).toMatchObject({ newGenerations: [{ reason: 'it was asked for' }, {}] });
    const manifests = lakeManifests(world.lake);
    expect(seqsOf(readLake(world.lake, manifests, 3))).toEqual(seqsOf(await other.rows()));
    await other[Symbol.asyncDispose]();
  });

  it('does not begin with an added column: older rows have none, and the newer ones do', async () => {
    await publishTwoRuns();
    const wider = {
      ...membersTable,
      columns: [...membersTable.columns, { name: 'more', type: 'string' as const }],
    };
    await world.run({ upserts: [['4', 'Dee']], tables: [wider, ...world.tables.slice(1)] });
    const end = await world.publish();
    expect(end).toMatchObject({ newGenerations: [] });
    expect(entityOf(end, members)).toMatchObject({ schema: 2, generation: 1, base: 1 });
    await expectPublished();
  });
});

describe('a snapshot', () => {
  it('has all rows that are not deleted beside the changes, and readers begin with it', async () => {
    await publishTwoRuns();
    await world.run({ upserts: [['4', 'Dee']] });
    const entity = entityOf(await world.publish({ isSnapshotAsked: true }), members);
    expect(entity).toMatchObject({ base: 3, upserts: 1, deletes: 0, snapshot: { rows: 3 } });
    await expectPublished();
    await world.run({ upserts: [['1', 'Adi']], deletes: ['4'] });
    expect(entityOf(await world.publish(), members)).toMatchObject({ base: 3, snapshot: null });
    await expectPublished();
  });

  it('is not due again and again while a table that was reset waits for its next sync', async () => {
    const settings = {
      name: 'lake',
      connectors: [connectorOf(world.sink)],
      snapshotEveryMs: hourMs,
      keepMs: null,
    };
    await publishTwoRuns();
    await world.withSink((sink) =>
      sink.repair.reset('news' as never, {
        entity: members,
        tables: [],
        withData: true,
        now: '2026-03-01T12:00:00.000Z',
      }),
    );
    world.clock.advance(hourMs);
    expect(await world.publish({ settings })).toMatchObject({
      kind: 'published',
      heldBack: [{ entity: members }],
    });
    world.clock.advance(hourMs);
    expect((await world.publish({ settings })).kind).toBe('unchanged');
  });

  it('is due when the base is old, and not while nothing has come after it', async () => {
    const settings = {
      name: 'lake',
      connectors: [connectorOf(world.sink)],
      snapshotEveryMs: 24 * hourMs,
      keepMs: null,
    };
    await publishTwoRuns();
    world.clock.advance(23 * hourMs);
    expect((await world.publish({ settings })).kind).toBe('unchanged');
    world.clock.advance(hourMs);
    expect(entityOf(await world.publish({ settings }), members)).toMatchObject({
      base: 3,
      snapshot: { rows: 2 },
    });
    world.clock.advance(48 * hourMs);
    expect((await world.publish({ settings })).kind).toBe('unchanged');
    await expectPublished();
  });
});
