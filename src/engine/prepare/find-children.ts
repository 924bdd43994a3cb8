import type { JsonObject, JsonValue } from '../../core/json.ts';
import type { EntityName } from '../../core/names.ts';
import type { Params } from '../../core/records.ts';
import type { Definition, Entity, Parent, ParentCondition } from '../../definitions/definition.ts';
import { toFieldValue, toParamValue } from '../../definitions/convert-value.ts';
import type { FoundPartition } from '../../sinks/sink.ts';
import { rankOf, type ChosenEntities } from '../chosen-entities.ts';

/**
 * Makes the function that names the child partitions a parent record leads to: one per child entity, way of descent
 * and variant of its parameters.
 */
export function compileFindChildren(
  definition: Definition,
  chosen: ChosenEntities,
  parentEntity: EntityName,
): (raw: JsonObject, inject: Readonly<Record<string, JsonValue>>) => readonly FoundPartition[] {
  const descents = [...chosen].flatMap(([name, { variants, parents }]) => {
    const child = definition.entities.get(name);
    if (child === undefined || !parents.includes(parentEntity)) return [];
    return child.parents
      .filter((parent) => parent.entity === parentEntity)
      .map((parent) => ({ child, parent, variants, rank: rankOf(definition, name) }));
  });

  return (raw, inject) =>
    descents.flatMap(({ child, parent, variants, rank }) => {
      if (!meetsAny(parent.when, raw)) return [];
      const params = paramsFrom(child, parent, raw, inject);
      if (params === null) return [];
      const injected = injectedFrom(child, parent, params);
      return variants.map((variant) => ({
        entity: child.name,
        params: { ...variant, ...params },
        inject: injected,
        rank,
        treeDepth: child.recursive === null ? null : 0,
        tree: null,
      }));
    });
}

function meetsAny(conditions: readonly ParentCondition[], raw: JsonObject): boolean {
  return conditions.length === 0 || conditions.some((condition) => meets(condition, raw));
}

function meets(condition: ParentCondition, raw: JsonObject): boolean {
  const value = raw[condition.field];
  switch (condition.kind) {
    case 'in':
      return typeof value === 'string' && condition.values.includes(value);
    case 'present':
      return value !== undefined && value !== null && value !== '';
  }
}

/** Null where the parent record lacks a value: then it has no listing that could be asked for. */
function paramsFrom(
  child: Entity,
  parent: Parent,
  raw: JsonObject,
  inject: Readonly<Record<string, JsonValue>>,
): Params | null {
  const params: Record<string, JsonValue> = {};
  for (const [param, field] of parent.params) {
    const value = inject[field] ?? raw[field] ?? null;
    const type = child.actions.get('list')?.params.get(param)?.type;
    const converted = type === undefined ? null : toParamValue(type, value);
    if (converted === null) return null;
    params[param] = converted;
  }
  return params;
}

function injectedFrom(child: Entity, parent: Parent, params: Params): Record<string, JsonValue> {
  const injected: Record<string, JsonValue> = {};
  for (const [field, param] of parent.inject) {
    const type = child.fields.get(field);
    if (type !== undefined) injected[field] = toFieldValue(type, params[param] ?? null);
  }
  return injected;
}
