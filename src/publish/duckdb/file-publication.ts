import type { StoredRecord } from '../../sinks/record-reader.ts';
import { manifestText, readManifest, type Manifest } from '../manifest.ts';
import type { OpenPublication, PlannedEntity } from '../target.ts';
import type { BuiltEntity, BuiltPublication, BuiltRow } from './messages.ts';
import type { Build } from './open-build.ts';

/** A publication that is a new file. `keepFrom`: manifests that were not the newest one at this instant or later are left out. */
export function filePublication(build: Build, keepFrom: string | null): OpenPublication {
  return {
    write: async (entity, { changes }) => {
      await build.ask({ kind: 'entity', entity: builtEntity(entity) });
      let [upserts, deletes] = [0, 0];
      for await (const records of changes) {
        const removed = records.filter(({ isDeleted }) => isDeleted).length;
        deletes += removed;
        upserts += records.length - removed;
        if (records.length > 0) await build.ask({ kind: 'rows', rows: records.map(builtRow) });
      }
      await build.ask({ kind: 'merge' });
      return { upserts, deletes, files: [], snapshot: null };
    },
    commit: async (manifest) => {
      const { kind } = await build.ask({ kind: 'finish', publication: builtPublication(manifest), keepFrom });
      return kind !== 'taken' && (await build.place()) ? 'published' : 'taken';
    },
    [Symbol.asyncDispose]: async () => await build[Symbol.asyncDispose](),
  };
}

function builtEntity({
  connector,
  entity,
  generation,
  key,
  columns,
  isNewGeneration,
}: PlannedEntity): BuiltEntity {
  const typed = columns.map(({ name, type }) => ({ name, type }));
  return { connector, entity, generation, key, columns: typed, isNewGeneration };
}

function builtRow({ values, extra, seq, changedAt, run, isDeleted }: StoredRecord): BuiltRow {
  return [...values, extra, seq, changedAt, run, isDeleted ? 1 : 0];
}

function builtPublication(manifest: Manifest): BuiltPublication {
  const text = manifestText(manifest);
  return {
    number: manifest.publication,
    manifest: text,
    sha256: readManifest(text).sha256,
    createdAt: manifest.createdAt,
    previousSha256: manifest.previous?.sha256 ?? null,
  };
}
