import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { ConnectorName } from '../../src/core/names.ts';
import { openFolderStore } from '../../src/publish/folder-store.ts';
import { openObjectTarget } from '../../src/publish/object-target.ts';
import { openRowFileWriters } from '../../src/publish/open-row-file-writers.ts';
import { publishOnce } from '../../src/publish/publish-once.ts';
import type { PublishEnd } from '../../src/publish/publish-request.ts';
import type { FileFormat } from '../../src/publish/row-files.ts';
import { defaultLayout } from '../../src/settings/build-publish-place.ts';
import type { ConnectorSettings } from '../../src/settings/settings.ts';
import { jsonlLakeRows, parquetLakeRows } from '../support/publish/lake-rows.ts';
import { lakeManifests } from '../support/publish/read-lake.ts';
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

/** What is tried: the sink, the account, and the files; a share in `npm test`. */
const all = ['sqlite', 'jsonl', 'postgres'].flatMap((sink) =>
  sampleConnectors.flatMap(([, definition]) =>
    (['jsonl', 'parquet'] as const).map((format) => ({ sink: sink as SampleSinkType, definition, format })),
  ),
);
const tried = isLong ? all : [{ sink: 'sqlite', definition: 'workspace-notes', format: 'jsonl' } as const];

async function publish(
  world: RevisionWorld,
  sink: SampleSinkType,
  format: FileFormat,
  isSnapshotAsked: boolean,
): Promise<PublishEnd> {
  const definition = builtInDefinition(world.definitionName);
  const name = world.definitionName as ConnectorName;
  const sampleSink = await sampleSinkOf(sink);
  const connector = { name, definition, sink: sampleSink.options(world.folder) };
  await using target = openObjectTarget({
    store: openFolderStore(lakeOf(world)),
    writers: openRowFileWriters(),
    format,
    layout: defaultLayout,
    clock: systemClock,
  });
  return await publishOnce(target, {
    settings: {
      name: 'lake',
      connectors: [connector as unknown as ConnectorSettings],
      snapshotEveryMs: null,
      keepMs: null,
    },
    isSnapshotAsked,
    isNewGenerationAsked: false,
    by: { program: 'connector-sync test', host: 'here' },
    clock: systemClock,
    signal: new AbortController().signal,
    onProgress: () => undefined,
  });
}

function lakeOf(world: RevisionWorld): string {
  return join(world.folder, 'published');
}

describe.each(tried)(
  '$format files published from a $sink sink of $definition',
  ({ sink, definition, format }) => {
    it('hold what the sink holds after every revision, each change once', async () => {
      const size = definition === 'document-library' ? 'small' : 'tiny';
      await using world = await openRevisionWorld({ definitionName: definition, sink, size });
      const changes: number[] = [];
      for (let revision = 0; revision <= revisions; revision += 1) {
        world.moveTo(revision);
        const { outcome } = await world.sync(
          fullAt.has(revision) ? { isFull: true, allowDeletes: true } : {},
        );
        expect({ revision, outcome }).toEqual({ revision, outcome: 'ok' });
        const end = await publish(world, sink, format, revision === 4);
        if (end.kind !== 'published') throw new Error(`revision ${revision}: ${end.kind}`);
        const { entities } = end.published.manifest;
        expect(entities.filter(({ asOf }) => asOf === null)).toEqual([]);
        changes.push(entities.reduce((sum, { upserts, deletes }) => sum + upserts + deletes, 0));
        const manifests = lakeManifests(lakeOf(world));
        const rows =
          format === 'parquet'
            ? await parquetLakeRows(lakeOf(world), manifests)
            : jsonlLakeRows(lakeOf(world), manifests);
        const stored = new Map(
          entities.map(({ entity }) => [entity as string, rows.get(entity) ?? new Map()]),
        );
        const wrong = differencesFrom(stored, builtInDefinition(definition), (table) => world.stored(table));
        expect({ revision, ...wrong }).toEqual({ revision, ...noDifferences });
      }
      expect(changes.slice(1).every((more) => more > 0 && more < (changes[0] ?? 0))).toBe(true);
      expect((await publish(world, sink, format, false)).kind).toBe('unchanged');
    }, 300_000);
  },
);
