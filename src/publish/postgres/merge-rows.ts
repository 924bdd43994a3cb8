import { quoted } from '../../sql/quoted.ts';
import type { PostgresTx as Tx } from '../../sql/postgres/session.ts';
import type { TablePlan } from '../tables/plan-table.ts';
import { keepNewest, sameKey } from '../tables/target-tables.ts';
import type { PlannedEntity } from '../target.ts';
import { markColumns, namesOf, type PostgresTables } from './postgres-tables.ts';

/** The changes of an entity, in a table of the transaction. */
export interface Staged {
  readonly plan: TablePlan;
  readonly entity: PlannedEntity;
  /** As statements name the table with the changes. */
  readonly stage: string;
  readonly rows: number;
}

/** An entry of an index has room for a third of a page; longer texts of keys are compared by their hashes. */
const mostKeyBytes = 2_000;

/**
 * Brings staged changes into the table of their entity, which has its columns already: the newest `_seq` of each key
 * wins. Counts its rows. Throws `SyncError` TARGET_INCOMPATIBLE where the table takes other rows than it is given.
 */
export async function mergeRows(
  { db: tx, at, sqlName, incompatible }: PostgresTables,
  deletes: 'mark' | 'remove',
  { plan, entity, stage }: Staged,
): Promise<void> {
  const table = sqlName(entity);
  const { connector, entity: name } = entity;
  const isFresh = plan.kind === 'make' || plan.kind === 'replace';
  await keepNewest(tx, stage, entity.key);
  const hasLongKeys = plan.hasLongKeys || (await isAnyKeyLong(tx, stage, entity));
  const texts = textKeys(entity);
  const ofText = hasLongKeys ? hashedText : plainText;
  const unique = entity.key.map((one) => (texts.includes(one) ? ofText(quoted(one)) : quoted(one)));
  if (!isFresh && hasLongKeys && !plan.hasLongKeys) await dropPrimaryKey(tx, table);
  if (isFresh || (hasLongKeys && !plan.hasLongKeys)) {
    tx.put(
      hasLongKeys
        ? `CREATE UNIQUE INDEX ON ${table} (${unique.map((part) => `(${part})`).join(', ')})`
        : `ALTER TABLE ${table} ADD PRIMARY KEY (${entity.key.map(quoted).join(', ')})`,
    );
  }
  const same = sameKey(entity.key);
  const change = await countChange(tx, `${stage} AS s LEFT JOIN ${table} AS t ON ${same}`);
  const key = entity.key.map(quoted);
  const conflict = unique.map((part) => (part.startsWith('"') ? part : `(${part})`)).join(', ');
  /** Gives how many rows the table took. */
  const upsert = async (columns: readonly string[], which: string): Promise<number> => {
    const set = columns.filter((column) => !key.includes(column));
    return await tx.run(
      `INSERT INTO ${table} AS t (${columns.join(', ')}) SELECT ${columns.join(', ')} FROM ${stage} WHERE ${which}
       ON CONFLICT (${conflict}) DO UPDATE SET ${set.map((column) => `${column} = excluded.${column}`).join(', ')} WHERE t._seq < excluded._seq`,
    );
  };
  const upserted = await upsert(namesOf(entity), 'NOT _deleted');
  const deleted =
    deletes === 'mark'
      ? await upsert([...key, ...markColumns], '_deleted')
      : await tx.run(
          `DELETE FROM ${table} AS t USING ${stage} AS s WHERE s._deleted AND t._seq < s._seq AND ${same}`,
        );
  const expected = change.upserts + (deletes === 'mark' ? change.deletes : change.deletesOfKnown);
  if (upserted + deleted !== expected) {
    throw incompatible(
      `its table ${plan.name} took ${upserted + deleted} of ${expected} changed rows`,
      'Remove the trigger or rule that keeps rows out of it, then publish again.',
    );
  }
  await tx.run(
    `UPDATE ${at}_published_tables SET has_long_keys = :hasLongKeys, live_rows = live_rows + :live,
       deleted_rows = deleted_rows + :deleted WHERE connector = :connector AND entity = :name`,
    {
      connector,
      name,
      hasLongKeys,
      live: change.upserts - change.liveBefore,
      deleted: (deletes === 'mark' ? change.deletes : 0) - change.deletedBefore,
    },
  );
}

async function isAnyKeyLong(tx: Tx, stage: string, entity: PlannedEntity): Promise<boolean> {
  const texts = textKeys(entity);
  if (texts.length === 0) return false;
  const bytes = texts.map((name) => `octet_length(${quoted(name)})`).join(' + ');
  return (await tx.rows(`SELECT 1 FROM ${stage} WHERE ${bytes} > ${mostKeyBytes} LIMIT 1`)).length > 0;
}

function textKeys({ columns, key }: PlannedEntity): readonly string[] {
  return key.filter((name) => columns.some((column) => column.name === name && column.type === 'string'));
}

/**
 * With the collation of the primary key: an index that was added by hand, for which more keys are equal, then reports
 * another conflict.
 */
function plainText(name: string): string {
  return `${name} COLLATE "C"`;
}

/**
 * An index wants functions that depend on nothing: `convert_to` would not do. A conflict is found by the same
 * expressions.
 */
function hashedText(name: string): string {
  return `sha256(decode(replace(${name}, E'\\\\', E'\\\\\\\\'), 'escape'))`;
}

async function dropPrimaryKey(tx: Tx, table: string): Promise<void> {
  const found = await tx.first<{ readonly name: string }>(
    `SELECT conname::text AS name FROM pg_catalog.pg_constraint WHERE conrelid = to_regclass(:table) AND contype = 'p'`,
    { table },
  );
  if (found !== undefined) tx.put(`ALTER TABLE ${table} DROP CONSTRAINT ${quoted(found.name)}`);
}

interface Change {
  /** Rows that the table does not have, or has in an older state. */
  readonly upserts: number;
  readonly deletes: number;
  /** Of the deleted ones, those that the table has. */
  readonly deletesOfKnown: number;
  /** Of all of these, those that the table has, and has as deleted. */
  readonly liveBefore: number;
  readonly deletedBefore: number;
}

/** What `mergeRows` will change. `joined`: the rows of the stage, `s`, with those that the table has, `t`. */
async function countChange(tx: Tx, joined: string): Promise<Change> {
  const change = await tx.first<Change>(
    `SELECT count(*) FILTER (WHERE NOT s._deleted) AS upserts, count(*) FILTER (WHERE s._deleted) AS deletes,
       count(*) FILTER (WHERE s._deleted AND t._seq IS NOT NULL) AS deletes_of_known,
       count(*) FILTER (WHERE NOT t._deleted) AS live_before, count(*) FILTER (WHERE t._deleted) AS deleted_before
     FROM ${joined} WHERE t._seq IS NULL OR t._seq < s._seq`,
  );
  return change ?? { upserts: 0, deletes: 0, deletesOfKnown: 0, liveBefore: 0, deletedBefore: 0 };
}
