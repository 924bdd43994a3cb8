import type { JsonValue } from '../../core/json.ts';
import { checkCopied } from '../../sinks/registry.ts';
import type { OfferedView } from '../../sinks/records/offered-views.ts';
import type { LedgerReader } from '../../sinks/sink-access.ts';
import { jsonOf, mostAnswerChars, readState } from '../answer.ts';

/** Characters of a value. */
export const mostOfCell = 500;
export const mostColumns = 100;
/** Time limit of a query, including the copy of its data. */
export const deadlineMs = 30_000;
/** Largest copy of the data that a query reads in SQLite. Making it briefly takes twice as much space. */
export const mostCopyBytes = 2 * 1024 ** 3;

/** States of the views. Throws COPY_UNFINISHED. */
export async function readStates(views: readonly OfferedView[], history: LedgerReader) {
  const read = [];
  for (const { name, label, connector, owner, entity } of views) {
    await checkCopied(history, connector);
    const target = { connector: { name: connector }, entity: { name: owner }, table: { entity } };
    read.push({ view: name, entity: label, state: await readState(history, { target }) });
  }
  return read;
}

/** As many of the rows as fit into an answer, and whether there are more. `limit`: at most so many. */
export function fittingRows(rows: Iterable<readonly unknown[]>, limit: number) {
  const found: JsonValue[][] = [];
  let chars = 0;
  for (const cells of rows) {
    if (found.length === limit) return { rows: found, hasMore: true };
    const row = cells.map(cellOf);
    chars += row.reduce<number>((sum, cell) => sum + jsonOf(cell).length + 1, 2);
    if (chars > mostAnswerChars && found.length > 0) return { rows: found, hasMore: true };
    found.push(row);
  }
  return { rows: found, hasMore: false };
}

/** Integers as numbers as far as those are exact. */
function cellOf(value: unknown): JsonValue {
  if (value === null || typeof value === 'boolean') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
  if (typeof value === 'bigint') {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : value.toString();
  }
  if (typeof value === 'string') return cutText(value);
  const bytes = value as Buffer;
  return cutText(`x'${bytes.subarray(0, mostOfCell).toString('hex')}${bytes.length > mostOfCell ? '' : "'"}`);
}

function cutText(text: string): string {
  return text.length <= mostOfCell
    ? text
    : `${text.slice(0, mostOfCell)} [cut after ${mostOfCell} characters]`;
}
