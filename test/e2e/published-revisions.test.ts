import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { ConnectorName } from '../../src/core/names.ts';
import { openFolderStore } from '../../src/publish/folder-store.ts';
import type { ObjectStore } from '../../src/publish/object-store.ts';
import { openObjectTarget } from '../../src/publish/object-target.ts';
import { type FileFormat, openRowFileWriters } from '../../src/publish/row-files.ts';
import type { PublishEnd } from '../../src/publish/publication.ts';
import { defaultLayout } from '../../src/settings/publish-file.ts';
import type { ConnectorSettings } from '../../src/settings/settings.ts';
import { copyObjects, fakePlace, startFakeS3 } from '../support/publish/fake-s3.ts';
import { jsonlLakeRows, parquetLakeRows } from '../support/publish/lake-rows.ts';
import { publishNow } from '../support/publish/publish-now.ts';
import { lakeManifests } from '../support/publish/read-lake.ts';
import { openStore } from '../support/publish/s3-place.ts';
import { openRevisionWorld, type RevisionWorld } from '../support/revision-world.ts';
import {
  differencesFrom,
  noDifferences,
  sampleSinkOf,
  type SampleSinkType,
} from '../support/sample-sinks.ts';
import { builtInDefinition, sampleConnectors } from '../support/sample-service.ts';
import { isLong } from '../support/trials.ts';

const revisions = Number(process.env['REVISIONS'] ?? (isLong ? 9 : 1));
const fullAt = new Set([2, 3, 5, 8]);

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
      const { outcome } = await world.sync(fullAt.has(revision) ? { isFull: true, allowDeletes: true } : {});
      expect({ revision, outcome }).toEqual({ revision, outcome: 'ok' });
      const end = await publishNow(revision === 4);
      if (end.kind !== 'published') throw new Error(`revision ${revision}: ${end.kind}`);
      const { entities } = end.published.manifest;
      expect(entities.filter(({ asOf }) => asOf === null)).toEqual([]);
      changes.push(entities.reduce((sum, { upserts, deletes }) => sum + upserts + deletes, 0));
      const manifests = lakeManifests(lake);
      const rows =
        format === 'parquet' ? await parquetLakeRows(lake, manifests) : jsonlLakeRows(lake, manifests);
      const stored = new Map(entities.map(({ entity }) => [entity as string, rows.get(entity) ?? new Map()]));
      const wrong = differencesFrom(stored, builtInDefinition(definition), (table) => world.stored(table));
      expect({ revision, ...wrong }).toEqual({ revision, ...noDifferences });
    }
    expect(changes.slice(1).every((more) => more > 0 && more < (changes[0] ?? 0))).toBe(true);
    expect((await publishNow(false)).kind).toBe('unchanged');
  }, 300_000);
});
