import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { open, unlink } from 'node:fs/promises';
import { cellWriter, lineEnd, quotedText } from '../export/csv-format.ts';
import { columnWriter, onOneLine } from '../sinks/jsonl/line.ts';
import type { StoredRecord } from '../sinks/record-reader.ts';
import { explained } from './folder-files.ts';
import type { RowFile, RowFilesOptions } from './row-files.ts';

/** How rows become the text of a file. */
interface RowText {
  /** Before the first row; '' where nothing stands there. */
  readonly head: string;
  /** One row, with its line end. */
  readonly text: (record: StoredRecord) => string;
}

/** Behind the columns of the record, in every format. `_deleted_at` is an instant, or null. */
export const ownColumns = ['_extra', '_seq', '_changed_at', '_run_id', '_deleted', '_deleted_at'] as const;

type Shape = Pick<RowFilesOptions, 'table' | 'columns'>;

/**
 * A JSON object on a line, every column in it; of a deleted record those of the key alone. Half of a surrogate pair,
 * which has no UTF-8 form, is U+FFFD: many readers refuse a whole file for its escape.
 */
export function jsonlText({ table, columns }: Shape): RowText {
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
      return line.includes('\\ud') ? withoutHalves(line) : line;
    },
  };
}

// Every escape, so that the second backslash of two begins none; a pair of halves before a half alone.
const escape = /\\(?:ud[89ab]..\\ud[c-f]..|ud[89a-f]..|.)/gi;

function withoutHalves(json: string): string {
  return json.replace(escape, (found) =>
    found.length === 6 && /^\\ud[89a-f]/i.test(found) ? '\ufffd' : found,
  );
}

/** RFC 4180 with a heading: as `csvFormat` writes cells. */
export function csvText({ table, columns }: Shape): RowText {
  const isKey = keyColumns({ table, columns });
  const writers = columns.map((column) => cellWriter(column));
  return {
    head: [...columns.map(({ name }) => name), ...ownColumns].map(quotedText).join(',') + lineEnd,
    text: ({ isDeleted, seq, changedAt, run, values, extra }) => {
      let line = '';
      let index = 0;
      for (const write of writers) {
        const value = isDeleted && isKey[index] !== true ? null : (values[index] ?? null);
        line += value === null ? ',' : `${write(value)},`;
        index += 1;
      }
      const more = isDeleted || extra === null ? '' : quotedText(extra);
      return `${line}${more},${seq},${changedAt},${quotedText(run)},${isDeleted},${isDeleted ? changedAt : ''}${lineEnd}`;
    },
  };
}

/** In the order of the columns: whether it belongs to the key. */
export function keyColumns({ table }: Shape): readonly boolean[] {
  const key = new Set(table.key);
  return table.columns.map(({ name }) => key.has(name));
}

/** Characters that are written together: enough for few writes, and turned to bytes within milliseconds. */
const chunkChars = 256 * 1024;

const createNew = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_NOFOLLOW;

/** Creates a file of lines for its owner alone; it must not exist. */
export async function createTextFile(path: string, { head, text }: RowText): Promise<RowFile> {
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
