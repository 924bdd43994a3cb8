import { hash } from 'node:crypto';
import { writeJson } from '../../core/json-text.ts';
import type { EntityName } from '../../core/names.ts';
import type { EntityTable, FieldType, RecordMask } from '../../core/records.ts';
import { deepFreeze } from '../deep-freeze.ts';
import type { Definition, Entity } from '../definition.ts';
import { ruleAt, ruleTree, type MaskRules } from './mask-rules.ts';

/** The masks of a connector's entities. */
export type Masks = ReadonlyMap<EntityName, { readonly rules: MaskRules; readonly mask: RecordMask }>;

/**
 * The definition with its masked entities: what is hashed or truncated has a text column, and another mask is another
 * reading of what the service sends, as a changed definition is.
 */
export function maskedDefinition(definition: Definition, masks: Masks): Definition {
  if (masks.size === 0) return definition;
  const known = made.get(masks)?.get(definition);
  if (known !== undefined) return known;
  const entities = new Map(
    [...definition.entities].map(([name, entity]) => {
      const masked = masks.get(name);
      return [name, masked === undefined ? entity : maskedEntity(entity, masked)] as const;
    }),
  );
  const readings = [...masks].map(([name, { mask }]) => [name, mask.fingerprint]);
  const contentHash = hash('sha256', writeJson([definition.contentHash, readings]), 'hex');
  const masked = deepFreeze({ ...definition, entities, contentHash });
  made.set(masks, new Map([...(made.get(masks) ?? []), [definition, masked]]));
  return masked;
}

/** As it passes into another process: what comes there is masked already. A mask has functions, and does not pass. */
export function withoutMasks(definition: Definition): Definition {
  const entities = [...definition.entities].map(([name, entity]) => [name, withoutMask(entity)] as const);
  return { ...definition, entities: new Map(entities) };
}

/** As `withoutMasks`. */
export function withoutMask(entity: Entity): Entity {
  return { ...entity, mask: null };
}

/** Thousands of connectors may share their masks. */
const made = new WeakMap<Masks, ReadonlyMap<Definition, Definition>>();

function maskedEntity(entity: Entity, { rules, mask }: { rules: MaskRules; mask: RecordMask }): Entity {
  const { table, explodedTable, explode, searchable } = entity;
  const tree = ruleTree(rules);
  const typeAt = (type: FieldType, ...path: readonly string[]): FieldType => {
    const { kind } = ruleAt(rules, tree, path);
    // The elements of an array are truncated one by one.
    const isText = kind === 'hash' || (kind === 'truncate' && type !== 'array' && type !== 'any');
    return isText ? 'string' : type;
  };
  const carried = new Set(explode?.carry);
  const elementPath = (name: string) => (carried.has(name) ? [name] : [explode?.field ?? '', name]);
  return {
    ...entity,
    mask,
    table: withTypes(table, (name, type) => typeAt(type, name)),
    explodedTable:
      explodedTable && withTypes(explodedTable, (name, type) => typeAt(type, ...elementPath(name))),
    searchable: new Map(
      [...searchable].map(([name, field]) => {
        const isText = field.from.some(
          (from) =>
            typeAt('integer', from) === 'string' || typeAt('integer', ...elementPath(from)) === 'string',
        );
        return [name, isText ? { ...field, type: 'string' as const } : field];
      }),
    ),
  };
}

function withTypes(table: EntityTable, typeOf: (name: string, type: FieldType) => FieldType): EntityTable {
  return {
    ...table,
    columns: table.columns.map((column) => ({ ...column, type: typeOf(column.name, column.type) })),
  };
}
