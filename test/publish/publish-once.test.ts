import { execFile } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect } from 'vitest';
import { readPublication } from '../../docs/examples/read-publications.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { historyName } from '../../src/core/names.ts';
import { manifestJsonSchema, ownColumns } from '../../src/publish/manifest.ts';
import type { PublishEnd, PublishRequest } from '../../src/publish/publication.ts';
import type { FileFormat } from '../../src/publish/row-files.ts';
import type { Target } from '../../src/publish/target.ts';
import type { ConnectorSettings } from '../../src/settings/settings.ts';
import { openSink } from '../../src/sinks/registry.ts';
import type { SinkOptions } from '../../src/sinks/sink-access.ts';
import { hourMs, identity, members, news, opens } from '../contracts/sink/fixture.ts';
import { it } from '../support/it.ts';
import { openPublishWorld, type PublishWorld, type Change } from '../support/publish/publish-world.ts';
import { connectorOf } from '../support/publish/publish-now.ts';
import { readLake } from '../support/publish/read-lake.ts';
import { copyNews, stoppingSink } from '../support/sinks/copying.ts';
import { isLong } from '../support/trials.ts';

let world: PublishWorld;

beforeEach(() => {
  world = openPublishWorld();
});

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

describe('publish once', () => {
  /** What a reader of the newest publication finds is what the sink has. */
  async function expectPublished(): Promise<void> {
    expect(world.seen().rows).toEqual(await world.stored());
    expect(await world.problems()).toEqual([]);
  }

  const latestFile = () => join(world.lake, '_latest.json');
  const latest = () => JSON.parse(readFileSync(latestFile(), 'utf8')) as object;

  async function publishTwoRuns(): Promise<PublishEnd> {
    await world.run({ upserts: { 1: 'Ada', 2: 'Bob', 3: 'Cy' } });
    await world.publish();
    await world.run({ upserts: { 2: 'Bea' }, deletes: ['3'] });
    return await world.publish();
  }

  function entityOf(end: PublishEnd, name: string) {
    if (end.kind !== 'published') throw new Error(`Expected a publication, got ${end.kind}`);
    const entity = end.published.manifest.entities.find((one) => one.entity === name);
    if (entity === undefined) throw new Error(`${name} was not published`);
    return entity;
  }

  describe('a publication', () => {
    it('holds what has changed since the one before, deletes included, and a reader of all of them has what the sink has', async () => {
      const second = await publishTwoRuns();
      expect(world.manifests()[0]).toMatchObject({ publication: 1, previous: null });
      expect(second).toMatchObject({ kind: 'published', newGenerations: [], warnings: [] });
      const asOf = '2026-03-01T10:02:00.000Z';
      expect(entityOf(second, members)).toMatchObject({ upserts: 1, deletes: 1, after: 6, asOf });
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
    it('is not made where an entity was read completely and no row has changed, and its freshness is recorded', async () => {
      await publishTwoRuns();
      const manifests = world.manifests();
      for (const minute of [3, 4]) {
        await world.run({ upserts: { 2: 'Bea' } });
        const asOf = `2026-03-01T10:0${minute}:00.000Z`;
        const fresh = { checkedAt: asOf, manifest: { publication: 2, entities: [{ asOf }, { asOf }] } };
        expect(await world.publish()).toMatchObject({ kind: 'unchanged', newest: fresh });
        await using target = world.target();
        expect(await target.newest()).toMatchObject(fresh);
        expect(latest()).toMatchObject({ publication: 2, checkedAt: asOf, entities: [{ asOf }, { asOf }] });
      }
      expect(world.manifests()).toEqual(manifests);
      const old = readFileSync(latestFile(), 'utf8');
      await world.run({ upserts: { 4: 'Dee' } });
      expect(entityOf(await world.publish(), members)).toMatchObject({ upserts: 1, after: 9 });
      expect(latest()).toMatchObject({
        publication: 3,
        entities: [{ asOf: '2026-03-01T10:05:00.000Z' }, {}],
      });
      // A slower publisher has recorded the freshness of the manifest before.
      writeFileSync(latestFile(), old);
      await using target = world.target();
      expect((await target.newest())?.manifest).toEqual(world.manifests().at(-1));
      await expectPublished();
    });

    // Proves promise 20.6
    it('is made for the first complete reading, also where no row has changed', async () => {
      await world.run({ upserts: { 1: 'Ada' }, isWhole: false });
      expect(entityOf(await world.publish(), members).asOf).toBeNull();
      await world.run({ upserts: { 1: 'Ada' } });
      const asOf = '2026-03-01T10:02:00.000Z';
      expect(entityOf(await world.publish(), members)).toMatchObject({ asOf, upserts: 0, files: [] });
      await expectPublished();
    });

    it('removes what need not be kept once a day, also where nothing has changed', async () => {
      const settings = world.settings({ keepMs: hourMs });
      await publishTwoRuns();
      await world.publish({ isSnapshotAsked: true });
      world.clock.advance(24 * hourMs);
      await world.run({ upserts: { 2: 'Bea' } });
      expect(await world.publish({ settings })).toMatchObject({ kind: 'unchanged', warnings: [] });
      expect(world.manifests().map(({ publication }) => publication)).toEqual([3]);
      await expectPublished();
    });

    it('is not made of a sink that is not there, and makes no target', async () => {
      expect(await world.publish()).toEqual({ kind: 'nothing-stored' });
      await world.withSink((sink) => sink.acquire(identity()).then((lease) => lease[Symbol.asyncDispose]()));
      expect(await world.publish()).toEqual({ kind: 'nothing-stored' });
      expect(world.manifests()).toEqual([]);
    });

    it('is not made of a connector that is only partly in the sink: a copy of it was broken off', async () => {
      await world.run({ upserts: { 1: 'Ada' } });
      const copy = { ...world.sink, path: join(world.folder, 'copy.db') } as SinkOptions;
      await using to = await openSink(copy, { clock: world.clock });
      const cut = new Error('cut');
      await expect(world.withSink((from) => copyNews(from, stoppingSink(to, 3, cut)))).rejects.toBe(cut);
      const settings = world.settings({ connectors: [connectorOf(copy)] });
      await expect(world.publish({ settings })).rejects.toMatchObject({ code: 'COPY_UNFINISHED' });
      expect(world.manifests()).toEqual([]);
    });

    it('reports how many rows it has written of each entity', async () => {
      await world.run({ upserts: { 1: 'Ada', 2: 'Bob' } });
      const told: string[] = [];
      await world.publish({
        onProgress: ({ connector, entity, rows }) => told.push(`${connector}/${entity} ${rows}`),
      });
      expect(told).toEqual(['news/members 2', 'news/member_opens 2']);
    });

    it('leaves nothing behind when it is interrupted', async () => {
      await publishTwoRuns();
      await world.run({ upserts: { 4: 'Dee' } });
      const controller = new AbortController();
      const request: Partial<PublishRequest> = {
        signal: controller.signal,
        onProgress: ({ entity }) => {
          if (entity !== members) controller.abort(new Error('enough'));
        },
      };
      await expect(world.publish(request)).rejects.toThrow('enough');
      expect(world.manifests()).toHaveLength(2);
      expect(world.unnamed()).toEqual([]);
      await world.publish();
      await expectPublished();
    });

    // Proves promise 20
    it.each<[string, (written: Written) => Partial<Written>]>([
      ['left out rows', ({ upserts }) => ({ upserts: upserts - 1 })],
      ['lost a file', ({ files }) => ({ files: files.slice(1) })],
      ['wrote other numbers', ({ files }) => ({ files: files.map((file) => ({ ...file, lastSeq: 99 })) })],
    ])('is refused where the target %s', async (_what, change) => {
      await world.run({ upserts: { 1: 'Ada', 2: 'Bob' } });
      const target = world.target();
      const begin: Target['begin'] = async (number) => {
        const open = await target.begin(number);
        const write: typeof open.write = async (...given) => {
          const written = await open.write(...given);
          return { ...written, ...change(written) };
        };
        return { ...open, write };
      };
      await expect(world.publish({}, { ...target, begin })).rejects.toMatchObject({ code: 'ACCOUNTING' });
      expect(world.manifests()).toEqual([]);
      expect(world.unnamed()).toEqual([]);
    });
  });

  type Written = Awaited<ReturnType<Awaited<ReturnType<Target['begin']>>['write']>>;

  describe('a new generation', () => {
    // Proves promise 20.4
    it('begins after reset --data, so that no row of before stays', async () => {
      await publishTwoRuns();
      await world.reset(null);
      const heldBack = [members, 'member_opens'].map((entity) => ({ connector: 'news', entity }));
      expect(await world.publish()).toMatchObject({ kind: 'unchanged', heldBack });
      // A sync that was interrupted: readers keep what was complete.
      await world.run({ upserts: { 9: 'Zoe' }, isWhole: false });
      expect(await world.publish()).toMatchObject({ kind: 'unchanged', heldBack });
      await world.run({ upserts: { 2: 'Bea', 9: 'Zoe' } });
      expect(await world.publish()).toMatchObject({
        newGenerations: heldBack.map(({ entity }) => ({
          entity,
          reason: 'its table in the sink was reset, purged or rewritten',
        })),
      });
      await expectPublished();
    });

    /** Expects that all rows come again, because of a backup, and that the next publication continues. */
    async function expectRestored(reason: RegExp): Promise<void> {
      const newGenerations = [members, opens].map((entity) => ({
        entity,
        reason: expect.stringMatching(reason) as string,
      }));
      expect(await world.publish()).toMatchObject({ newGenerations });
      await expectPublished();
      await world.run({ upserts: { 4: 'Dan' } });
      expect(await world.publish()).toMatchObject({ newGenerations: [] });
      await expectPublished();
    }

    // Proves promise 20.4
    it.each([{}, { 4: 'Dee', 5: 'Eve' }])(
      'begins with a backup that was restored, and has synced %j since',
      async (since) => {
        await world.run({ upserts: { 1: 'Ada', 2: 'Bob' } });
        const backup = world.backup();
        await world.run({ upserts: { 3: 'Cy' } });
        await world.publish();
        await backup.restore();
        // Its numbers are ahead of what was published then, and other rows have them.
        if (4 in since) await world.run({ upserts: since });
        await expectRestored(/restored from a backup/);
      },
    );

    /** Publishes a run, and restores a backup from its middle. */
    async function restoreMiddleOfRun(published: 'at its end' | 'before its end'): Promise<void> {
      await world.run({ upserts: { 1: 'Ada' } });
      let backup = null as ReturnType<PublishWorld['backup']> | null;
      const onStored = (): void => {
        backup = world.backup();
      };
      const onEnding = async (): Promise<void> => {
        if (published === 'before its end') await world.publish();
      };
      await world.run({ upserts: { 2: 'Bob' }, onStored, more: { 3: 'Cy' }, onEnding });
      if (published === 'at its end') await world.publish();
      await backup?.restore();
    }

    // Proves promise 20.4
    it('begins with a backup from the middle of the run that was published', async () => {
      await restoreMiddleOfRun('at its end');
      await expectRestored(
        /^the sink was restored from a backup: it does not know the end of run \S+ of news, which was published$/,
      );
    });

    // Proves promise 20.4
    it('begins only when it is asked for, where the published run had not ended', async () => {
      await restoreMiddleOfRun('before its end');
      await expect(world.publish()).rejects.toMatchObject({ code: 'TARGET_AHEAD' });
      expect(world.manifests()).toHaveLength(1);
      await world.publish({ isNewGenerationAsked: true });
      await expectPublished();
    });

    // Proves promise 20.4
    it('begins with such a backup by itself, once a later run has given the published numbers again', async () => {
      await restoreMiddleOfRun('before its end');
      await world.run({ upserts: { 4: 'Dee', 5: 'Eve', 6: 'Fay' } });
      // More runs than are read first.
      for (let more = 0; more < 25; more += 1) await world.run({});
      await expectRestored(/changes of news have numbers that were published before$/);
    });

    // Proves promise 20.4
    it("begins with another sink only when it is asked for: the place may be another project's", async () => {
      await publishTwoRuns();
      const other = openPublishWorld();
      await other.run({ upserts: { 8: 'Hal' } });
      const settings = world.settings({ connectors: [connectorOf(other.sink)] });
      await world.refused(/holds publication 2 of another sink/, { settings });
      await expectPublished();
      const end = await world.publish({ settings, isNewGenerationAsked: true });
      expect(end).toMatchObject({ newGenerations: [{ reason: 'it was asked for' }, {}] });
      expect(world.seen()).toEqual({ publication: 3, rows: await other.stored() });
      await other[Symbol.asyncDispose]();
    });
  });

  describe('a snapshot', () => {
    it('has all rows that are not deleted beside the changes, and readers begin with it', async () => {
      await publishTwoRuns();
      await world.run({ upserts: { 4: 'Dee' } });
      const entity = entityOf(await world.publish({ isSnapshotAsked: true }), members);
      expect(entity).toMatchObject({ base: 3, upserts: 1, deletes: 0, snapshot: { rows: 3 } });
      await expectPublished();
      await world.run({ upserts: { 1: 'Adi' }, deletes: ['4'] });
      expect(entityOf(await world.publish(), members)).toMatchObject({ base: 3, snapshot: null });
      await expectPublished();
    });

    it('is due when the base is old, and not while nothing has come after it', async () => {
      const settings = world.settings({ snapshotEveryMs: 24 * hourMs });
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
});

describe('the history of an entity', () => {
  const history = historyName(members);

  function historyIn(end: PublishEnd) {
    if (end.kind !== 'published') throw new Error(`Expected a publication, got ${end.kind}`);
    return end.published.manifest.entities.find(({ entity }) => entity === history);
  }

  // Proves promise 20.11
  it('has each version of a row once, in rows of their own', async () => {
    const settings = world.settings({ connectors: [connectorOf(world.sink, { keepMs: null })] });
    const history = historyName(members);
    const publish = async (change: Change) => {
      await world.run({ ...change, hasHistory: true });
      return historyIn(await world.publish({ settings }));
    };
    expect(await publish({ upserts: { 1: 'Ada', 2: 'Bob' } })).toMatchObject({ upserts: 2, deletes: 0 });
    expect(await publish({ upserts: { 1: 'Ada', 2: 'Bea' }, deletes: ['1'] })).toMatchObject({
      upserts: 2,
      deletes: 0,
      key: ['list_id', 'id', '_version'],
    });
    expect(await publish({ upserts: { 1: 'Ada', 2: 'Bea' } })).toMatchObject({ upserts: 1, deletes: 0 });
    expect((await world.publish({ settings })).kind).toBe('unchanged');
    const manifests = world.manifests();
    const lake = readLake(world.lake, manifests, manifests.at(-1)?.publication ?? 0);
    const lines = [...(lake.get(history)?.values() ?? [])].map(({ line }) => line);
    const rows = lines.toSorted((left, right) => Number(left['_version']) - Number(right['_version']));
    expect(rows.map((row) => [row['id'], row['name'], row['_is_deleted'], row['_changed_at']])).toEqual([
      ['1', 'Ada', false, '2026-03-01T10:01:00.000Z'],
      ['2', 'Bob', false, '2026-03-01T10:01:00.000Z'],
      ['2', 'Bea', false, '2026-03-01T10:02:00.000Z'],
      ['1', 'Ada', true, '2026-03-01T10:02:00.000Z'],
      ['1', 'Ada', false, '2026-03-01T10:03:00.000Z'],
    ]);
    expect(await world.problems()).toEqual([]);
  });
});

it('publishes an entity as a generation without rows once its connector is removed from the sink', async () => {
  await world.run({ upserts: { 1: 'Ada' } });
  await world.publish();
  const other = { ...connectorOf(world.sink), name: 'other', entities: new Map() } as unknown;
  // `as`: as of a connector whose entities were never stored.
  const connectors = [other as ConnectorSettings];
  const settings = world.settings({ connectors });
  expect(await world.publish({ settings })).toMatchObject({ kind: 'unchanged' });
  await world.withSink(async (sink) => {
    const holder = { pid: 1, host: 'here', command: 'remove', since: '2026-01-01T00:00:00.000Z' };
    await sink.repair.remove(news, { holder, before: () => Promise.resolve() });
  });
  const reason = 'what the sink held of it was removed';
  expect(await world.publish({ settings })).toMatchObject({
    kind: 'published',
    newGenerations: [
      { entity: 'members', reason },
      { entity: 'member_opens', reason },
    ],
  });
  expect(world.manifests().at(-1)?.entities).toMatchObject(
    ['members', 'member_opens'].map((entity) => ({
      entity,
      generation: 2,
      base: 2,
      through: 0,
      files: [],
      asOf: null,
    })),
  );
  expect(await world.publish({ settings })).toMatchObject({ kind: 'unchanged' });
  // Added again, it is published at once, under a generation of its own.
  await world.run({ upserts: { 2: 'Bea' } });
  expect(await world.publish()).toMatchObject({ kind: 'published', heldBack: [] });
  expect(world.manifests().at(-1)?.entities[0]).toMatchObject({ generation: 3, upserts: 1 });
});

describe('publications doc', async () => {
  const run = promisify(execFile);
  const python = await run('python3', ['--version']).then(
    () => 'python3',
    () => null,
  );
  const document = readFileSync('docs/publications.md', 'utf8');

  describe('config/publication-1.schema.json', () => {
    it('is the schema of what is written and read', () => {
      // Made by: node --import tsx -e "import('./src/publish/manifest.ts').then((m) =>
      // console.log(JSON.stringify(m.manifestJsonSchema())))"
      const shipped: unknown = JSON.parse(readFileSync('config/publication-1.schema.json', 'utf8'));
      expect(shipped).toEqual(manifestJsonSchema());
    });

    // Proves promise 20.3
    it('has no member and no column that docs/publications.md does not explain', () => {
      const names = [...memberNames(manifestJsonSchema()), ...ownColumns.map(({ name }) => name)];
      expect(names.length).toBeGreaterThan(30);
      expect(names.filter((name) => !document.includes(`\`${name}\``))).toEqual([]);
    });
  });

  describe('the readers of docs/examples', () => {
    // Proves promise 20.3
    it.skipIf(python === null)('in Python finds the rows of every publication in JSON Lines', async () => {
      await publishHistory('jsonl');
      const read = async (entity: string, number: number): Promise<Shown> =>
        await printed(python ?? '', [
          'docs/examples/read_publications.py',
          world.lake,
          entity,
          String(number),
        ]);
      await expectHistory(read);
      // A file that is damaged is named; where one is gone the reader begins again, and then says so.
      const entity = world
        .manifests()
        .at(-1)
        ?.entities.find((one) => one.entity === members);
      const file = `${world.lake}/${entity?.files[0]?.path}`;
      const text = readFileSync(file, 'utf8');
      writeFileSync(file, text.replace('Dora', 'Nora'));
      const args = ['docs/examples/read_publications.py', world.lake, `news/${members}`];
      await expect(run(python ?? '', args)).rejects.toThrow(/is damaged: its SHA-256/);
      rmSync(file);
      await expect(run(python ?? '', args)).rejects.toThrow(/is gone: read again later/);
    });

    // Proves promise 20.3
    it('in TypeScript finds the rows of every publication in Parquet', async () => {
      await publishHistory('parquet');
      await expectHistory(async (entity, number) => shown(await readPublication(world.lake, entity, number)));
      if (!isLong) return;
      const args = ['--import', 'tsx', 'docs/examples/read-publications.ts', world.lake, `news/${members}`];
      expect(await printed(process.execPath, args)).toEqual(history.get(6)?.[members]);
    });
  });

  /** By `_seq`: the text of a row, and when it was stored. */
  type Shown = Readonly<Record<number, readonly [text: unknown, at: Date]>>;

  /** What the sink had at each publication. */
  const history: Map<number, Readonly<Record<string, Shown>>> = new Map();

  /** Changes, deletes, a snapshot, a new generation, and changes after each. */
  async function publishHistory(format: FileFormat): Promise<void> {
    history.clear();
    const publish = async (request: Parameters<PublishWorld['publish']>[0] = {}): Promise<void> => {
      await using target = world.target(undefined, format);
      const end = await world.publish(request, target);
      if (end.kind !== 'published') throw new Error(`Expected a publication, got ${end.kind}`);
      const rows = await world.rows();
      const live = [...rows].map(([entity, byKey]): [string, Shown] => {
        const columns = world.tables.find((table) => table.entity === entity)?.columns ?? [];
        const text = columns.findIndex(({ name }) => name === 'name' || name === 'at');
        const alive = [...byKey.values()].filter(({ isDeleted }) => !isDeleted);
        return [
          entity,
          Object.fromEntries(
            alive.map(({ seq, values, changedAt }) => [seq, [values[text], new Date(changedAt)]]),
          ),
        ];
      });
      history.set(end.published.manifest.publication, Object.fromEntries(live));
    };
    await world.run({ upserts: { 1: 'Ada 1', 2: 'Ada 2', 3: 'Ada 3', 4: 'Ada 4' } });
    await publish();
    await world.run({ upserts: { 2: 'Bea "quoted", \u2028 \u{1f600}' }, deletes: ['3'] });
    await publish();
    await world.run({ upserts: { 3: 'back' }, deletes: ['1'] });
    await publish({ isSnapshotAsked: true });
    await world.run({ upserts: { 5: 'Cy' }, deletes: ['4'] });
    await publish();
    await publish({ isNewGenerationAsked: true });
    await world.run({ upserts: { 5: 'Dora' }, deletes: ['2'] });
    await publish();
  }

  /** The newest publication of each way to begin: the first, after a snapshot, after a new generation. */
  async function expectHistory(read: (entity: string, number: number) => Promise<Shown>): Promise<void> {
    for (const number of [2, 4, 6]) {
      for (const entity of number === 6 ? [members, opens] : [members]) {
        expect({ number, rows: await read(`news/${entity}`, number) }).toEqual({
          number,
          rows: history.get(number)?.[entity],
        });
      }
    }
  }

  async function printed(command: string, args: readonly string[]): Promise<Shown> {
    const { stdout } = await run(command, args);
    const lines = stdout.split('\n').slice(0, -1);
    return shown(lines.map((line) => JSON.parse(line) as JsonObject));
  }

  /** Of rows as readers find them. */
  function shown(rows: readonly Readonly<Record<string, unknown>>[]): Shown {
    return Object.fromEntries(
      rows.map(({ _seq: seq, _changed_at: at, ...row }) => [
        Number(seq),
        [row['name'] ?? row['at'], new Date(at as string)],
      ]),
    );
  }

  function memberNames(schema: unknown): readonly string[] {
    if (typeof schema !== 'object' || schema === null) return [];
    return Object.entries(schema).flatMap(([key, value]: [string, unknown]) =>
      key === 'properties' && typeof value === 'object' && value !== null
        ? [...Object.keys(value), ...Object.values(value).flatMap(memberNames)]
        : memberNames(value),
    );
  }
});
