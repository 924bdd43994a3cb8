import type { EntityName, OfEntities } from '../../../core/names.ts';
import type { FieldDrift } from '../../../core/records.ts';
import {
  newsOf,
  rememberDrift,
  type DriftMemory,
  type NotedDrift,
  chooseColumns,
  knownDrift,
  widerTable,
} from '../../decisions/drift-columns.ts';
import type { Commit, CurrentRun, InLease, Ledger } from '../ledger.ts';
import { grouped } from '../../../core/grouped.ts';
import type { Tx } from '../../../sql/database.ts';
import type { Drift } from '../../drift.ts';
import { keptVersions } from '../versions/versions.ts';
import { addEvolved, knownTable, knownTables } from '../tables.ts';
import { knownOrMade } from '../../../core/known-or-made.ts';

/** What is noted of these entities, by field, kind and first meeting. Entities without drift are left out. */
async function driftOf(tx: Tx, of: OfEntities): Promise<ReadonlyMap<EntityName, readonly NotedDrift[]>> {
  const rows = await tx.rows<EntityDrift>(
    `SELECT entity, field, kind, type, is_refused FROM _sync_drift
     WHERE connector = :connector AND entity IN {entities text} ORDER BY entity, field, kind, first_seen_at, type`,
    of,
  );
  return grouped(rows, ({ entity }) => entity);
}

/**
 * What a run has read of `_sync_drift`, by entity: no more than was committed then, so that it is right whether a
 * transaction commits or not. Pages with nothing new cost no statement.
 */
const notedByRun = new WeakMap<CurrentRun, Map<EntityName, readonly NotedDrift[]>>();

/** Notes the drift of a commit's pages. Accepted once, a field is never a refused one again. */
export async function noteDrift(commit: Commit, drift: readonly FieldDrift[]): Promise<void> {
  const { held, current, tx, stamp } = commit;
  const read = knownOrMade(notedByRun, current, () => new Map<EntityName, readonly NotedDrift[]>());
  const known = newsIn(drift, (entity) => read.get(entity) ?? []);
  const unsure = [...new Set(known.map(({ entity }) => entity))];
  if (unsure.length === 0) return;
  const stored = await driftOf(tx, { connector: held.connector, entities: unsure });
  for (const entity of unsure) read.set(entity, stored.get(entity) ?? []);
  const ofUnsure = drift.filter(({ entity }) => unsure.includes(entity));
  const added = newest(newsIn(ofUnsure, (entity) => stored.get(entity) ?? []));
  if (added.length === 0) return;
  await tx.run(
    `INSERT INTO _sync_drift AS d (connector, entity, field, kind, type, first_seen_at, first_run, is_refused)
     SELECT CAST(:connector AS text), v.entity, v.field, v.kind, v.type, CAST(:now AS text), CAST(:run AS text), v.is_refused
     FROM {v: entity text, field text, kind text, type text, is_refused integer, n} ORDER BY v.n
     ON CONFLICT (connector, entity, field, kind, type)
       DO UPDATE SET is_refused = CASE WHEN d.is_refused = 0 THEN 0 ELSE excluded.is_refused END`,
    { connector: held.connector, now: stamp.now, run: stamp.run, v: added },
  );
}

type EntityDrift = NotedDrift & { readonly entity: EntityName };

/** What is not among what is known of each entity. */
function newsIn(
  drift: readonly FieldDrift[],
  knownOf: (entity: EntityName) => readonly NotedDrift[],
): readonly EntityDrift[] {
  const memories = new Map<EntityName, DriftMemory>();
  return drift.flatMap((met) => {
    const { entity } = met;
    const memory = knownOrMade(memories, entity, () => rememberDrift(knownOf(entity)));
    const news = newsOf(memory, met);
    return news === null ? [] : [{ ...news, entity }];
  });
}

/** Each field with kind and type once, as it was met last: one statement cannot write a row twice. */
function newest(added: readonly EntityDrift[]): readonly EntityDrift[] {
  return [
    ...new Map(
      added.map((one) => [JSON.stringify([one.entity, one.field, one.kind, one.type]), one]),
    ).values(),
  ];
}

/** What a sink knows of undeclared fields, and the columns that it gives them. */
export function ledgerDrift({ db, records }: Ledger, inLease: InLease): Drift {
  return {
    known: async (connector, entities) =>
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
    evolve: inLease(
      async ({ held: { connector }, tx, stamp }, entity) => {
        const table = await knownTable(tx, { connector, entity });
        const drift = (await driftOf(tx, { connector, entities: [entity] })).get(entity) ?? [];
        const wanted = table === undefined ? [] : chooseColumns(drift, table);
        if (table === undefined || wanted.length === 0) return [];
        // A service that invents fields stops no run: those without room for a column stay in `_extra`.
        const { key, stored } = table;
        const before = { connector, table: { entity, key, columns: stored }, stored };
        const columns = await records.fitting(tx, before, wanted);
        if (columns.length === 0) return [];
        await addEvolved(tx, { connector, entity }, columns);
        const kept = await keptVersions(tx, { connector, entity });
        const place = { connector, table: widerTable(entity, table, columns), stored, ...kept };
        await records.ensure(tx, place);
        await records.fill(tx, place, columns, stamp);
        await records.renewViews(tx, connector);
        return columns;
      },
      { isLong: true },
    ),
  };
}
