import type { SyncError } from '../../core/errors.ts';
import type { StoredRecord } from '../../sinks/record-reader.ts';
import { otherVersionAdvice, readManifest, type StoredManifest } from '../manifest.ts';
import type { EntityRows, Target, WrittenEntity } from '../target.ts';
import type { TargetTables } from './target-tables.ts';

/** A manifest as a table of publications has it. */
export interface PublicationText {
  readonly number: number;
  readonly manifest: string;
  /** Of the text, as it was when it was written. */
  readonly sha256: string;
}

/** Up to `limit` publications by their numbers, from `first` on; the newest one where that is null. */
type ReadPublications = (first: number | null, limit: number) => Promise<readonly PublicationText[]>;

export async function publicationsOf(
  { db, at }: Pick<TargetTables, 'db' | 'at'>,
  first: number | null,
  limit: number,
): Promise<readonly PublicationText[]> {
  const which = first === null ? 'ORDER BY number DESC' : `WHERE number >= ${first} ORDER BY number`;
  const sql = `SELECT number, manifest, sha256 FROM ${at}_publications ${which} LIMIT ${limit}`;
  return await db.rows<PublicationText>(sql);
}

const readAtOnce = 20;

export async function* publicationsFrom(
  read: (first: number, limit: number) => Promise<readonly PublicationText[]>,
  first: number,
): AsyncGenerator<PublicationText> {
  for (let from = first; ;) {
    const some = await read(from, readAtOnce);
    yield* some;
    const last = some.at(-1);
    if (last === undefined || some.length < readAtOnce) return;
    from = last.number + 1;
  }
}

/** What a target says of its publications, from its table `_publications`. */
export function tablePublications(
  read: ReadPublications,
  incompatible: (found: string, advice: string) => SyncError,
): Pick<Target, 'layout' | 'newest' | 'manifests'> {
  const manifestOf = ({ number, manifest }: PublicationText): StoredManifest => {
    try {
      return readManifest(manifest);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      throw incompatible(
        `the manifest of publication ${number} in _publications cannot be read (${why})`,
        `${otherVersionAdvice} Else restore it from a backup.`,
      );
    }
  };
  return {
    layout: null,
    newest: async () => {
      const [newest] = await read(null, 1);
      return newest === undefined ? null : manifestOf(newest);
    },
    manifests: async function* (first) {
      for await (const publication of publicationsFrom(read, first)) yield manifestOf(publication);
    },
  };
}

/** Hands on the changes of an entity batch by batch, and counts them. */
export async function writeChanges(
  { changes }: EntityRows,
  write: (records: readonly StoredRecord[]) => Promise<void>,
): Promise<WrittenEntity> {
  let [upserts, deletes] = [0, 0];
  for await (const records of changes) {
    const removed = records.filter(({ isDeleted }) => isDeleted).length;
    deletes += removed;
    upserts += records.length - removed;
    await write(records);
  }
  return { upserts, deletes, files: [], snapshot: null };
}
