import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { EntityTable } from '../../../core/records.ts';
import type { PurgedKeys } from '../../purges.ts';
import type { Tx } from '../../../sql/database.ts';
import { quoted } from '../../../sql/quoted.ts';
import { textHash } from '../../../sql/text-hash.ts';
import { keyedColumns, keyedRow, type KeyedCells } from '../../records/mark-rows.ts';
import type { RecordTables } from '../driver.ts';
import type { KeyedRow, RowOwner } from '../record-table.ts';
import { storedTable } from '../tables.ts';
import { readJoinsBelow, type JoinBelow } from './joins-below.ts';

/** What a purge works on. */
export interface PurgingTx {
  readonly tx: Tx;
  readonly records: RecordTables;
  readonly connector: ConnectorName;
}

/** Of one entity: what goes. */
export interface FoundOf {
  readonly entity: EntityName;
  /** Null: nothing of it was ever stored. */
  readonly table: EntityTable | null;
  readonly rows: Map<number, KeyedRow>;
  /** Of the rows, and of records that were asked for and are not stored. */
  readonly keyTexts: Set<string>;
  /** Listings of the entity that purged records have led to. */
  readonly listings: FoundListing[];
  /** Rows that another listing shows too: they stay, and belong to that. */
  readonly moved: RowOwner[];
  /** As `PurgedKeys`. */
  readonly isRefusedMeant: PurgedKeys['isRefusedMeant'];
}

export interface FoundListing {
  readonly id: number;
  readonly params: string;
}

export interface FoundRecords {
  readonly of: ReadonlyMap<EntityName, FoundOf>;
  readonly joins: readonly JoinBelow[];
}

/**
 * The records with these keys and all that belongs to them: elements that were made of them, listings that they have
 * led to with the rows of these, at any depth.
 */
export async function findBelow(
  purging: PurgingTx,
  { entity, keyTexts, isRefusedMeant }: PurgedKeys,
): Promise<FoundRecords> {
  const { tx, records, connector } = purging;
  const joins = await readJoinsBelow(tx, connector);
  const found = new Map<EntityName, FoundOf>();
  const foundOf = async (name: EntityName): Promise<FoundOf> => {
    const known = found.get(name);
    if (known !== undefined) return known;
    const table = (await storedTable(tx, { connector, entity: name })) ?? null;
    const made = {
      entity: name,
      table,
      rows: new Map(),
      keyTexts: new Set<string>(),
      listings: [],
      moved: [],
      isRefusedMeant: name === entity ? isRefusedMeant : undefined,
    };
    found.set(name, made);
    return made;
  };
  const root = await foundOf(entity);
  for (const keyText of keyTexts) root.keyTexts.add(keyText);
  const { table } = root;
  const stored =
    table === null
      ? new Map<string, KeyedRow>()
      : await records.open({ connector, table, stored: table.columns }).rowsOf(tx, keyTexts);
  for (const row of stored.values()) root.rows.set(row.row, row);
  const removed = new Set<number>();
  let open: readonly Level[] = [{ entity, keyTexts, rows: [...root.rows.keys()] }];
  while (open.length > 0) {
    const below = new Map<EntityName, KeyedRow[]>();
    for (const level of open) {
      const listings = await listingsBelow(purging, level, removed);
      for (const { entity: name, ...listing } of listings) (await foundOf(name)).listings.push(listing);
      const owners = new Map<EntityName, number[]>();
      for (const { entity: name, id } of listings) owners.set(name, [...(owners.get(name) ?? []), id]);
      for (const [name, ids] of owners) {
        const one = await foundOf(name);
        if (one.table === null) continue;
        below.set(name, [...(below.get(name) ?? []), ...(await rowsOwned(purging, one.table, ids))]);
      }
      for (const join of joins.filter(({ parent }) => parent === level.entity)) {
        const [child, parent] = [await foundOf(join.entity), await foundOf(join.parent)];
        if (child.table === null || parent.table === null) continue;
        const joined = await rowsJoined(purging, join, {
          child: child.table,
          parent: parent.table,
          rows: level.rows,
        });
        below.set(join.entity, [...(below.get(join.entity) ?? []), ...joined]);
      }
    }
    const next: Level[] = [];
    for (const [name, rows] of below) {
      const one = await foundOf(name);
      const fresh = [...new Map(rows.map((row) => [row.row, row])).values()].filter(
        ({ row }) => !one.rows.has(row),
      );
      const elsewhere = await otherOwners(purging, name, fresh, removed);
      const going = fresh.filter(({ row }) => !elsewhere.has(row));
      for (const [row, owner] of elsewhere) one.moved.push({ row, owner });
      for (const row of going) {
        one.rows.set(row.row, row);
        one.keyTexts.add(row.keyText);
      }
      if (going.length > 0) {
        next.push({
          entity: name,
          keyTexts: going.map(({ keyText }) => keyText),
          rows: going.map(({ row }) => row),
        });
      }
    }
    open = next;
  }
  return { of: found, joins };
}

interface Level {
  readonly entity: EntityName;
  readonly keyTexts: readonly string[];
  readonly rows: readonly number[];
}

/** In any state, of backfills too, with listings inside of them. `removed`: all that were found so far. */
async function listingsBelow(
  { tx, connector }: PurgingTx,
  { entity, keyTexts }: Level,
  removed: Set<number>,
): Promise<readonly (FoundListing & { readonly entity: EntityName })[]> {
  type Row = FoundListing & { readonly entity: EntityName };
  const all: Row[] = [];
  let found = await tx.rows<Row>(
    `SELECT id, entity, params FROM _sync_partitions {index _sync_partitions_parent}
     WHERE connector = :connector AND parent_entity = :entity AND parent_hash IN {keyHashes bytea}`,
    { connector, entity, keyHashes: keyTexts.map(textHash) },
  );
  for (;;) {
    const fresh = found.filter(({ id }) => !removed.has(id));
    if (fresh.length === 0) return all;
    all.push(...fresh);
    const ids = fresh.map(({ id }) => id);
    for (const id of ids) removed.add(id);
    found = await tx.rows<Row>(
      `SELECT id, entity, params FROM _sync_partitions WHERE connector = :connector AND tree IN {ids bigint}
       UNION SELECT id, entity, params FROM _sync_partitions
       WHERE connector = :connector AND backfill <> '' AND base IN {ids bigint}`,
      { connector, ids },
    );
  }
}

async function rowsOwned(
  { tx, records, connector }: PurgingTx,
  table: EntityTable,
  owners: readonly number[],
): Promise<readonly KeyedRow[]> {
  const name = quoted(records.tableName(connector, table.entity));
  const sql = `SELECT ${keyedColumns(table)} FROM ${name} AS t WHERE t._partition IN {owners bigint}`;
  return (await tx.rows<KeyedCells>(sql, { owners })).map((cells) => keyedRow(cells, table));
}

async function rowsJoined(
  { tx, records, connector }: PurgingTx,
  { columns }: JoinBelow,
  {
    child,
    parent,
    rows,
  }: { readonly child: EntityTable; readonly parent: EntityTable; readonly rows: readonly number[] },
): Promise<readonly KeyedRow[]> {
  if (rows.length === 0) return [];
  const [name, above] = [child, parent].map(({ entity }) => quoted(records.tableName(connector, entity)));
  const on = columns.map((column, index) => `t.${quoted(column)} = p.${quoted(parent.key[index] ?? '')}`);
  const sql = `SELECT ${keyedColumns(child)} FROM ${above ?? ''} AS p JOIN ${name ?? ''} AS t ON ${on.join(' AND ')}
     WHERE p._row IN {rows bigint}`;
  return (await tx.rows<KeyedCells>(sql, { rows })).map((cells) => keyedRow(cells, child));
}

/** Rows that a listing shows which stays, by row number: the listing. */
async function otherOwners(
  { tx, connector }: PurgingTx,
  entity: EntityName,
  rows: readonly KeyedRow[],
  removed: ReadonlySet<number>,
): Promise<ReadonlyMap<number, number>> {
  if (rows.length === 0) return new Map();
  const places = await tx.rows<RowOwner>(
    `SELECT row, partition AS owner FROM _sync_also
     WHERE connector = :connector AND entity = :entity AND row IN {rows bigint} ORDER BY partition DESC`,
    { connector, entity, rows: rows.map(({ row }) => row) },
  );
  const staying = places.filter(({ owner }) => !removed.has(owner));
  const owned = new Set(
    rows.flatMap(({ row, owner }) => (owner !== null && removed.has(owner) ? [row] : [])),
  );
  return new Map(staying.flatMap(({ row, owner }) => (owned.has(row) ? [[row, owner]] : [])));
}
