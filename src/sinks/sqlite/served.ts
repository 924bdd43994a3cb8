import { statSync } from 'node:fs';
import type { ReadableSqlite } from '../../sql/sqlite/read-sqlite.ts';
import { fileAt, movedError } from './file-place.ts';
import { servedLedger } from '../ledger/served-ledger.ts';
import type { ServedLedger } from '../sink-access.ts';
import { openReadonlyDatabase, storedId } from './open-database.ts';
import { readFile, type ReadFile } from './readers.ts';

export interface ServedFile extends ReadFile {
  readonly sinkId: string;
  readonly place: string;
}

/**
 * A file sink's ledger, open for reading as long as its file stays. It is back when that, or another file with the same
 * sink (a backup), is there again.
 */
export async function openServedFile({ sinkId, place, ...of }: ServedFile): Promise<ServedLedger> {
  const { file, cacheKiB } = of;
  /** Null while the sink is lost. */
  let db: ReadableSqlite | null = null;
  let opened: string | null = null;
  let log: string | null = null;
  let why = '';
  /** The foreign file as it was looked into, so that it is opened again only after a change. */
  let seen: string | null = null;

  const openThis = (found: string): void => {
    const first = openReadonlyDatabase(of);
    const id = storedId(first);
    first.close();
    if (id !== sinkId) {
      why = `another sink is at ${place}`;
      return;
    }
    const openReader = () => {
      if (idOf(file) !== found) throw movedError(file, idOf(file) === null);
      return openReadonlyDatabase(of);
    };
    db = readFile({ file, openReader, cacheKiB });
    opened = found;
    log = idOf(`${file}-wal`);
  };
  const openAgain = (found: string): void => {
    seen = looks(file);
    // SQLite would read the log of the sink into the other file.
    if (opened !== null && found !== opened && log !== null && idOf(`${file}-wal`) === log) {
      why = `another file is at ${place}, and ${file}-wal is still that of the sink`;
      return;
    }
    try {
      openThis(found);
    } catch (error) {
      why = `what is at ${place} cannot be read: ${error instanceof Error ? error.message : String(error)}`;
    }
  };
  /**
   * The old file is closed before another one is opened: SQLite would take the files beside them for one and the same.
   */
  const lose = async (losing: () => Promise<void>): Promise<void> => {
    if (db === null) return;
    await losing();
    await db[Symbol.asyncDispose]();
    db = null;
    seen = null;
  };
  const first = idOf(file);
  if (first === null) throw movedError(file, true);
  openThis(first);
  return await servedLedger({
    sinkId,
    look: async (losing) => {
      const found = idOf(file);
      if (db !== null && found === opened) return null;
      await lose(losing);
      if (found === null) {
        seen = null;
        why = `nothing is at ${place}`;
      } else if (seen === null || seen !== looks(file)) {
        openAgain(found);
      }
      return db === null ? why : null;
    },
    read: async (work) => {
      if (db === null) throw movedError(file, true);
      return await db.read(work);
    },
    mark: async () => (db === null ? null : await db.mark()),
    [Symbol.asyncDispose]: async () => await db?.[Symbol.asyncDispose](),
  });
}

/** Also a folder that may not be entered any more has lost the file. */
function idOf(file: string): string | null {
  try {
    return fileAt(file);
  } catch {
    return null;
  }
}

/** Changes when the file is another one, or is written: a copy may be looked at before all of it is there. */
function looks(file: string): string | null {
  try {
    const { ino, size, mtimeMs } = statSync(file);
    return `${ino} ${size} ${mtimeMs}`;
  } catch {
    return null;
  }
}
