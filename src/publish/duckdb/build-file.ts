import { constants } from 'node:fs';
import { chmod, copyFile, rm, stat } from 'node:fs/promises';
import { SyncError } from '../../core/errors.ts';
import { quoted } from '../../sql/quoted.ts';
import { synced } from '../folder-files.ts';
import { publicationsOf, type PublicationText } from '../tables/table-publications.ts';
import { charsOf, type BuiltEntity, type BuiltRow } from './fields.ts';
import { openTable, type BuiltTable } from './merge-table.ts';
import {
  allowMoreMemory,
  catalogOf,
  longChars,
  openDuckdb,
  quotedText,
  type Duckdb,
  type LongRow,
} from './open-duckdb.ts';
import { isTarget } from './read-file.ts';

interface BuiltPublication extends PublicationText {
  readonly createdAt: string;
  /** SHA-256 of the manifest before; null: there is none. */
  readonly previousSha256: string | null;
}

/**
 * Changes leave free blocks behind. Where they are more than this share, and some MiB, the new file is written table by
 * table.
 */
const mostFreeShare = 0.5;
const leastFreeBlocks = 64;
/** Of 210,000 rows of random numbers 150 columns did not fit, and 100 did. */
const manyColumns = 64;

export interface BuiltFiles {
  /** Null: an empty one. */
  readonly from: string | null;
  /** Must not be there. */
  readonly to: string;
  /** Nothing but the rows that there are comes along: what others held is in free blocks. */
  readonly isErasing: boolean;
}

interface BuildEnd {
  readonly publication: BuiltPublication | null;
  /** Manifests that were not the newest one at this instant or later are removed; null: none is. */
  readonly keepFrom: string | null;
}

export type FileBuild = Awaited<ReturnType<typeof buildFile>>;

/** A file with all that `from` holds, in one transaction of DuckDB. */
export async function buildFile({ from, to, isErasing }: BuiltFiles) {
  const db = from === null ? await openDuckdb(to, 'write') : await openCopy(from, to, isErasing);
  await db.run('BEGIN');
  await db.run(
    `CREATE TABLE IF NOT EXISTS main._publications (number BIGINT NOT NULL, created_at TIMESTAMPTZ NOT NULL, manifest JSON NOT NULL,
       sha256 VARCHAR NOT NULL)`,
  );
  await db.run(
    `CREATE TABLE IF NOT EXISTS main._published_tables (connector VARCHAR NOT NULL, entity VARCHAR NOT NULL, generation BIGINT NOT NULL,
       key JSON NOT NULL, columns JSON NOT NULL, live_rows BIGINT NOT NULL)`,
  );
  let table: BuiltTable | null = null;
  let longest: LongRow | null = null;
  return {
    /** Prepares the table of an entity. */
    entity: async (entity: BuiltEntity): Promise<void> => {
      if (entity.columns.length >= manyColumns) await allowMoreMemory(db);
      table = await openTable(db, from ?? to, entity);
    },
    /** Rows of that entity. */
    rows: async (rows: readonly BuiltRow[]): Promise<void> => {
      if (table === null || rows.length === 0) return;
      longest = longestOf(longest, table.entity, rows);
      if (longest.chars >= longChars) await allowMoreMemory(db);
      await table.append(rows);
    },
    /** They have all come. */
    merge: async (): Promise<void> => {
      await table?.merge();
      table = null;
    },
    /**
     * Adds the manifest, removes old ones, and closes the file: `done` once it is whole and on the disk. `taken`: it
     * does not hold what the publication follows.
     */
    finish: async ({ publication, keepFrom }: BuildEnd): Promise<'done' | 'taken'> => {
      if (publication !== null && !(await addPublication(db, publication))) return 'taken';
      if (keepFrom !== null) await forgetPublications(db, keepFrom);
      // Whatever rows have come: what is in the file already may be written again.
      await allowMoreMemory(db);
      await db.run('COMMIT');
      await db.run('CHECKPOINT');
      db[Symbol.dispose]();
      await synced(to);
      return 'done';
    },
    /** Of all rows so far; null: none came. */
    longest: (): LongRow | null => longest,
  };
}

function longestOf(
  before: LongRow | null,
  { connector, entity }: BuiltEntity,
  rows: readonly BuiltRow[],
): LongRow {
  const chars = Math.max(...rows.map(charsOf));
  return before !== null && before.chars >= chars ? before : { table: `${connector}.${entity}`, chars };
}

/** While it is copied, the old file is open for reading, so that no other process writes to it. */
async function openCopy(from: string, to: string, isErasing: boolean): Promise<Duckdb> {
  using old = await openDuckdb(from, 'read');
  await isTarget(old, from);
  if (isErasing) {
    const compacted = await openCompacted(from, to);
    if (compacted !== null) return compacted;
    throw new SyncError(
      `${from} cannot be written table by table: tables of others in it refer to each other. Remove it, then publish again.`,
      { code: 'TARGET_FAILED', recovery: 'stop', context: { path: from } },
    );
  }
  const [size] = await old.rows<{ readonly total: number; readonly free: number }>(
    'SELECT total_blocks AS total, free_blocks AS free FROM pragma_database_size()',
  );
  const { total = 0, free = 0 } = size ?? {};
  if (free < leastFreeBlocks || free < mostFreeShare * total) return await openWhole(from, to);
  return (await openCompacted(from, to)) ?? (await openWhole(from, to));
}

async function openWhole(from: string, to: string): Promise<Duckdb> {
  await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  return await openDuckdb(to, 'write');
}

/**
 * Null, and nothing is left of it, where the tables cannot be copied one by one: DuckDB copies those of others without
 * regard to their foreign keys.
 */
async function openCompacted(from: string, to: string): Promise<Duckdb | null> {
  const db = await openDuckdb(to, 'write');
  try {
    await db.run(`ATTACH ${quotedText(from)} AS copied_from (READ_ONLY)`);
    await db.run(`COPY FROM DATABASE copied_from TO ${quoted(await catalogOf(db))}`);
    await db.run('DETACH copied_from');
    await chmod(to, (await stat(from)).mode);
    return db;
  } catch {
    db[Symbol.dispose]();
    for (const name of [to, `${to}.wal`, `${to}.tmp`]) await rm(name, { recursive: true, force: true });
    return null;
  }
}

async function addPublication(db: Duckdb, publication: BuiltPublication): Promise<boolean> {
  const { number, manifest, sha256, createdAt, previousSha256 } = publication;
  const [newest] = await publicationsOf({ db, at: 'main.' }, null, 1);
  if ((newest?.sha256 ?? null) !== previousSha256 || (newest?.number ?? 0) >= number) return false;
  await db.run(
    'INSERT INTO main._publications VALUES ($number, $createdAt::TIMESTAMPTZ, $manifest, $sha256)',
    {
      number,
      createdAt,
      manifest,
      sha256,
    },
  );
  return true;
}

async function forgetPublications(db: Duckdb, keepFrom: string): Promise<void> {
  await db.run(
    `DELETE FROM main._publications WHERE number < (SELECT max(number) FROM main._publications WHERE created_at < $keepFrom::TIMESTAMPTZ)`,
    { keepFrom },
  );
}
