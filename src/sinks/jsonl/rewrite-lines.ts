import { readFileSync } from 'node:fs';
import { isJsonObject, memberOf, type JsonObject } from '../../core/json.ts';
import { readJson, writeJson } from '../../core/json-text.ts';
import { keyTextOf, type EntityTable } from '../../core/records.ts';
import type { ChangeLines, RewrittenLines } from '../ledger/driver.ts';
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
  { connector, table, line }: RewrittenLines,
  transact: Parameters<ChangeLines['rewrite']>[1],
): Promise<number> {
  const owner = { connector, entity: table.entity };
  let changed = 0;
  for (const file of changes.files.all(connector)) {
    if (file.entity !== table.entity || file.isClosed !== 1) continue;
    const { path } = findFile(entityDirectory(changes.directory, connector, file.entity), file);
    const lines = keptLines(readFileSync(path), table, line);
    changed += lines.changed;
    if (lines.changed === 0 || transact === null) continue;
    if (lines.kept.length === 0) {
      await transact((_tx) => Promise.resolve(changes.replace(owner, file, path, null)));
      continue;
    }
    const hash = writeRewritten(path, lines.kept);
    const length = lines.kept.reduce((sum, one) => sum + one.length, 0);
    const { lastSeq } = lines;
    await transact((_tx) => Promise.resolve(changes.replace(owner, file, path, { length, lastSeq, hash })));
  }
  return changed;
}

function keptLines(
  bytes: Buffer,
  { key, columns }: EntityTable,
  rewritten: RewrittenLines['line'],
): { readonly kept: readonly Buffer[]; readonly lastSeq: number; readonly changed: number } {
  const types = new Map(columns.map(({ name, type }) => [name, type]));
  const kept: Buffer[] = [];
  let changed = 0;
  let lastSeq = 0;
  let start = 0;
  for (let end = bytes.indexOf(newline); end >= 0; end = bytes.indexOf(newline, start)) {
    const line = bytes.subarray(start, end + 1);
    start = end + 1;
    const value = readJson(line.toString('utf8', 0, line.length - 1));
    if (!isJsonObject(value)) continue;
    const seq = Number(value['_seq']);
    const parts = key.map((name) => columnValue(types.get(name) ?? 'any', memberOf(value, name) ?? null));
    const after = rewritten(value, { keyText: keyTextOf(parts), seq });
    if (after !== value) changed += 1;
    if (after === null) continue;
    kept.push(after === value ? line : Buffer.from(lineText(after)));
    lastSeq = Math.max(lastSeq, seq);
  }
  return { kept, lastSeq, changed };
}

/** Its members in their order. */
function lineText(line: JsonObject): string {
  const members = Object.entries(line).map(([name, value]) => `${JSON.stringify(name)}:${writeJson(value)}`);
  return `{${members.join(',')}}\n`;
}
