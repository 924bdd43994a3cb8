import { grouped } from '../../../core/grouped.ts';
import type { ConnectorName, EntityName, OfEntities } from '../../../core/names.ts';
import type { Column, FieldDrift } from '../../../core/records.ts';
import { type Tx, quoted } from '../../../sql/database.ts';
import {
  chooseColumns,
  chooseWider,
  knownDrift,
  newsOf,
  rememberDrift,
  widerTable,
  type NotedDrift,
} from '../../decisions/drift-columns.ts';
import { versionsName } from '../../records/own-names.ts';
import { fittingColumns } from '../../records/record-tables.ts';
import type { RecordTables, TablePlace } from '../driver.ts';
import type { Commit, InLease, Ledger } from '../ledger.ts';
import { addEvolved, knownTable, knownTables, renewTable } from '../tables.ts';

/** Drift noted for these entities, by field, kind and first meeting. Entities without drift are left out. */
async function driftOf(tx: Tx, of: OfEntities): Promise<ReadonlyMap<EntityName, readonly NotedDrift[]>> {
  const rows = await tx.rows<EntityDrift>(
    `SELECT entity, field, kind, type, is_refused FROM _sync_drift
     WHERE connector = :connector AND entity IN {entities text} ORDER BY entity, field, kind, first_seen_at, type`,
    of,
  );
  return grouped(rows, ({ entity }) => entity);
}

/** Notes the drift of a commit's pages. Accepted once, a field is never a refused one again. */
export async function noteDrift(commit: Commit, drift: readonly FieldDrift[]): Promise<void> {
  const { connector, current, tx, stamp } = commit;
  const unread = new Set(drift.map(({ entity }) => entity).filter((entity) => !current.drift.has(entity)));
  if (unread.size > 0) {
    const stored = await driftOf(tx, { connector, entities: [...unread] });
    for (const entity of unread) current.drift.set(entity, rememberDrift(stored.get(entity) ?? []));
  }
  const news = drift.flatMap((met) => {
    const { entity } = met;
    const memory = current.drift.get(entity);
    const one = memory === undefined ? null : newsOf(memory, met);
    return one === null ? [] : [{ ...one, entity }];
  });
  if (news.length === 0) return;
  const added = new Map(
    news.map((one) => [JSON.stringify([one.entity, one.field, one.kind, one.type]), one]),
  );
  await tx.run(
    `INSERT INTO _sync_drift AS d (connector, entity, field, kind, type, first_seen_at, first_run, is_refused)
     SELECT CAST(:connector AS text), v.entity, v.field, v.kind, v.type, CAST(:now AS text), CAST(:run AS text), v.is_refused
     FROM {v: entity text, field text, kind text, type text, is_refused integer, n} ORDER BY v.n
     ON CONFLICT (connector, entity, field, kind, type)
       DO UPDATE SET is_refused = CASE WHEN d.is_refused = 0 THEN 0 ELSE excluded.is_refused END`,
    { connector, now: stamp.now, run: stamp.run, v: [...added.values()] },
  );
}

type EntityDrift = NotedDrift & { readonly entity: EntityName };

/** Fields that the definition does not declare, values that do not fit the column it declares, and columns for them. */
export function ledgerDrift({ db }: Pick<Ledger, 'db'>, inLease: InLease) {
  return {
    /**
     * Known undeclared fields of these entities, and the columns that were added for them. The answer contains every
     * entity.
     */
    known: async (connector: ConnectorName, entities: readonly EntityName[]) =>
      await db.read(async (tx) => {
        const drift = await driftOf(tx, { connector, entities });
        const tables = await knownTables(tx, { connector, entities });
        return new Map(
          entities.map((entity) => {
            const { evolved = [], asOf = null } = tables.get(entity) ?? {};
            return [entity, knownDrift(drift.get(entity) ?? [], evolved, asOf !== null)];
          }),
        );
      }),
    evolve: inLease(evolve, { isLong: true }),
  };
}

/**
 * Adds typed columns for undeclared fields whose values all fit one, and moves the values over. Gives them. Last before
 * the run is finished: no record is prepared for them.
 */
async function evolve({ ledger: { records }, connector, tx, stamp }: Commit, entity: EntityName) {
  const of = { connector, entity };
  const known = await knownTable(tx, of);
  if (known === undefined) return [];
  const { key, stored, versions } = known;
  const drift = (await driftOf(tx, { connector, entities: [entity] })).get(entity) ?? [];
  const place: TablePlace = { connector, table: { entity, key, columns: stored }, stored, versions };
  const wider = await exactColumns(tx, records, place, chooseWider(drift, known));
  const wanted = chooseColumns(drift, known);
  const added =
    wanted.length === 0 ? [] : await fittingColumns(tx, quoted(records.tableName(connector, entity)), wanted);
  const columns = [...added, ...wider.map((column): Column => ({ ...column, type: 'number' }))];
  if (columns.length === 0) return [];
  if (wider.length > 0) {
    await records.retype(tx, place, wider, 'number');
    await renewTable(tx, of);
  }
  const table = widerTable(entity, await addEvolved(tx, of, known, columns));
  await records.ensure(tx, { ...place, table });
  await records.fill(tx, { ...place, table }, columns, stamp);
  await records.renewViews(tx, connector);
  return columns;
}

/** Integer columns whose values are all exact as doubles, in versions too. */
async function exactColumns(
  tx: Tx,
  records: RecordTables,
  { connector, table, versions }: TablePlace,
  columns: readonly Column[],
): Promise<readonly Column[]> {
  const rows = records.tableName(connector, table.entity);
  const exact: Column[] = [];
  for (const column of columns) {
    const inexact = [rows, ...(versions === undefined ? [] : [versionsName(rows)])].map(
      (name) =>
        `SELECT 1 AS found FROM ${quoted(name)} WHERE ${quoted(column.name)} NOT BETWEEN -9007199254740992 AND 9007199254740992`,
    );
    if ((await tx.first(`${inexact.join(' UNION ALL ')} LIMIT 1`)) === undefined) exact.push(column);
  }
  return exact;
}
