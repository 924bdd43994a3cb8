import { appendFileSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path, { join } from 'node:path';
import Database from 'better-sqlite3';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { JsonObject } from '../../src/core/json.ts';
import type { ConnectorName } from '../../src/core/names.ts';
import { keyTextOf, type EntityTable } from '../../src/core/records.ts';
import { openFolderStore } from '../../src/publish/folder-store.ts';
import { readManifest } from '../../src/publish/manifest.ts';
import type { ObjectStore } from '../../src/publish/object-store.ts';
import { openObjectTarget } from '../../src/publish/object-target.ts';
import { openTarget } from '../../src/publish/open-target.ts';
import type { PublishEnd } from '../../src/publish/publication.ts';
import { openRowFileWriters, type FileFormat } from '../../src/publish/row-files.ts';
import { defaultLayout } from '../../src/settings/publish-file.ts';
import type { ConnectorSettings, PublishPlace, PublishSettings } from '../../src/settings/settings.ts';
import { openExistingRecords } from '../../src/sinks/registry.ts';
import type { SinkOptions } from '../../src/sinks/sink-access.ts';
import { untilEnd } from '../contracts/target-contract.ts';
import { triedSampleSinks } from '../support/all-sample-sinks.ts';
import type { Row } from '../support/expected-rows.ts';
import { sharedPostgres } from '../support/postgres.ts';
import { copyObjects, fakePlace, startFakeS3 } from '../support/publish/fake-s3.ts';
import { jsonlLakeRows, parquetLakeRows } from '../support/publish/lake-rows.ts';
import { publishNow } from '../support/publish/publish-now.ts';
import { lakeManifests } from '../support/publish/read-lake.ts';
import { duckdbTableRows, postgresTableRows, type TableRows } from '../support/publish/read-tables.ts';
import { openStore } from '../support/publish/s3-place.ts';
import { expectedModelRows } from '../support/publish/stored-model.ts';
import { freePort } from '../support/redis.ts';
import { openRevisionWorld, type RevisionWorld } from '../support/revision-world.ts';
import { callCli } from '../support/run-cli.ts';
import { sameRow } from '../support/same-row.ts';
import { builtInDefinition, sampleConnectors, tablesOf } from '../support/sample-service.ts';
import {
  differencesFrom,
  noDifferences,
  sampleSinkOf,
  type SampleSinkType,
} from '../support/sample-sinks.ts';
import { openScheduledWorld, scheduledSinks } from '../support/scheduled-world.ts';
import { isLong } from '../support/trials.ts';
import { startWorkerProcess } from '../support/worker-process.ts';

const revisions = Number(process.env['REVISIONS'] ?? (isLong ? 9 : 1));
const fullAt = new Set([2, 3, 5, 8]);

/** The sink and the account; a share in `npm test`. */
const all = (['sqlite', 'jsonl', 'postgres'] as const).flatMap((sink) =>
  sampleConnectors.map(([, definition]) => ({ sink, definition })),
);
const tried = isLong ? all : [{ sink: 'sqlite', definition: 'workspace-notes' } as const];

/** Every row that is not deleted, as the sink has it. */
async function sinkRows(
  sink: SinkOptions,
  connector: ConnectorName,
  entity: EntityTable['entity'],
): Promise<{ readonly table: EntityTable; readonly rows: TableRows }> {
  await using reader = await openExistingRecords(sink);
  const table = (await reader?.table(connector, entity)) ?? null;
  if (reader === null || table === null) throw new Error(`The sink has no ${entity}`);
  const rows = new Map();
  for await (const records of reader.changes(connector, table, 0)) {
    for (const record of records) {
      const key = table.key.map(
        (name) => record.values[table.columns.findIndex((one) => one.name === name)] ?? null,
      );
      rows.set(keyTextOf(key), record);
    }
  }
  return { table, rows: expectedModelRows({ connector, generation: 1, ...table, rows }) };
}

describe.each(tried)(
  'tables published from a $sink sink of $definition',
  ({ sink: sinkType, definition: name }) => {
    // Proves promise 20.5
    it('hold what the sink holds after every revision, row by row', async () => {
      const size = name === 'document-library' ? 'small' : 'tiny';
      await using world = await openRevisionWorld({
        definitionName: name,
        sink: sinkType,
        size,
      });
      const server = await sharedPostgres();
      const client = new pg.Client({
        connectionString: server.url,
        types: { getTypeParser: () => (text: string) => text },
      });
      await client.connect();
      onTestFinished(async () => await client.end());
      const connector = name as ConnectorName;
      const sink = (await sampleSinkOf(sinkType)).options(world.folder);
      const schema = `published_${process.pid}_${Date.now()}`;
      const file = join(world.folder, 'desk.duckdb');
      const places: readonly PublishPlace[] = [
        { type: 'postgres', connection: server.connection, schema, deletes: 'mark' },
        { type: 'duckdb', path: file },
      ];
      const definition = builtInDefinition(name);
      const { entities } = definition;
      const connectors = [{ name: connector, definition, entities, sink } as unknown as ConnectorSettings];
      for (let revision = 0; revision <= revisions; revision += 1) {
        world.moveTo(revision);
        const { outcome } = await world.sync(
          fullAt.has(revision) ? { isFull: true, allowDeletes: true } : {},
        );
        expect({ revision, outcome }).toEqual({ revision, outcome: 'ok' });
        for (const place of places) {
          const when = { kind: 'by-hand' } as const;
          const settings: PublishSettings = {
            ...place,
            name: 'desk',
            connectors,
            when,
            snapshotEveryMs: null,
            keepMs: null,
          };
          await using target = await openTarget(settings, { clock: systemClock, signal: untilEnd });
          const end = await publishNow(target, settings);
          if (end.kind !== 'published') throw new Error(`revision ${revision}: ${end.kind}`);
          expect(end.warnings).toEqual([]);
          for (const { entity } of end.published.manifest.entities) {
            const stored = await sinkRows(sink, connector, entity);
            const read = { connector, table: stored.table };
            const found =
              place.type === 'postgres'
                ? await postgresTableRows(client, schema, read)
                : await duckdbTableRows(file, read);
            expect({ revision, entity, rows: found }).toEqual({ revision, entity, rows: stored.rows });
          }
          expect((await target.check(untilEnd)).problems).toEqual([]);
        }
      }
    }, 600_000);
  },
);

describe('files', () => {
  interface Tried {
    readonly sink: SampleSinkType;
    readonly definition: string;
    readonly format: FileFormat;
    readonly place: 'folder' | 'bucket';
  }

  const formats = ['jsonl', 'parquet'] as const;
  /** What is tried: the sink, the account, the files and where they lie; a share in `npm test`. */
  const all = sampleConnectors.flatMap(([, definition]): readonly Tried[] => [
    ...formats.flatMap((format) =>
      (['sqlite', 'jsonl', 'postgres'] as const).map((sink) => ({
        sink,
        definition,
        format,
        place: 'folder' as const,
      })),
    ),
    ...formats.map((format) => ({ sink: 'sqlite' as const, definition, format, place: 'bucket' as const })),
  ]);
  const tried: readonly Tried[] = isLong
    ? all
    : [
        { sink: 'sqlite', definition: 'workspace-notes', format: 'jsonl', place: 'folder' },
        { sink: 'sqlite', definition: 'document-library', format: 'parquet', place: 'bucket' },
      ];

  async function publish(
    world: RevisionWorld,
    { sink, format }: Tried,
    store: ObjectStore,
    isSnapshotAsked: boolean,
  ): Promise<PublishEnd> {
    const definition = builtInDefinition(world.definitionName);
    const name = world.definitionName as ConnectorName;
    const sampleSink = await sampleSinkOf(sink);
    const { entities } = definition;
    const connector = { name, definition, entities, sink: sampleSink.options(world.folder) };
    await using target = openObjectTarget({
      store,
      writers: openRowFileWriters(),
      format,
      layout: defaultLayout,
      clock: systemClock,
    });
    return await publishNow(
      target,
      { connectors: [connector as unknown as ConnectorSettings] },
      { isSnapshotAsked },
    );
  }

  describe.each(tried)('$format files in a $place, published from a $sink sink of $definition', (what) => {
    const { sink, definition, format } = what;
    // Proves promise 20
    it('hold what the sink holds after every revision, each change once', async () => {
      const size = definition === 'document-library' ? 'small' : 'tiny';
      await using world = await openRevisionWorld({ definitionName: definition, sink, size });
      const lake = join(world.folder, 'published');
      const fake = what.place === 'bucket' ? await startFakeS3() : null;
      onTestFinished(async () => await fake?.[Symbol.asyncDispose]());
      const publishNow = async (isSnapshotAsked: boolean): Promise<PublishEnd> => {
        const store = fake === null ? openFolderStore(lake) : await openStore(fakePlace(fake.endpoint));
        const end = await publish(world, what, store, isSnapshotAsked);
        if (fake !== null) copyObjects(fake, lake);
        return end;
      };
      const changes: number[] = [];
      for (let revision = 0; revision <= revisions; revision += 1) {
        world.moveTo(revision);
        const { outcome } = await world.sync(
          fullAt.has(revision) ? { isFull: true, allowDeletes: true } : {},
        );
        expect({ revision, outcome }).toEqual({ revision, outcome: 'ok' });
        const end = await publishNow(revision === 4);
        if (end.kind !== 'published') throw new Error(`revision ${revision}: ${end.kind}`);
        const { entities } = end.published.manifest;
        expect(entities.filter(({ asOf }) => asOf === null)).toEqual([]);
        changes.push(entities.reduce((sum, { upserts, deletes }) => sum + upserts + deletes, 0));
        const manifests = lakeManifests(lake);
        const rows =
          format === 'parquet' ? await parquetLakeRows(lake, manifests) : jsonlLakeRows(lake, manifests);
        const stored = new Map(
          entities.map(({ entity }) => [entity as string, rows.get(entity) ?? new Map()]),
        );
        const wrong = differencesFrom(stored, builtInDefinition(definition), (table) => world.stored(table));
        expect({ revision, ...wrong }).toEqual({ revision, ...noDifferences });
      }
      expect(changes.slice(1).every((more) => more > 0 && more < (changes[0] ?? 0))).toBe(true);
      expect((await publishNow(false)).kind).toBe('unchanged');
    }, 300_000);
  });
});

describe.each(scheduledSinks)('a worker of a %s sink', (sinkType) => {
  // Proves promise 20.9
  it('publishes after the syncs of a worker, whole, and says so in log and metrics', async () => {
    const connector = {
      name: 'news',
      definition: 'email-marketing',
      size: 'tiny',
      schedule: '{ every: 1h }',
    };
    await using world = await openScheduledWorld({ sinkType, connectors: [{ ...connector, size: 'tiny' }] });
    appendFileSync(
      world.config,
      `publish:
  lake: { type: files, directory: ./lake, format: jsonl }
  mart: { type: files, directory: ./mart, format: jsonl, when: { every: 10s } }
  hand: { type: files, directory: ./hand, format: jsonl, when: by-hand }
`,
    );
    const port = await freePort();
    const worker = startWorkerProcess(world, {}, { listen: { host: '127.0.0.1', port } });
    const published = await worker.until(({ msg, target }) => msg === 'published' && target === 'lake');
    expect(published).toMatchObject({ publication: 1 });
    await worker.until(({ msg, target }) => msg === 'publication job ended' && target === 'mart');
    const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    expect(metrics).toContain('connector_sync_publications_total{target="lake",result="published"} 1');
    expect(metrics).toContain('connector_sync_publication_newest_number{target="lake"} 1');
    expect(metrics).toContain(
      `connector_sync_published_rows_total{target="lake"} ${String(published['rows'])}`,
    );
    worker.child.kill('SIGTERM');
    expect(await worker.ended).toMatchObject({ code: 0 });
    const { manifest } = readManifest(
      readFileSync(path.join(world.folder, 'lake/_publications/00000000000000000001.json'), 'utf8'),
    );
    const stored = world.ledger('SELECT count(*) AS rows FROM news__list_members');
    const members = manifest.entities.find(({ entity }) => entity === 'list_members');
    expect(stored.map((row) => Number(Object.values(row ?? {})[0]))).toEqual([members?.upserts]);
    expect(readdirSync(world.folder)).not.toContain('hand');
  });
});

describe('feeds', () => {
  const revisions = Number(process.env['REVISIONS'] ?? 2);
  const fullAt = new Set([2, 3, 5]);

  /** A warehouse that is fed by `export` alone: a table of records by key, and how far each feed has come. */
  interface Warehouse extends Disposable {
    /** One transaction: the changes, and the number to continue from. */
    load(entity: string, lines: readonly JsonObject[], key: readonly string[], nextSeq: number): void;
    nextSeq(entity: string): number;
    rows(table: EntityTable): ReadonlyMap<string, Row>;
  }

  function openWarehouse(file: string): Warehouse {
    const db = new Database(file);
    db.exec(`CREATE TABLE record (entity TEXT, key TEXT, line TEXT, PRIMARY KEY (entity, key));
    CREATE TABLE feed (entity TEXT PRIMARY KEY, next_seq INTEGER)`);
    const put = db.prepare('INSERT OR REPLACE INTO record VALUES (?, ?, ?)');
    const drop = db.prepare('DELETE FROM record WHERE entity = ? AND key = ?');
    const go = db.prepare('INSERT OR REPLACE INTO feed VALUES (?, ?)');
    const next = db.prepare<[string], number>('SELECT next_seq FROM feed WHERE entity = ?').pluck();
    const all = db.prepare<[string], { key: string; line: string }>(
      'SELECT key, line FROM record WHERE entity = ?',
    );
    return {
      load: db.transaction(
        (entity: string, lines: readonly JsonObject[], key: readonly string[], nextSeq: number) => {
          for (const line of lines) {
            const keyText = JSON.stringify(key.map((name) => line[name]));
            if (line['_op'] === 'delete') drop.run(entity, keyText);
            else put.run(entity, keyText, JSON.stringify(line));
          }
          go.run(entity, nextSeq);
        },
      ),
      nextSeq: (entity) => next.get(entity) ?? 0,
      rows: (table) =>
        new Map(
          all.all(table.entity).map(({ key, line }) => [key, rowOf(table, JSON.parse(line) as JsonObject)]),
        ),
      [Symbol.dispose]: () => void db.close(),
    };
  }

  function rowOf(table: EntityTable, line: JsonObject): Row {
    return {
      columns: Object.fromEntries(table.columns.map(({ name }) => [name, line[name] ?? null])),
      extra: (line['_extra'] as JsonObject | undefined) ?? null,
    };
  }

  /** The command as a scheduler would call it. Gives its output, and the changes. */
  async function feed(
    world: RevisionWorld,
    warehouse: Warehouse,
    table: EntityTable,
  ): Promise<{ readonly changes: number }> {
    const { entity, key } = table;
    const since = warehouse.nextSeq(entity);
    const result = await callCli(
      [
        'export',
        `${world.definitionName}/${entity}`,
        '--since-seq',
        String(since),
        '--json',
        '--config',
        'sync.yaml',
      ],
      { cwd: world.folder, env: { SECRET: 'unused-secret' } },
    );
    expect({ entity, code: result.code, stderr: result.code === 0 ? '' : result.stderr }).toEqual({
      entity,
      code: 0,
      stderr: '',
    });
    const lines = result.stdout.split('\n').filter((line) => line !== '');
    const end = JSON.parse(result.stderr) as { readonly nextSeq: number };
    warehouse.load(
      entity,
      lines.map((line) => JSON.parse(line) as JsonObject),
      key,
      end.nextSeq,
    );
    return { changes: lines.length };
  }

  function differences(left: ReadonlyMap<string, Row>, right: ReadonlyMap<string, Row>): readonly string[] {
    const wrong = [...right].flatMap(([key, row]) => {
      const found = left.get(key);
      return found !== undefined && sameRow(found, row)
        ? []
        : [`${found === undefined ? 'lost' : 'other'} ${key}`];
    });
    return [
      ...wrong,
      ...[...left.keys()].filter((key) => !right.has(key)).map((key) => `superfluous ${key}`),
    ];
  }

  /** Trashed pages are not listed, stay stored, and keep what is below them. */
  function withoutTrash(world: RevisionWorld, { entity }: EntityTable, rows: ReadonlyMap<string, Row>) {
    const pageOf = ({ columns }: Row): unknown => {
      if (entity === 'blocks') return columns['page_id'];
      return entity === 'comments' ? (columns['parent'] as JsonObject | null)?.['page_id'] : columns['id'];
    };
    const owner = entity === 'data_sources' ? 'data_sources' : 'pages';
    return new Map([...rows].filter(([, row]) => !world.isTrashed(owner, String(pageOf(row)))));
  }

  describe.each(triedSampleSinks)('a warehouse fed from a %s sink', (type, sink) => {
    // Proves promise 14
    it.each(sampleConnectors.filter(([id]) => isLong || id !== 'library'))(
      'by export alone holds what the sink of %s holds after every revision, and the truth after a full read',
      async (connectorId, definitionName) => {
        // A revision changes half of a tiny library.
        const size = definitionName === 'document-library' ? 'small' : 'tiny';
        await using world = await openRevisionWorld({ definitionName, sink: type, size });
        writeFileSync(
          path.join(world.folder, 'sync.yaml'),
          `api: { baseUrl: "${world.url}", clientId: a, clientSecret: "\${SECRET}" }
sinks: { test: ${JSON.stringify(sink.settings(world.folder))} }
connectors: { ${definitionName}: { definition: ${definitionName}, id: ${connectorId}, sink: test } }
`,
        );
        using warehouse = openWarehouse(path.join(world.folder, 'warehouse.db'));
        const tables = tablesOf(definitionName);
        const changes: number[] = [];
        for (let revision = 0; revision <= revisions; revision += 1) {
          world.moveTo(revision);
          const run = fullAt.has(revision) ? { isFull: true, allowDeletes: true } : {};
          const { outcome } = await world.sync(run);
          expect({ revision, outcome }).toEqual({ revision, outcome: 'ok' });
          let fed = 0;
          for (const table of tables) {
            fed += (await feed(world, warehouse, table)).changes;
            const { entity } = table;
            const wrong = differences(warehouse.rows(table), world.stored(table));
            expect({ revision, entity, wrong }).toEqual({ revision, entity, wrong: [] });
            if (!fullAt.has(revision)) continue;
            const loaded = withoutTrash(world, table, warehouse.rows(table));
            const untrue = differences(
              loaded,
              withoutTrash(world, table, world.truth().get(entity) ?? new Map()),
            );
            expect({ revision, entity, untrue }).toEqual({ revision, entity, untrue: [] });
          }
          changes.push(fed);
        }
        // Fed by what changed, not by everything again.
        expect(changes.slice(1).every((fed) => fed > 0 && fed < (changes[0] ?? 0))).toBe(true);
        // Nothing new: nothing to load.
        let again = 0;
        for (const table of tables) again += (await feed(world, warehouse, table)).changes;
        expect(again).toBe(0);
      },
      120_000,
    );
  });
});
