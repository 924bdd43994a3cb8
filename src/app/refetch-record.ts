import { SyncError, usage } from '../core/errors.ts';
import { readJson, writeJson, isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import type { RunId } from '../core/names.ts';
import {
  addCounts,
  type EntityTable,
  noCounts,
  type PageCounts,
  type PreparedRecord,
} from '../core/records.ts';
import type { Entity } from '../definitions/definition.ts';
import { canonicalJson, canonicalJsonWithout } from '../core/canonical-json.ts';
import {
  shortHash,
  slotOf,
  compilePrepare,
  isOfKind,
  isPartial,
  explodedShape,
  recordShape,
  type RecordShape,
} from '../engine/prepare/prepare-record.ts';
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
import {
  fieldValue,
  parseRecordKey,
  type RecordKey,
  storedFields,
  type StoredFields,
} from './stored-fields.ts';

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
 * Values that a walk fills into the record from its place (field -> value): from the key, and the others from the
 * stored row. Null if they are unknown: the record alone does not say where it belongs.
 */
function placeRecord(entity: Entity, { fields }: RecordKey, stored: StoredFields | null) {
  const placed: Record<string, JsonValue> = {};
  const { parents, recursive } = entity;
  const ofTree =
    recursive === null ? [] : [recursive.rootField, recursive.depthField, recursive.positionField];
  const ofParents = parents.flatMap(({ inject }) => [...inject.keys()]);
  for (const name of new Set([...ofParents, ...ofTree])) {
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
 * Records whose stored values differ although their stored hash is the same. `evolved`: the entity that they were
 * prepared for.
 */
async function editedRows({ connector, entity }: EntityTarget, evolved: Entity, rows: readonly EntityRows[]) {
  const edited = new Set<PreparedRecord>();
  await using reader = await openExistingRecords(connector.sink);
  for (const { entity: name, records } of rows) {
    const isOwn = name === entity.name;
    const shape = isOwn ? recordShape(entity, undefined) : explodedShape(entity);
    const fresh = isOwn ? evolved.table : evolved.explodedTable;
    const table = (await reader?.table(connector.name, name)) ?? null;
    if (reader === null || table === null || shape === null || fresh === null) continue;
    const [digestOf, digestOfStored] = [compileDigest(shape, fresh), compileDigest(shape, table)];
    for (const record of records) {
      const stored = await reader.record(connector.name, table, record.keyText);
      if (stored === null || stored.isDeleted) continue;
      if (digestOf(record) !== digestOfStored(stored)) edited.add(record);
    }
  }
  return edited;
}

/**
 * Compiles a digest that shows whether two rows hold the same values, in any sink and columns. As in a record's hash,
 * volatile paths and copies of other fields do not count. A hash is stored beside a row's values, so it does not show
 * that these were edited. `table`: the columns that the rows have, which may be others than those that the definition
 * declares.
 */
export function compileDigest(
  { table: declared, volatile, filledFrom = new Map<string, string>() }: RecordShape,
  table: EntityTable,
): (row: Pick<PreparedRecord, 'values' | 'extra'>) => string {
  const slots = new Map(
    declared.columns.map((column, index) => [column.name, slotOf(declared, volatile, column, index)]),
  );
  const names = declared.columns.map(({ name }) => name).toSorted();

  return ({ values, extra }) => {
    const fields = new Map<string, JsonValue>();
    const undeclared = Object.create(null) as Record<string, JsonValue>;
    for (const [name, value] of Object.entries(extraFields(extra))) {
      if (value !== null) undeclared[name] = value;
    }
    for (const [index, { name, type }] of table.columns.entries()) {
      const value = readable(() => fieldValue(type, values[index] ?? null), values[index]);
      if (slots.has(name)) fields.set(name, value);
      else if (value !== null) undeclared[name] = value;
    }
    for (const [name, source] of filledFrom) {
      const of = fields.get(source) ?? undeclared[source] ?? null;
      const own = fields.get(name) ?? null;
      if (of !== null && own !== null && canonicalJson(own) === canonicalJson(of)) fields.delete(name);
    }
    const parts = names.flatMap((name) => {
      const value = fields.get(name) ?? null;
      const paths = slots.get(name)?.volatile ?? [];
      if (value === null || paths.some((path) => path.length === 0)) return [];
      const text = canonicalJsonWithout(value, paths);
      return [name, withoutSigns(text)];
    });
    return shortHash(JSON.stringify([...parts, withoutSigns(canonicalJsonWithout(undeclared, volatile))]));
  };
}

function extraFields(extra: string | null): JsonObject {
  const fields = extra === null ? {} : readable(() => readJson(extra), extra);
  return isJsonObject(fields) ? fields : { '': fields };
}

/** -0 and 0 are one value: the lines of JSONL and the columns of SQLite keep no sign of it. */
function withoutSigns(json: string): string {
  return json.includes('-0.0') ? writeJson(readJson(json)) : json;
}

/** A text that was edited by hand may no longer be JSON. */
function readable(read: () => JsonValue, stored: unknown): JsonValue {
  try {
    return read();
  } catch {
    return `not readable: ${String(stored)}`;
  }
}
