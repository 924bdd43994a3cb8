import { closeSync, existsSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import type Database from 'better-sqlite3';
import { SyncError } from '../../core/errors.ts';
import { isJsonObject, memberOf, type JsonValue } from '../../core/json.ts';
import type { ConnectorName, RunId } from '../../core/names.ts';
import type { ColumnValue, EntityTable, FieldType } from '../../core/records.ts';
import { readJson, writeJson } from '../../core/json-text.ts';
import {
  inBatches,
  openReadTransaction,
  openStoredKeys,
  recordLength,
} from '../file-ledger/read-transaction.ts';
import { isJsonColumn } from '../decisions/stored-table.ts';
import type { KeyAndHash, KeyReader, RecordReader, StoredRecord } from '../record-reader.ts';
import { entityDirectory, listedColumns, type ListedFile, closedName, growingName } from './file-list.ts';
import { hasLine, keyTableName } from './key-table.ts';
import { hasCode } from '../../files/private-file.ts';

interface Place {
  readonly db: Database.Database;
  readonly directory: string;
  readonly connector: ConnectorName;
  readonly table: EntityTable;
}

/** Records as the newest line of each key, found in the files by the numbers that the ledger's table of keys holds. */
export function openJsonlRecords(directory: string, file: string): RecordReader {
  const { db, ...transaction } = openReadTransaction({ file, kind: 'jsonl' });
  return {
    ...transaction,
    changes: (connector, table, after) =>
      inBatches(readChanges({ db, directory, connector, table }, after), recordLength, file),
    record: async (connector, table, keyText) => {
      const place = { db, directory, connector, table };
      const seq = seqOfKey(place, keyText);
      if (seq === null) return null;
      const records = inBatches(readCurrent(place, [seq]), recordLength, file);
      for await (const [record] of records) return record ?? null;
      return null;
    },
  };
}

function* readChanges(place: Place, after: number): Generator<StoredRecord> {
  const seqs = place.db
    .prepare<[number], number>(
      `SELECT seq FROM ${keyTableName(place.connector, place.table.entity)} WHERE seq > ? AND ${hasLine} ORDER BY seq`,
    )
    .pluck();
  yield* readCurrent(place, seqs.iterate(after));
}

function seqOfKey({ db, connector, table }: Place, keyText: string): number | null {
  const seq = db
    .prepare<[string], number>(
      `SELECT seq FROM ${keyTableName(connector, table.entity)} WHERE key = ? AND ${hasLine}`,
    )
    .pluck();
  return seq.get(keyText) ?? null;
}

/** Numbers and lines go upwards both: one pass over each, and nothing is kept. */
function* readCurrent(place: Place, seqs: Iterable<number>): Generator<StoredRecord> {
  const directory = entityDirectory(place.directory, place.connector, place.table.entity);
  const files = listedFiles(place);
  let lines: Iterator<ChangeLine> | null = null;
  try {
    for (const seq of seqs) {
      lines ??= readLines(
        directory,
        files.filter(({ lastSeq }) => lastSeq >= seq),
      );
      let next = lines.next();
      while (next.done !== true && next.value.seq < seq) next = lines.next();
      const record =
        next.done === true || next.value.seq > seq ? null : parseLine(place.table, next.value.text());
      if (record === null) throw missing(directory, seq);
      yield record;
    }
  } finally {
    lines?.return?.();
  }
}

/** In the order of their lines' numbers: an entity has one writer at a time. */
function listedFiles({ db, connector, table }: Place): readonly ListedFile[] {
  return db
    .prepare<[string, string], ListedFile>(
      `SELECT ${listedColumns('NULL')}
       FROM _sync_files WHERE connector = ? AND entity = ? AND length > 0 ORDER BY first_seq`,
    )
    .all(connector, table.entity);
}

function missing(directory: string, seq: number): SyncError {
  return new SyncError(
    `The files in ${directory} should hold the line with _seq ${seq}, and do not. Restore them from a backup; without one, the next sync says how to read its records again.`,
    { code: 'SINK_FAILED', recovery: 'stop', context: { directory, seq } },
  );
}

/** The record that a change line holds; null for a text that is no such line. Numbers keep all their digits. */
function parseLine({ columns }: EntityTable, text: string): StoredRecord | null {
  const line = readJson(text);
  if (!isJsonObject(line)) return null;
  const { _op: op, _seq: seq, _changed_at: changedAt, _run_id: run, _extra: extra } = line;
  if (typeof seq !== 'number' || typeof changedAt !== 'string' || typeof run !== 'string') return null;
  return {
    isDeleted: op === 'delete',
    seq,
    changedAt,
    run: run as RunId,
    values: columns.map(({ name, type }) => columnValue(type, memberOf(line, name) ?? null)),
    extra: extra === undefined || extra === null ? null : writeJson(extra),
  };
}

function columnValue(type: FieldType, value: JsonValue): ColumnValue {
  if (value === null) return null;
  if (isJsonColumn(type)) return writeJson(value);
  if (typeof value === 'boolean') return Number(value);
  return typeof value === 'object' ? writeJson(value) : value;
}

export function openJsonlKeys(file: string): KeyReader {
  return openStoredKeys({ file, kind: 'jsonl' }, (db, connector, { entity }) =>
    db
      .prepare<[], KeyAndHash>(
        `SELECT key AS keyText, hash FROM ${keyTableName(connector, entity)} WHERE deleted_at IS NULL`,
      )
      .iterate(),
  );
}

const chunkBytes = 256 * 1024;
const newline = 10;
const seqMark = Buffer.from('"_seq":');

interface ChangeLine {
  readonly seq: number;
  readonly text: () => string;
}

/** The committed lines of files (by their numbers), in order, one at a time. Throws `SyncError` SINK_FAILED for a file that is gone or holds less. */
function* readLines(directory: string, files: readonly ListedFile[]): Generator<ChangeLine> {
  for (const file of files) yield* readFile(directory, file);
}

function* readFile(directory: string, file: ListedFile): Generator<ChangeLine> {
  const descriptor = open(directory, file);
  try {
    let rest = Buffer.alloc(0);
    for (let position = 0; position < file.length;) {
      const chunk = Buffer.allocUnsafe(Math.min(chunkBytes, file.length - position));
      const bytes = readSync(descriptor, chunk, 0, chunk.length, position);
      if (bytes === 0) throw damaged(directory, file, `it ends after ${position} of ${file.length} bytes`);
      position += bytes;
      const read = Buffer.concat([rest, chunk.subarray(0, bytes)]);
      let start = 0;
      for (let end = read.indexOf(newline, start); end >= 0; end = read.indexOf(newline, start)) {
        const line = read.subarray(start, end);
        yield { seq: seqOf(line, directory, file), text: () => line.toString('utf8') };
        start = end + 1;
      }
      rest = read.subarray(start);
    }
    if (rest.length > 0) throw damaged(directory, file, 'its last line has no end');
  } finally {
    closeSync(descriptor);
  }
}

/** A file that was growing when the ledger was read may have got its final name since. */
function open(directory: string, file: ListedFile): number {
  for (const name of [closedName(file), growingName(file), closedName(file)]) {
    const path = join(directory, name);
    if (existsSync(path)) {
      try {
        return openSync(path, 'r');
      } catch (error) {
        if (!hasCode(error, 'ENOENT')) throw error;
      }
    }
  }
  throw damaged(directory, file, 'it is not there');
}

/** From the end: only the time and the run stand behind it, and neither can look like it. */
function seqOf(line: Buffer, directory: string, file: ListedFile): number {
  const at = line.lastIndexOf(seqMark);
  const seq =
    at < 0 ? Number.NaN : Number.parseInt(line.toString('latin1', at + seqMark.length, at + 40), 10);
  if (Number.isSafeInteger(seq)) return seq;
  throw damaged(directory, file, 'a line of it has no number');
}

function damaged(directory: string, file: ListedFile, found: string): SyncError {
  const path = join(directory, closedName(file));
  return new SyncError(
    `${path} should hold ${file.length} bytes of committed lines, but ${found}. Restore it from a backup; without one, the next sync says how to read its records again.`,
    { code: 'SINK_FAILED', recovery: 'stop', context: { file: path } },
  );
}
