import { SyncError } from '../core/errors.ts';
import { isJsonObject, type JsonValue } from '../core/json.ts';
import type { EntityName } from '../core/names.ts';
import type { PreparedRecord } from '../core/records.ts';
import type { Entity } from '../definitions/definition.ts';
import { compileExplode } from '../engine/prepare/explode-record.ts';
import { compilePrepare } from '../engine/prepare/prepare-record.ts';
import type { SchemaPolicies } from '../engine/prepare/schema-policy.ts';

/** The rows that one record makes: its own first, then those of its elements. */
export type RefetchedRows = readonly {
  readonly entity: EntityName;
  readonly records: readonly PreparedRecord[];
}[];

/**
 * Prepares what `get` answered exactly as a walk would. Throws `SyncError` BODY_INVALID for a record that a walk would not store, or
 * that is not the one that was asked for; SCHEMA_CHANGED where the settings want it.
 */
export function readRefetched(
  entity: Entity,
  policies: SchemaPolicies,
  asked: { readonly keyText: string; readonly inject: Readonly<Record<string, JsonValue>> },
  answer: JsonValue,
): RefetchedRows {
  const { only, explode, explodedTable } = entity;
  if (only !== null && !(isJsonObject(answer) && answer[only.field] === only.value)) {
    throw unusable(entity, `a record whose ${only.field} is ${only.value}`, 'one of another kind');
  }
  const own = policies.get(entity.name);
  const prepared = compilePrepare({
    table: entity.table,
    ignored: entity.ignored,
    volatile: entity.volatile,
    filledFrom: entity.filledFrom,
    explodedField: explode?.field ?? null,
    download: entity.actions.get('download') ?? null,
    ...(own === undefined ? {} : { policy: own }),
  })(answer, asked.inject);
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
  const elements = compileExplode(entity, policies.get(explodedTable.entity))?.(answer, asked.inject);
  return [...rows, { entity: explodedTable.entity, records: elements?.records ?? [] }];
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
