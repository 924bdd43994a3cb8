import { randomBytes } from 'node:crypto';
import { unlink } from 'node:fs/promises';
import { instant, type Clock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { StoredRecord } from '../sinks/record-reader.ts';
import { checkObjects, lostObjects, probeObjects } from './check-objects.ts';
import {
  latestName,
  latestText,
  manifestName,
  partName,
  readManifests,
  readNewest,
  type PartName,
} from './object-manifests.ts';
import { manifestText, type PublishedFile } from './manifest.ts';
import type { ObjectStore } from './object-store.ts';
import { pruneObjects } from './prune-objects.ts';
import type { FileFormat, RowFileWriters } from './open-row-file-writers.ts';
import type { OpenPublication, PlannedEntity, Target } from './target.ts';

interface ObjectTargetOptions {
  readonly store: ObjectStore;
  readonly writers: RowFileWriters;
  readonly format: FileFormat;
  readonly layout: string;
  readonly clock: Clock;
}

const maxRows = 1_000_000;
const maxBytes = 256 * 1024 * 1024;
/** Files without a manifest are removed after a day: a publication must be there before. */
const longestMs = 20 * 3_600_000;

/** Publications as files of a folder or a bucket: a manifest under a name that nothing had is the commit. */
export function openObjectTarget(options: ObjectTargetOptions): Target {
  const { store, writers, layout, clock } = options;
  return {
    layout: `${layout}.${options.format}`,
    newest: async () => await readNewest(store),
    manifests: (first) => readManifests(store, first),
    lost: async (newest, entities) => await lostObjects(store, newest, entities),
    begin: (number) => Promise.resolve(beginPublication(options, number)),
    probe: async () => await probeObjects(store),
    check: async (signal) => await checkObjects(store, signal),
    prune: async (keepFromMs, isDryRun) => await pruneObjects(store, { layout, clock, keepFromMs, isDryRun }),
    [Symbol.asyncDispose]: async () => {
      await writers[Symbol.asyncDispose]();
      await store[Symbol.asyncDispose]();
    },
  };
}

function beginPublication(
  { store, writers, format, layout, clock }: ObjectTargetOptions,
  number: number,
): OpenPublication {
  const attempt = randomBytes(4).toString('hex');
  const begunMs = clock.now();
  /** Names by the paths of staged files. */
  const staged = new Map<string, string>();
  const names: string[] = [];
  // Kept: a manifest names them, or may, where it is unknown whether it is there.
  let areKept = false;

  /** Files of one kind of an entity, under their names but not yet in a manifest. */
  const writeFiles = async (
    entity: PlannedEntity,
    kind: PartName['kind'],
    batches: AsyncIterable<readonly StoredRecord[]>,
  ): Promise<{ readonly deletes: number; readonly rows: number; readonly files: PublishedFile[] }> => {
    const date = instant(begunMs).slice(0, 10);
    await using rowFiles = await writers.open({
      format,
      table: entity.table,
      columns: entity.columns,
      maxRows,
      maxBytes,
      pathOf: async (part) => {
        const name = partName(layout, { ...entity, kind, date, publication: number, part }, attempt, format);
        const path = await store.stage(name);
        staged.set(path, name);
        return path;
      },
    });
    let [rows, deletes] = [0, 0];
    for await (const records of batches) {
      await rowFiles.write(records);
      rows += records.length;
      deletes += records.filter(({ isDeleted }) => isDeleted).length;
    }
    const files: PublishedFile[] = [];
    for (const { path: stagedPath, ...facts } of await rowFiles.finish()) {
      const name = staged.get(stagedPath) ?? '';
      names.push(name);
      await store.put(name, stagedPath, facts);
      staged.delete(stagedPath);
      files.push({ path: name, ...facts });
    }
    return { rows, deletes, files };
  };

  return {
    write: async (entity, { changes, snapshot }) => {
      const { rows, deletes, files } = await writeFiles(entity, 'changes', changes);
      const all = snapshot === null ? null : await writeFiles(entity, 'snapshot', snapshot);
      return {
        upserts: rows - deletes,
        deletes,
        files,
        snapshot: all === null ? null : { rows: all.rows, files: all.files },
      };
    },
    commit: async (manifest) => {
      if (clock.now() - begunMs > longestMs) throw tooLongError(number);
      const text = manifestText(manifest);
      areKept = true;
      const isCreated = (await store.create(manifestName(number), text)) === 'created';
      // A commit whose answer was lost, and that was made again, finds itself.
      areKept = isCreated || (await store.read(manifestName(number)))?.toString() === text;
      if (!areKept) return 'taken';
      // It saves listing: the publication is there without it, and the next one writes it again.
      await store.replace(latestName, latestText(number)).catch(() => undefined);
      return 'published';
    },
    [Symbol.asyncDispose]: async () => {
      if (areKept) return;
      areKept = true;
      // What cannot be removed now is removed by `prune`, as after a kill; the error that led here counts.
      for (const path of staged.keys()) await unlink(path).catch(() => undefined);
      await store.remove(names).catch(() => undefined);
    },
  };
}

function tooLongError(publication: number): SyncError {
  return new SyncError(
    `Publication ${publication} took longer than 20 hours, and files without a manifest are removed after a day. ` +
      'Publish fewer connectors per target, or to a faster place.',
    { code: 'TARGET_FAILED', recovery: 'stop', context: { publication } },
  );
}
