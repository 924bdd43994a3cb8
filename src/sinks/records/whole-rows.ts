import type { Column } from '../../core/records.ts';
import type { Tx } from '../../sql/database.ts';
import { quoted } from '../../sql/quoted.ts';
import { camelCase } from '../../sql/statement.ts';
import type { CopiedRecord, CopiedTable, CopiedVersion } from '../copies.ts';
import { movedNumber } from '../copies/facts.ts';
import { onePageOf } from '../copies/in-pages.ts';
import { columnValue } from './mark-rows.ts';
import { versionOwn } from './version-names.ts';

/** The sink's own columns that every database has, and their names in a copy. */
const own = {
  _row: 'row',
  _extra: 'extra',
  _first_seen_at: 'first_seen_at',
  _changed_at: 'changed_at',
  _run_id: 'run',
  _seq: 'seq',
  _hash: 'hash',
  _volatile_hash: 'volatile_hash',
  _deleted_at: 'deleted_at',
  _partition: 'owner',
} as const;

/** The same of rows with versions. */
const ownWithVersions = { ...own, _valid_from: 'valid_from', _valid_seq: 'valid_seq' } as const;

export type OwnColumn = keyof typeof ownWithVersions | keyof typeof versionOwn;
type Own = Readonly<Partial<Record<OwnColumn, string>>>;

// `as`: the objects have these names and no others.
const names = (of: Own): readonly OwnColumn[] => Object.keys(of) as OwnColumn[];
export const wholeColumns = names(own);
export const versionColumns = names(versionOwn);

export function wholeColumnsOf({ hasVersions }: Pick<CopiedTable, 'hasVersions'>): readonly OwnColumn[] {
  return hasVersions ? names(ownWithVersions) : wholeColumns;
}

interface Span {
  readonly after: number;
  readonly limit: number;
}

/** `RecordTables.readWhole`, of the table that statements call `name`. */
export async function readWhole(
  tx: Tx,
  name: string,
  { stored, hasVersions }: Pick<CopiedTable, 'stored' | 'hasVersions'>,
  span: Span,
): Promise<readonly CopiedRecord[]> {
  return await readPage(tx, name, hasVersions ? ownWithVersions : own, '_row', stored, span);
}

/** `RecordTables.readVersions`. `name`: of the table of versions. */
export async function readVersions(
  tx: Tx,
  name: string,
  { stored }: Pick<CopiedTable, 'stored'>,
  span: Span,
): Promise<readonly CopiedVersion[]> {
  return await readPage(tx, name, versionOwn, '_seq_to', stored, span);
}

async function readPage<Row>(
  tx: Tx,
  name: string,
  columns: Own,
  order: OwnColumn,
  stored: readonly Column[],
  span: Span,
): Promise<readonly Row[]> {
  const values = stored.map((column, index) => `${quoted(column.name)} AS c${index}`);
  const sql = `SELECT ${[...Object.entries(columns).map(([column, as]) => `${column} AS "${as}"`), ...values].join(', ')}
    FROM ${name} WHERE ${order} > :after ORDER BY ${order} LIMIT :limit`;
  const long = stored.flatMap(({ type }, index) => (isLong(type) ? [`c${index}`] : []));
  const page = onePageOf(sql, {
    names: [...Object.values(columns).map(quoted), ...stored.map((_, index) => `c${index}`)],
    long: ['extra', ...long].map((column) => `CAST(${column} AS TEXT)`),
    order: quoted(columns[order] ?? order),
  });
  const members = Object.values(columns).map(camelCase);
  const rows = await tx.rows<Readonly<Record<string, unknown>>>(page, { ...span });
  return rows.map((cells) => {
    const facts = Object.fromEntries(members.map((member) => [member, cells[member]]));
    // `as`: as the columns name them.
    return { ...facts, values: stored.map((_, index) => columnValue(cells[`c${index}`])) } as Row;
  });
}

function isLong(type: Column['type']): boolean {
  return type !== 'integer' && type !== 'number' && type !== 'boolean';
}

/** Those that are about to be stored in another form; `name` is not quoted. */
export async function removeRows(tx: Tx, name: string, rows: readonly CopiedRecord[]): Promise<void> {
  const numbers = rows.map(({ row }) => row);
  if (numbers.length === 0) return;
  await tx.run(`DELETE FROM ${quoted(name)} WHERE _row IN {numbers bigint}`, { numbers });
}

/** The same of closed versions. */
export async function removeVersions(
  tx: Tx,
  name: string,
  versions: readonly CopiedVersion[],
): Promise<void> {
  const numbers = versions.map(({ seqTo }) => seqTo);
  if (numbers.length === 0) return;
  await tx.run(`DELETE FROM ${quoted(name)} WHERE _seq_to IN {numbers bigint}`, { numbers });
}

type Cell = string | number | null;

/** In the order of `wholeColumnsOf`; `shift` is added to the number of the owner. */
export function wholeCells(
  record: CopiedRecord,
  { hasVersions }: Pick<CopiedTable, 'hasVersions'>,
  shift: number,
): readonly Cell[] {
  const { row, extra, firstSeenAt, changedAt, run, seq, hash, volatileHash, deletedAt } = record;
  const owner = movedNumber(record.owner, shift);
  const { validFrom = null, validSeq = null } = record;
  const cells = [row, extra, firstSeenAt, changedAt, run, seq, hash, volatileHash, deletedAt, owner];
  return hasVersions ? [...cells, validFrom, validSeq] : cells;
}

/** In the order of `versionColumns`. */
export function versionCells(version: CopiedVersion): readonly Cell[] {
  const { seqTo, row, seq, validFrom, validTo, run, deletedAt, hash, extra } = version;
  return [seqTo, row, seq, validFrom, validTo, run, deletedAt, hash, extra];
}
