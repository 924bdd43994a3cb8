import type { StoredRecord } from '../../sinks/record-reader.ts';
import { manifestText, readManifest, type Manifest } from '../manifest.ts';
import type { OpenPublication, PlannedEntity } from '../target.ts';
import { charsOf, type BuiltEntity, type BuiltPublication, type BuiltRow } from './messages.ts';
import type { Build } from './open-build.ts';

/** What one message carries at most, beyond a single record. */
const messageChars = 1024 * 1024;

/**
 * A publication that is a new file. `keepFrom`: manifests that were not the newest one at this instant or later are
 * left out.
 */
export function filePublication(build: Build, keepFrom: string | null): OpenPublication {
  return {
    write: async (entity, { changes }) => {
      await build.ask({ kind: 'entity', entity: builtEntity(entity) });
      let [upserts, deletes] = [0, 0];
      for await (const records of changes) {
        const removed = records.filter(({ isDeleted }) => isDeleted).length;
        deletes += removed;
        upserts += records.length - removed;
        for (const rows of messagesOf(records)) await build.ask({ kind: 'rows', rows });
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

/** So that the process holds no more than a few records of the largest size. */
function* messagesOf(records: readonly StoredRecord[]): Generator<readonly BuiltRow[]> {
  let rows: BuiltRow[] = [];
  let chars = 0;
  for (const record of records) {
    const row = builtRow(record);
    rows.push(row);
    chars += charsOf(row);
    if (chars < messageChars) continue;
    yield rows;
    rows = [];
    chars = 0;
  }
  if (rows.length > 0) yield rows;
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
