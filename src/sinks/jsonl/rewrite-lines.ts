import { readFileSync } from 'node:fs';
import { isJsonObject, memberOf } from '../../core/json.ts';
import { readJson } from '../../core/json-text.ts';
import { keyTextOf, type EntityTable } from '../../core/records.ts';
import type { ChangeLines, PurgedLines } from '../ledger/driver.ts';
import type { ChangeFiles } from './change-files.ts';
import { entityDirectory } from './file-list.ts';
import { findFile } from './find-damage.ts';
import { writeRewritten } from './rewritten-file.ts';
import { columnValue } from './schema.ts';

const newline = 10;

/**
 * `ChangeLines.rewrite`. A file keeps its name and its place, so that the order of lines stays; readers that have it
 * open read the old one to its end.
 */
export async function rewriteLines(
  changes: ChangeFiles,
  { connector, table, isPurged }: PurgedLines,
  transact: Parameters<ChangeLines['rewrite']>[1],
): Promise<void> {
  const owner = { connector, entity: table.entity };
  for (const file of changes.files.all(connector)) {
    if (file.entity !== table.entity || file.isClosed !== 1) continue;
    const { path } = findFile(entityDirectory(changes.directory, connector, file.entity), file);
    const lines = keptLines(readFileSync(path), table, isPurged);
    if (lines === null) continue;
    if (lines.kept.length === 0) {
      await transact((_tx) => Promise.resolve(changes.replace(owner, file, path, null)));
      continue;
    }
    const hash = writeRewritten(path, lines.kept);
    const length = lines.kept.reduce((sum, line) => sum + line.length, 0);
    const { lastSeq } = lines;
    await transact((_tx) => Promise.resolve(changes.replace(owner, file, path, { length, lastSeq, hash })));
  }
}

/** Null where no line is purged. */
function keptLines(
  bytes: Buffer,
  { key, columns }: EntityTable,
  isPurged: PurgedLines['isPurged'],
): { readonly kept: readonly Buffer[]; readonly lastSeq: number } | null {
  const types = new Map(columns.map(({ name, type }) => [name, type]));
  const kept: Buffer[] = [];
  let isAnyPurged = false;
  let lastSeq = 0;
  let start = 0;
  for (let end = bytes.indexOf(newline); end >= 0; end = bytes.indexOf(newline, start)) {
    const line = bytes.subarray(start, end + 1);
    start = end + 1;
    const value = readJson(line.toString('utf8', 0, line.length - 1));
    if (!isJsonObject(value)) continue;
    const seq = Number(value['_seq']);
    const parts = key.map((name) => columnValue(types.get(name) ?? 'any', memberOf(value, name) ?? null));
    if (isPurged(keyTextOf(parts), seq)) {
      isAnyPurged = true;
    } else {
      kept.push(line);
      lastSeq = Math.max(lastSeq, seq);
    }
  }
  return isAnyPurged ? { kept, lastSeq } : null;
}
