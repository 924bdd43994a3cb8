import { SyncError } from '../core/errors.ts';
import { isJsonObject, type JsonValue } from '../core/json.ts';
import type { RunId } from '../core/names.ts';
import {
  addCounts,
  noCounts,
  type EntityTable,
  type PageCounts,
  type PreparedRecord,
} from '../core/records.ts';
import { usage } from '../core/usage-error.ts';
import type { Entity } from '../definitions/definition.ts';
import { compileExplode } from '../engine/prepare/prepare-page.ts';
import {
  isOfKind,
  isPartial,
  compilePrepare,
  explodedShape,
  recordShape,
} from '../engine/prepare/prepare-record.ts';
import { knownSchema, type SchemaPolicies } from '../engine/prepare/schema-policy.ts';
import { runRepair } from '../engine/repair/run-repair.ts';
import { findGetParams } from '../engine/complete-page.ts';
import type { EntityTarget } from '../settings/choices.ts';
import { openExistingRecords, openSink } from '../sinks/registry.ts';
import type { RunReport } from '../sinks/run-report.ts';
import type { EntityRows } from '../sinks/sink.ts';
import type { App, AppOptions } from './app.ts';
import { compileDigest, widenedIn } from './content-digest.ts';
import { parseRecordKey, type RecordKey } from './record-key.ts';
import { connectorIdentity } from './run-connector.ts';
import { storedFields, type StoredFields } from './stored-fields.ts';

/** What to ask for, and what a walk would fill into the record (field -> value). */
type AskedRecord = Awaited<ReturnType<typeof askedRecord>>;

export type Refetched = { readonly run: RunId | null } & (
  | { readonly kind: 'stored'; readonly counts: PageCounts }
  /** `wasStored`: there was a row that was alive. */
  | { readonly kind: 'deleted'; readonly wasStored: boolean }
  /** The service has no such record; nothing was changed. */
  | { readonly kind: 'missing' }
);

/**
 * Reads one record again and stores it as a walk would. One that the API no longer has is tombstoned where
 * `allowDeletes` says so. Throws what the source and `runRepair` throw, and BODY_INVALID for an answer that a walk
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
        const edited = await editedRows(target, evolved, rows);
        return async (lease, run, onDone) => {
          for (const [index, { entity: name, records }] of rows.entries()) {
            let counts = noCounts;
            for (const record of records) {
              const isEdited = edited.has(record);
              counts = addCounts(counts, await sink.repair.storeRecord(lease, run, name, record, isEdited));
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
 * What a walk fills into the record from where it found it (field -> value): from the key, and from the stored row what
 * is not in the key. Null where it cannot be known: the record alone does not say where it belongs.
 */
function placeRecord(
  entity: Entity,
  { fields }: RecordKey,
  stored: StoredFields | null,
): Readonly<Record<string, JsonValue>> | null {
  const placed: Record<string, JsonValue> = {};
  const ofTree = treeFields(entity);
  for (const name of new Set([...injectedFields(entity), ...ofTree])) {
    const value = fields.get(name) ?? stored?.get(name) ?? null;
    if (value !== null) placed[name] = value;
    // A tree's fields are in every row; of several ways to an entity each fills in its own.
    else if (stored === null || ofTree.includes(name)) return null;
  }
  return placed;
}

function injectedFields({ parents }: Entity): readonly string[] {
  return parents.flatMap(({ inject }) => [...inject.keys()]);
}

function treeFields({ recursive }: Entity): readonly string[] {
  return recursive === null ? [] : [recursive.rootField, recursive.depthField, recursive.positionField];
}

/**
 * Prepares what `get` answered exactly as a walk would. Throws `SyncError` BODY_INVALID for a record that a walk would
 * not store, or that is not the one that was asked for; SCHEMA_CHANGED where the settings want it.
 */
function readRefetched(
  entity: Entity,
  policies: SchemaPolicies,
  asked: Pick<AskedRecord, 'keyText' | 'inject'>,
  answer: JsonValue,
): readonly EntityRows[] {
  const { only, explodedTable } = entity;
  if (only !== null && !isOfKind(entity, answer)) {
    throw unusable(entity, `a record whose ${only.field} is ${only.value}`, 'one of another kind');
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

/**
 * The records whose stored values differ, even where their stored hash is the same. `evolved`: what they were prepared
 * for.
 */
async function editedRows(
  { connector, entity }: EntityTarget,
  evolved: Entity,
  rows: readonly EntityRows[],
): Promise<ReadonlySet<PreparedRecord>> {
  const edited = new Set<PreparedRecord>();
  await using reader = await openExistingRecords(connector.sink);
  for (const { entity: name, records } of rows) {
    const isOwn = name === entity.name;
    const shape = isOwn ? recordShape(entity, undefined) : explodedShape(entity);
    const fresh = isOwn ? evolved.table : evolved.explodedTable;
    const table = (await reader?.table(connector.name, name)) ?? null;
    if (reader === null || table === null || shape === null || fresh === null) continue;
    const digestIn = (of: EntityTable) => compileDigest(shape, of, widenedIn(fresh));
    const [digestOf, digestOfStored] = [digestIn(fresh), digestIn(table)];
    for (const record of records) {
      const stored = await reader.record(connector.name, table, record.keyText);
      if (stored === null || stored.isDeleted) continue;
      if (digestOf(record) !== digestOfStored(stored)) edited.add(record);
    }
  }
  return edited;
}
