import { SyncError } from '../../../core/errors.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { cellOf } from '../../../sql/database.ts';
import { quoted } from '../../../sql/quoted.ts';
import type { EntityMasking } from '../../masks.ts';
import { readRows, rowsTable, type ReplacedRow } from '../../records/whole-rows.ts';
import type { RunPlan } from '../../sink.ts';
import { wholeTables, type WholeTable } from '../tables.ts';
import type { PurgingTx } from '../purges/find-below.ts';
import { keyReader, rewriteRows } from './mask-rows.ts';
import { rowsAtOnce } from './rewriting.ts';

/**
 * Gives rows the keys that their records have under masks that this run is the first to use. Else no read would meet
 * them: each record would have two rows, and the first of them look deleted. What else they hold changes when they are
 * read. Throws `SyncError` SINK_INCOMPATIBLE where that cannot be: a hash is of another key or of a mask that is gone,
 * or notes of purged records go by keys that change.
 */
export async function maskKeys(
  purging: PurgingTx,
  { tables, maskings = [] }: Pick<RunPlan, 'tables' | 'maskings'>,
  changed: ReadonlySet<EntityName>,
): Promise<void> {
  if (changed.size === 0) return;
  const masked = new Map(maskings.map((one) => [one.entity, one]));
  const planned = new Set(tables.map(({ entity }) => entity));
  for (const table of await wholeTables(purging.tx, purging.connector)) {
    if (!planned.has(table.entity) || table.rows === 0) continue;
    const masking = masked.get(table.entity);
    // Whose elements a table had whose mask is gone is not known.
    if (masking !== undefined && !changed.has(masking.of)) continue;
    const hashed = hashesOf(table, masking);
    await refuseOtherHashes(purging, table, hashed);
    if (masking !== undefined && hashed.size > 0) await rewriteKeys(purging, table, masking);
  }
}

/** Parts of the key, and how the hashes begin that the mask makes of them. */
function hashesOf({ key }: WholeTable, masking: EntityMasking | undefined): ReadonlyMap<string, string> {
  return new Map(
    key.flatMap((name) => {
      const after = masking?.row({ [name]: probe })[name];
      return typeof after === 'string' && after !== probe
        ? [[name, after.slice(0, -hexDigits)] as const]
        : [];
    }),
  );
}

const probe = 'connector-sync key probe';
const hexDigits = 64;
/** In LIKE, where each _ stands for one character. */
const hashPattern = `hmac-${'_'.repeat(8)}-${'_'.repeat(hexDigits)}`;

async function refuseOtherHashes(
  { tx, records, connector }: PurgingTx,
  { entity, key, stored }: WholeTable,
  hashes: ReadonlyMap<string, string>,
): Promise<void> {
  const texts = key.filter((name) =>
    stored.some((column) => column.name === name && column.type === 'string'),
  );
  for (const name of texts) {
    const own = `${hashes.get(name) ?? ''}%`;
    const sql = `SELECT 1 FROM ${quoted(records.tableName(connector, entity))}
      WHERE ${quoted(name)} LIKE :hash ${hashes.has(name) ? `AND ${quoted(name)} NOT LIKE :own` : ''} LIMIT 1`;
    const values = hashes.has(name) ? { hash: hashPattern, own } : { hash: hashPattern };
    if ((await cellOf<number>(tx, sql, values)) === undefined) continue;
    throw keysDiffer(
      connector,
      entity,
      `${name} is stored as hashes that this config does not make: of another mask.key, or of a mask that is gone. No record would be met by its row, and a hash cannot be made from a hash. Put the key or the mask back, or drop what is stored and sync again: connector-sync reset ${connector}/${entity} --data --yes`,
    );
  }
}

async function rewriteKeys(purging: PurgingTx, table: WholeTable, masking: EntityMasking): Promise<void> {
  const { tx, records, connector } = purging;
  const { entity, stored, key } = table;
  const keyOf = keyReader(table);
  const places = key.map((name) => ({ name, at: stored.findIndex((column) => column.name === name) }));
  for (let from: number | undefined = 0; from !== undefined;) {
    const whole = rowsTable(records, connector, table);
    const rows = await readRows(tx, whole, { after: from, limit: rowsAtOnce });
    const changed = rows.flatMap((was): ReplacedRow[] => {
      const members = Object.fromEntries(places.map(({ name, at }) => [name, was.values[at] ?? null]));
      const after = masking.row(members);
      const values = was.values.map((value, index) => {
        const name = places.find(({ at }) => at === index)?.name;
        const masked = name === undefined ? value : after[name];
        return typeof masked === 'string' ? masked : value;
      });
      return keyOf({ values }) === keyOf(was) ? [] : [{ was, now: { values } }];
    });
    if (changed.length > 0) {
      await refusePurged(purging, entity);
      await rewriteRows(purging, table, changed);
    }
    from = rows.at(-1)?.number;
  }
}

async function refusePurged({ tx, connector }: PurgingTx, entity: EntityName): Promise<void> {
  const sql = `SELECT count(*) FROM _sync_purged
    WHERE connector = :connector AND entity = :entity AND can_return = 0`;
  const count = (await cellOf<number>(tx, sql, { connector, entity })) ?? 0;
  if (count === 0) return;
  throw keysDiffer(
    connector,
    entity,
    `${count} of its records were purged, and notes of their keys keep them away. Under a mask of the key they would be stored again. Leave the key as it was stored`,
  );
}

function keysDiffer(connector: ConnectorName, entity: EntityName, found: string): SyncError {
  return new SyncError(`The mask of ${connector}/${entity} does not fit what is stored: ${found}`, {
    code: 'SINK_INCOMPATIBLE',
    recovery: 'stop',
    context: { connector, entity },
  });
}
