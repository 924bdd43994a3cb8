import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { PreparedRecord } from '../../core/records.ts';
import type { Entity, Recursive, UnlistedCondition } from '../../definitions/definition.ts';
import type { Candidate, Judgement } from '../../sinks/deletes.ts';
import { standingInTree } from '../prepare/listing-tree.ts';
import { compilePrepare, recordShape } from '../prepare/prepare-record.ts';
import { acceptEverything, refusing, type SchemaPolicy } from '../prepare/schema-policy.ts';

/**
 * Makes the function that reads what a `get` answered for a row that no listing showed. A record that is not the row
 * that was asked for, that its listing alone can place, or that a policy refuses, says only that something is there. `filters`:
 * parameters by which the settings choose among the entity's records.
 */
export function compileReadConfirmed(
  entity: Entity,
  policy: SchemaPolicy = acceptEverything,
  filters: ReadonlySet<string> = new Set(),
): (candidate: Candidate, answer: JsonValue) => Judgement {
  const prepare = compilePrepare(recordShape(entity, refusing(policy)));

  function placed(candidate: Candidate, answer: JsonValue): PreparedRecord | null {
    if (!isOfKind(entity, answer)) return null;
    const prepared = prepare(answer, candidate.inject);
    return prepared.kind === 'record' && prepared.record.keyText === candidate.keyText
      ? prepared.record
      : null;
  }

  return (candidate, answer) => {
    const { row } = candidate;
    if (!isJsonObject(answer)) {
      return answer === null
        ? { row, verdict: 'gone' }
        : { row, verdict: 'there', record: null, isUnlisted: false };
    }
    const isUnlisted = meetsAny(entity.unlisted, answer);
    if (entity.recursive !== null) return standing(entity.recursive, candidate, answer, isUnlisted);
    return {
      row,
      verdict: 'there',
      record: placed(candidate, answer),
      isUnlisted: isUnlisted || isHidden(filters, candidate, answer),
    };
  };
}

/** What has left its tree, or lies in the trash, has no place any more; what has moved is met where it is now. */
function standing(
  rules: Recursive,
  { row, params }: Candidate,
  answer: JsonObject,
  isUnlisted: boolean,
): Judgement {
  const place = isUnlisted ? 'in-none' : standingInTree(rules, answer, params[rules.param] ?? null);
  if (place === 'in-none') return { row, verdict: 'gone' };
  return { row, verdict: 'there', record: null, isUnlisted: place === 'elsewhere' };
}

/** It does not have, or does not show, what its partition's listing is filtered by. */
function isHidden(filters: ReadonlySet<string>, { params }: Candidate, answer: JsonObject): boolean {
  return Object.entries(params).some(
    ([name, value]) => filters.has(name) && (!Object.hasOwn(answer, name) || answer[name] !== value),
  );
}

function isOfKind({ only }: Entity, answer: JsonValue): boolean {
  return only === null || (isJsonObject(answer) && answer[only.field] === only.value);
}

function meetsAny(conditions: readonly UnlistedCondition[], record: JsonObject): boolean {
  return conditions.some(({ field, values }) => {
    const value = Object.hasOwn(record, field) ? record[field] : null;
    return (typeof value === 'string' || typeof value === 'boolean') && values.includes(value);
  });
}
