import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { FieldDrift } from '../../../core/records.ts';
import type { StoredDrift } from '../../decisions/choose-columns.ts';
import { keyOf, maxFields, otherFields } from '../../ledger/drift/note-drift.ts';
import type { Commit, CurrentRun } from '../ledger.ts';
import type { Tx } from '../session.ts';

/** What is noted of these entities, by field, kind and first meeting. Entities without drift are left out. */
export async function driftOf(
  tx: Tx,
  at: string,
  connector: ConnectorName,
  entities: readonly EntityName[],
): Promise<ReadonlyMap<EntityName, readonly StoredDrift[]>> {
  const rows = await tx.rows<StoredDrift & { readonly entity: EntityName }>(
    `SELECT entity, field, kind, type, is_refused FROM ${at}_sync_drift
     WHERE connector = :connector AND entity = ANY(:entities::text[]) ORDER BY entity, field, kind, first_seen_at, type`,
    { connector, entities },
  );
  const byEntity = new Map<EntityName, StoredDrift[]>();
  for (const { entity, ...one } of rows) {
    const known = byEntity.get(entity) ?? [];
    known.push(one);
    byEntity.set(entity, known);
  }
  return byEntity;
}

/** What is noted of an entity: by field, kind and type whether it was only refused so far. */
type Noted = ReadonlyMap<string, boolean>;

/**
 * What a run has read of `_sync_drift`, by entity: no more than was committed then, so that it holds whatever becomes of a transaction. Pages
 * with nothing new cost no statement.
 */
const notedByRun = new WeakMap<CurrentRun, Map<EntityName, Noted>>();

/** Notes the drift of a commit's pages. Accepted once, a field is never a refused one again. */
export async function noteDrift(commit: Commit, drift: readonly FieldDrift[]): Promise<void> {
  const { ledger, held, current, tx, stamp } = commit;
  const read = notedByRun.get(current) ?? new Map<EntityName, Noted>();
  notedByRun.set(current, read);
  const news = drift.filter((one) => !isNoted(read.get(one.entity), storedOf(one, one.field)));
  const unsure = [...new Set(news.map(({ entity }) => entity))];
  if (unsure.length === 0) return;
  const stored = await driftOf(tx, ledger.at, held.connector, unsure);
  const added: (StoredDrift & { readonly entity: EntityName })[] = [];
  for (const entity of unsure) {
    const known = stored.get(entity) ?? [];
    read.set(entity, new Map(known.map((one) => [keyOf(one), one.isRefused === 1])));
    const ofEntity = news.filter((one) => one.entity === entity);
    added.push(...namedDrift(known, ofEntity).map((one) => ({ ...one, entity })));
  }
  if (added.length === 0) return;
  await tx.run(
    `INSERT INTO ${ledger.at}_sync_drift AS d (connector, entity, field, kind, type, first_seen_at, first_run, is_refused)
     SELECT :connector::text, v.entity, v.field, v.kind, v.type, :now::text, :run::text, v.is_refused
     FROM unnest(:entities::text[], :fields::text[], :kinds::text[], :types::text[], :refused::integer[])
       AS v(entity, field, kind, type, is_refused)
     ON CONFLICT (connector, entity, field, kind, type) DO UPDATE SET is_refused = least(d.is_refused, excluded.is_refused)`,
    {
      connector: held.connector,
      now: stamp.now,
      run: stamp.run,
      entities: added.map(({ entity }) => entity),
      fields: added.map(({ field }) => field),
      kinds: added.map(({ kind }) => kind),
      types: added.map(({ type }) => type),
      refused: added.map(({ isRefused }) => isRefused),
    },
  );
}

/** What is to be written of an entity's drift, each field with kind and type once. Fields beyond the first 200 go by one name. */
function namedDrift(known: readonly StoredDrift[], drift: readonly FieldDrift[]): readonly StoredDrift[] {
  const noted = new Map(known.map((one) => [keyOf(one), one.isRefused === 1]));
  const fields = new Set(known.map(({ field }) => field));
  const added = new Map<string, StoredDrift>();
  for (const one of drift) {
    const isNamed = fields.has(one.field) || fields.size < maxFields;
    const named = storedOf(one, isNamed ? one.field : otherFields);
    if (isNoted(noted, named)) continue;
    noted.set(keyOf(named), named.isRefused === 1);
    fields.add(named.field);
    added.set(keyOf(named), named);
  }
  return [...added.values()];
}

function storedOf({ kind, type, isRefused }: FieldDrift, field: string): StoredDrift {
  return { field, kind, type, isRefused: isRefused === true ? 1 : 0 };
}

function isNoted(noted: Noted | undefined, one: StoredDrift): boolean {
  const wasRefused = noted?.get(keyOf(one));
  return wasRefused === false || (wasRefused === true && one.isRefused === 1);
}
