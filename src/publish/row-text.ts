import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { open, unlink } from 'node:fs/promises';
import { systemColumns } from '../core/names.ts';
import type { EntityTable } from '../core/records.ts';
import { csvLines } from '../export/csv-format.ts';
import type { RecordFormat } from '../export/record-format.ts';
import { columnWriter, onOneLine } from '../sinks/jsonl/line.ts';
import type { StoredRecord } from '../sinks/record-reader.ts';
import { explained } from './folder-files.ts';
import type { PublishedColumn, PublishedFile } from './manifest.ts';

/**
 * One file that rows are written to. Its methods reject with `SyncError` TARGET_FAILED, and are called one after the
 * other.
 */
export interface RowFile {
  /** Resolves when the next rows may come. */
  write(records: readonly StoredRecord[]): Promise<void>;
  /** So far; what is held back to be written together does not count yet. */
  bytes(): number;
  /** Resolves when all of it is on the disk. */
  close(rows: RowsOfFile): Promise<{ readonly bytes: number; readonly sha256: string }>;
  /** Removes the file, closed or not. */
  remove(): Promise<void>;
}

/** What was written to it. */
export type RowsOfFile = Pick<PublishedFile, 'rows' | 'firstSeq' | 'lastSeq'>;

/** Behind the columns of the record, in every format. `_deleted_at` is an instant, or null. */
export const ownColumns = ['_extra', '_seq', '_changed_at', '_run_id', '_deleted', '_deleted_at'] as const;

/**
 * The sink's names; a suffix where two would be the same to a warehouse that ignores case. A name that was published
 * stays.
 */
export function nameColumns(
  { columns }: EntityTable,
  published: readonly PublishedColumn[],
): readonly PublishedColumn[] {
  const nameByField = new Map(published.map(({ field, name }) => [field, name]));
  const taken = new Set<string>([...ownColumns, ...systemColumns]);
  for (const { name } of columns) {
    const known = nameByField.get(name);
    if (known !== undefined) taken.add(known.toLowerCase());
  }
  return columns.map(({ name: field, type }) => {
    const known = nameByField.get(field);
    if (known !== undefined) return { name: known, field, type };
    let name = field;
    for (let suffix = 2; taken.has(name.toLowerCase()); suffix += 1) name = `${field}_${suffix}`;
    taken.add(name.toLowerCase());
    return { name, field, type };
  });
}

export interface RowShape {
  readonly table: EntityTable;
  /** In the order of `table.columns`: under which name each is written. */
  readonly columns: readonly PublishedColumn[];
}

/**
 * A JSON object on a line, every column in it; of a deleted record those of the key alone. Half of a surrogate pair,
 * which has no UTF-8 form, is U+FFFD: many readers refuse a whole file for its escape.
 */
export function jsonlText({ table, columns }: RowShape): RecordFormat {
  const isKey = keyColumns({ table, columns });
  const writers = columns.map(({ name, type }) => columnWriter({ name, type }));
  return {
    head: '',
    text: ({ isDeleted, seq, changedAt, run, values, extra }) => {
      let line = '{';
      let index = 0;
      for (const write of writers) {
        if (!isDeleted || isKey[index] === true) line += write(values[index] ?? null);
        index += 1;
      }
      if (!isDeleted) line += `"_extra":${extra === null ? 'null' : onOneLine(extra)},`;
      const deletedAt = isDeleted ? `"${changedAt}"` : 'null';
      line += `"_seq":${seq},"_changed_at":"${changedAt}","_run_id":${JSON.stringify(run)},"_deleted":${isDeleted},"_deleted_at":${deletedAt}}\n`;
      return line.includes('\\ud') ? withoutHalves(line, '\ufffd') : line;
    },
  };
}

// Every escape, so that the second backslash of two begins none; a pair of halves before a half alone.
const escape = /\\(?:ud[89ab]..\\ud[c-f]..|ud[89a-f]..|.)/gi;

/** Puts `mark` in the place of each half of a pair in JSON text. */
export function withoutHalves(json: string, mark: string): string {
  return json.replace(escape, (found) => (found.length === 6 && /^\\ud[89a-f]/i.test(found) ? mark : found));
}

/** RFC 4180 with a heading: as `csvFormat` writes cells. */
export function csvText({ table, columns }: RowShape): RecordFormat {
  return csvLines({
    columns,
    isKey: keyColumns({ table, columns }),
    own: ownColumns.slice(1),
    ownCells: ({ isDeleted, seq, changedAt, run }) => [
      seq,
      changedAt,
      run,
      isDeleted,
      isDeleted ? changedAt : '',
    ],
  });
}

/** In the order of the columns: whether it belongs to the key. */
export function keyColumns({ table }: RowShape): readonly boolean[] {
  const key = new Set(table.key);
  return table.columns.map(({ name }) => key.has(name));
}

/** Characters that are written together: enough for few writes, and turned to bytes within milliseconds. */
const chunkChars = 256 * 1024;

const createNew = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_NOFOLLOW;

/** Creates a file of lines for its owner alone; it must not exist. */
export async function createTextFile(path: string, { head, text }: RecordFormat): Promise<RowFile> {
  const handle = await explained(path, async () => await open(path, createNew, 0o600));
  const hash = createHash('sha256');
  let held = head;
  let bytes = 0;
  const flush = async (): Promise<void> => {
    const chunk = Buffer.from(held);
    held = '';
    hash.update(chunk);
    for (let at = 0; at < chunk.byteLength;) {
      at += (await explained(path, async () => await handle.write(chunk, at))).bytesWritten;
    }
    bytes += chunk.byteLength;
  };
  return {
    write: async (records) => {
      for (const record of records) {
        held += text(record);
        if (held.length >= chunkChars) await flush();
      }
    },
    bytes: () => bytes + held.length,
    close: async () => {
      await flush();
      await explained(path, async () => {
        await handle.sync();
        await handle.close();
      });
      return { bytes, sha256: hash.digest('hex') };
    },
    remove: async () => {
      // Closed twice is no failure, and a file that was removed before is what was wanted.
      await handle.close().catch(() => undefined);
      await unlink(path).catch(() => undefined);
    },
  };
}
