import { SyncError, usage } from '../core/errors.ts';
import { isJsonObject, type JsonValue } from '../core/json.ts';
import type { RunId } from '../core/names.ts';
import { addCounts, noCounts, type PageCounts } from '../core/records.ts';
import { onlyText, type Entity } from '../definitions/definition.ts';
import { compilePrepare, isOfKind, isPartial, recordShape } from '../engine/prepare/prepare-record.ts';
import { compileExplode } from '../engine/prepare/prepare-page.ts';
import { knownSchema, type SchemaPolicies } from '../engine/prepare/schema-policy.ts';
import { runRepair } from '../engine/run.ts';
import { findGetParams } from '../engine/complete-page.ts';
import type { EntityTarget } from '../settings/choices.ts';
import { openExistingRecords, openSink } from '../sinks/registry.ts';
import type { RunReport } from '../sinks/run-report.ts';
import type { EntityRows } from '../sinks/sink.ts';
import type { App, AppOptions } from './app.ts';
import { connectorIdentity } from './run-connector.ts';
import { parseRecordKey, type RecordKey, storedFields, type StoredFields } from './stored-fields.ts';

/** The record to request, and the values that a walk would fill into it (field -> value). */
type AskedRecord = Awaited<ReturnType<typeof askedRecord>>;

export type Refetched = { readonly run: RunId | null } & (
  | { readonly kind: 'stored'; readonly counts: PageCounts }
  /** `wasStored`: there was a row that was alive. */
  | { readonly kind: 'deleted'; readonly wasStored: boolean }
  /** The service has no such record; nothing was changed. */
  | { readonly kind: 'missing' }
);

/**
 * Reads one record again and stores it as a walk would. A record that the API no longer has is tombstoned if
 * `allowDeletes` is set. Throws the errors of the source and of `runRepair`, and BODY_INVALID for an answer that a walk
 * would not store.
 */
export async function refetchRecord(
  app: App,
  { target, keyText, params, inject }: AskedRecord,
  options: Pick<AppOptions, 'clock' | 'command'> & {
    readonly allowDeletes: boolean;
    readonly signal: AbortSignal;
  },
): Promise<Refetched> {
  const { connector, entity } = target;
  const { clock, signal } = options;
  await using source = await app.openSource(connector, signal);
  await using sink = await openSink(connector.sink, options);
  const schema = await knownSchema(connector.definition, connector.entities, sink.drift, connector.name);
  const evolved = schema.definition.entities.get(entity.name) ?? entity;
  const origin = await source.origin(signal);
  let refetched: Refetched = { kind: 'missing', run: null };
  const repair = (): Promise<RunReport | null> =>
    runRepair(
      {
        kind: 'refetch',
        act: { action: 'refetch', entity: entity.name, detail: { key: keyText } },
        sink,
        identity: connectorIdentity(connector, origin, options),
        tables: evolved.explodedTable === null ? [evolved.table] : [evolved.table, evolved.explodedTable],
        clock,
        costs: () => {
          const { serverTime: _serverTime, ...costs } = source.stats();
          return costs;
        },
      },
      async () => {
        const answer = await source.get({ entity: entity.name, params }, signal);
        if (answer === null) {
          if (!options.allowDeletes) return null;
          return async (lease, run, onDone) => {
            const wasStored = await sink.repair.tombstoneRecord(lease, run, entity.name, keyText);
            onDone({ entity: entity.name, counts: noCounts, deleted: wasStored ? 1 : 0 });
            refetched = { kind: 'deleted', wasStored, run: null };
          };
        }
        const rows = readRefetched(evolved, schema.policies, { keyText, inject }, answer);
        return async (lease, run, onDone) => {
          for (const [index, { entity: name, records }] of rows.entries()) {
            let counts = noCounts;
            for (const record of records) {
              counts = addCounts(counts, await sink.repair.storeRecord(lease, run, name, record));
              onDone({ entity: name, counts, deleted: 0 });
            }
            if (index === 0) refetched = { kind: 'stored', counts, run: null };
          }
        };
      },
    );
  const report = await app.repair(connector, repair);
  return { ...refetched, run: report?.run ?? null };
}

/** `texts`: the key's fields as `name=value`. Throws USAGE for all that can be ruled out before a call. */
export async function askedRecord(target: EntityTarget, texts: readonly string[], program: string) {
  const { name, connector, entity, isExploded } = target;
  if (isExploded) {
    throw usage(
      `${name} holds elements of ${entity.name}; refetch the record of ${entity.name} that has them.`,
    );
  }
  if (!entity.actions.has('get')) {
    throw usage(
      `${entity.name} has the actions ${[...entity.actions.keys()].join(', ')}, not get, so one record of it cannot be read.`,
    );
  }
  const key = parseRecordKey(entity.table, texts);
  await using reader = await openExistingRecords(connector.sink);
  const stored =
    reader === null ? null : await storedFields(reader, connector.name, entity.name, key.keyText);
  const inject = placeRecord(entity, key, stored);
  const sync = `"${program} sync ${connector.name} --select ${entity.name}"`;
  if (inject === null) {
    throw usage(
      `${name} ${key.keyText} is not stored, and its key alone does not say which listing it belongs to. A sync finds it: ${sync}.`,
    );
  }
  const params = findGetParams(entity, { keyText: key.keyText, inject, params: {} });
  if (params === null) {
    throw usage(
      `${name} ${key.keyText}: get needs more than the key says (${[...(entity.actions.get('get')?.params.keys() ?? [])].join(', ')}). Read it with ${sync}.`,
    );
  }
  return { target, keyText: key.keyText, params, inject };
}

/**
 * Values that a walk fills into the record from its place (field -> value): from the key, and the others from the
 * stored row. Null if they are unknown: the record alone does not say where it belongs.
 */
function placeRecord(entity: Entity, { fields }: RecordKey, stored: StoredFields | null) {
  const placed: Record<string, JsonValue> = {};
  const { parents, recursive, inject: own } = entity;
  const ofTree =
    recursive === null ? [] : [recursive.rootField, recursive.depthField, recursive.positionField];
  const ofListing = [...own.keys(), ...parents.flatMap(({ inject }) => [...inject.keys()])];
  for (const name of new Set([...ofListing, ...ofTree])) {
    const value = fields.get(name) ?? stored?.get(name) ?? null;
    if (value !== null) placed[name] = value;
    // A tree's fields are in every row; of several ways to an entity each fills in its own.
    else if (stored === null || ofTree.includes(name)) return null;
  }
  return placed;
}

/**
 * Prepares the answer of `get` exactly as a walk would. Throws `SyncError` BODY_INVALID for a record that a walk would
 * not store, or that is not the requested one; SCHEMA_CHANGED if the settings ask for it.
 */
function readRefetched(
  entity: Entity,
  policies: SchemaPolicies,
  asked: Pick<AskedRecord, 'keyText' | 'inject'>,
  answer: JsonValue,
): readonly EntityRows[] {
  const { only, explodedTable } = entity;
  if (!isOfKind(entity, answer)) {
    throw unusable(entity, `a record whose ${onlyText(only)}`, 'one of another kind');
  }
  if (isPartial(entity, answer)) {
    throw unusable(entity, `a record with ${entity.whole.join(', ')}`, 'only a part of it');
  }
  const prepared = compilePrepare(recordShape(entity, policies.get(entity.name)))(answer, asked.inject);
  if (prepared.kind === 'refused') {
    throw unusable(
      entity,
      'a record that can be stored',
      `${prepared.refused.reason}: ${prepared.refused.detail}`,
    );
  }
  const { record } = prepared;
  if (record.keyText !== asked.keyText) {
    throw unusable(entity, `the record ${asked.keyText}`, `the record ${record.keyText.slice(0, 200)}`);
  }
  const rows = [{ entity: entity.name, records: [record] }];
  if (explodedTable === null || !isJsonObject(answer)) return rows;
  const elements = compileExplode(entity, policies.get(explodedTable.entity))?.(answer, asked.inject) ?? [];
  const records = elements.flatMap((element) => (element.kind === 'record' ? [element.record] : []));
  return [...rows, { entity: explodedTable.entity, records }];
}

function unusable({ name }: Entity, expected: string, got: string): SyncError {
  return new SyncError(
    `get of ${name} was expected to return ${expected}, but returned ${got}. Nothing was stored.`,
    {
      code: 'BODY_INVALID',
      recovery: 'stop',
      context: { entity: name },
    },
  );
}
