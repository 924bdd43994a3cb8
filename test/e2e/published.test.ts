import { appendFileSync, readFileSync, readdirSync } from 'node:fs';
import path, { join } from 'node:path';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { ConnectorName } from '../../src/core/names.ts';
import { keyTextOf, type EntityTable } from '../../src/core/records.ts';
import { openFolderStore } from '../../src/publish/folder-store.ts';
import { readManifest, type Manifest, type PublishedEntity } from '../../src/publish/manifest.ts';
import { openObjectTarget } from '../../src/publish/object-target.ts';
import { openTarget } from '../../src/publish/open-target.ts';
import type { PublishEnd } from '../../src/publish/publication.ts';
import { openRowFileWriters, type FileFormat } from '../../src/publish/row-files.ts';
import type { ObjectStore } from '../../src/publish/target.ts';
import type { ConnectorSettings, PublishPlace, PublishSettings } from '../../src/settings/settings.ts';
import { openExistingRecords } from '../../src/sinks/registry.ts';
import type { SinkOptions } from '../../src/sinks/sink-access.ts';
import { sharedPostgres } from '../support/postgres.ts';
import { copyObjects, fakePlace, startFakeS3 } from '../support/publish/fake-s3.ts';
import { publishNow } from '../support/publish/publish-now.ts';
import { lakeManifests, readLake } from '../support/publish/read-lake.ts';
import {
  duckdbTableRows,
  postgresTableRows,
  type TableRows,
  duckdb,
  identifier,
  literal,
} from '../support/publish/read-tables.ts';
import { openStore } from '../support/publish/s3-place.ts';
import { untilEnd, expectedModelRows } from '../support/publish/stored-model.ts';
import { freePort } from '../support/redis.ts';
import { openRevisionWorld, type RevisionWorld } from '../support/revision-world.ts';
import { builtInDefinition, sampleConnectors } from '../support/sample-service.ts';
import {
  differencesFrom,
  noDifferences,
  sampleSinkOf,
  type SampleSinkType,
} from '../support/sample-sinks.ts';
import { openScheduledWorld, scheduledSinks } from '../support/scheduled-world.ts';
import { isLong } from '../support/trials.ts';
import { startWorkerProcess } from '../support/worker-process.ts';
import type { JsonObject, JsonValue } from '../../src/core/json.ts';
import type { Row } from '../support/expected-rows.ts';

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
            times: 'text',
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
    await worker.until(({ msg, target }) => msg === 'published' && target === 'mart');
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

/**
 * Live rows of the newest publication, entity by entity: key as JSON -> row, as `stored` of a revision world has them.
 */
type LakeRows = ReadonlyMap<string, ReadonlyMap<string, Row>>;

function jsonlLakeRows(lake: string, manifests: readonly Manifest[]): LakeRows {
  const { publication, entities } = newestOf(manifests);
  const found = readLake(lake, manifests, publication);
  return new Map(
    entities.map((entity) => [
      entity.entity,
      new Map(
        [...(found.get(entity.entity)?.values() ?? [])].map(({ line }) => [
          keyOf(entity, line),
          { columns: columnsOf(entity, line), extra: (line['_extra'] as JsonObject | null) ?? null },
        ]),
      ),
    ]),
  );
}

/** Read by DuckDB, from the files that the manifests name alone. */
async function parquetLakeRows(lake: string, manifests: readonly Manifest[]): Promise<LakeRows> {
  const rows = new Map<string, ReadonlyMap<string, Row>>();
  for (const entity of newestOf(manifests).entities) {
    const files = filesOf(manifests, entity).map((path) => literal(join(lake, path)));
    rows.set(entity.entity, files.length === 0 ? new Map() : await askDuckdb(entity, files));
  }
  return rows;
}

async function askDuckdb(
  entity: PublishedEntity,
  files: readonly string[],
): Promise<ReadonlyMap<string, Row>> {
  const key = entity.key.map(identifier).join(', ');
  const found = await duckdb(
    `SELECT * FROM read_parquet([${files.join(', ')}], union_by_name = true)
     QUALIFY row_number() OVER (PARTITION BY ${key} ORDER BY _seq DESC) = 1 AND NOT _deleted`,
  );
  return new Map(
    found.map((row) => {
      const line: JsonObject = Object.fromEntries(
        [...entity.columns, { name: '_extra', type: 'object' as const }].map(({ name, type }) => [
          name,
          jsonOf(row[name], type),
        ]),
      );
      const extra = (line['_extra'] as JsonObject | null) ?? null;
      return [keyOf(entity, line), { columns: columnsOf(entity, line), extra }];
    }),
  );
}

function jsonOf(value: unknown, type: PublishedEntity['columns'][number]['type']): JsonValue {
  if (value === null || value === undefined) return null;
  const isJson = type === 'object' || type === 'array' || type === 'any';
  if (isJson && typeof value === 'string') return JSON.parse(value) as JsonValue;
  return typeof value === 'bigint' ? Number(value) : (value as JsonValue);
}

function filesOf(
  manifests: readonly Manifest[],
  { connector, entity, base }: PublishedEntity,
): readonly string[] {
  return manifests
    .filter(({ publication }) => publication >= base)
    .flatMap(({ publication, entities }) => {
      const one = entities.find((other) => other.connector === connector && other.entity === entity);
      const files = publication === base ? (one?.snapshot?.files ?? one?.files) : one?.files;
      return (files ?? []).map(({ path }) => path);
    });
}

function newestOf(manifests: readonly Manifest[]): Manifest {
  const newest = manifests.at(-1);
  if (newest === undefined) throw new Error('Nothing was published');
  return newest;
}

function keyOf({ key }: PublishedEntity, line: JsonObject): string {
  return JSON.stringify(key.map((name) => line[name]));
}

function columnsOf({ columns }: PublishedEntity, line: JsonObject): JsonObject {
  return Object.fromEntries(columns.map(({ name, field }) => [field, line[name] ?? null]));
}
