import type { EntityFile } from '../definition-file.ts';
import type { Operation } from './operation.ts';
import type { Parameter } from './parameter.ts';
import { columnName, singular } from './parts.ts';
import type { Relationship } from './service-file.ts';
import type { FieldType } from './schemas.ts';

export type ParentFile = EntityFile['parents'][number];

/** A parent that is in the definition, as far as its children have to know it. */
export interface KnownParent {
  readonly entity: string;
  /** Its columns and their types, injected ones too. */
  readonly fields: ReadonlyMap<string, FieldType>;
  /** Column by the name that the service gives the field. */
  readonly columnBySent: ReadonlyMap<string, string>;
  /** Column by the list parameter whose value it holds. */
  readonly columnByParam: ReadonlyMap<string, string>;
  readonly key: readonly string[];
}

/** One way to find the listings of an entity. */
export interface ParentLink {
  readonly parent: KnownParent;
  /** List parameter: column of the parent. */
  readonly params: ReadonlyMap<string, string>;
  /** Parameters whose values rows do not have yet: parameter and the column it fills. */
  readonly inject: ReadonlyMap<string, string>;
  readonly when: ParentFile['when'];
  readonly evidence: string;
}

/** A place to look for the values of a parameter. */
export interface Candidate {
  readonly parent: string;
  readonly param: string;
  /** As the service names it; null: the parent's key. */
  readonly field: string | null;
  readonly when: Relationship['when'];
  readonly evidence: string;
}

/** Where the file says that the values of these parameters are: by its relationships, or by the paths of listings. */
export function parentCandidates(
  operation: Operation,
  open: readonly Parameter[],
  relationships: readonly Relationship[],
  listings: readonly Operation[],
): readonly Candidate[] {
  return open.flatMap(({ name, place }): readonly Candidate[] => {
    const stated = relationships
      .filter(({ child, param }) => child === operation.entity && param === name)
      .map(({ parent, field, param, when }) => ({
        parent,
        param,
        field,
        when,
        evidence: `relationship ${param} to ${parent}.${field}`,
      }));
    if (stated.length > 0 || place !== 'path') return stated;
    const end = operation.path.indexOf(`/{${name}}`);
    const before = operation.path.slice(0, end);
    const above =
      end < 0
        ? []
        : listings.filter(
            ({ path, entity }) => path.replace(/\/$/, '') === before && entity !== operation.entity,
          );
    return above.length === 1
      ? above.map(({ entity, path }) => ({
          parent: entity,
          param: name,
          field: null,
          when: null,
          evidence: `path ${operation.path} continues that of ${entity}, ${path}`,
        }))
      : [];
  });
}

/** A way through one parent, and the parameters whose values its records do not have. */
export interface LinkFound {
  readonly link: ParentLink;
  readonly unresolved: readonly Parameter[];
}

/**
 * Links a listing to one parent. A parameter that no relationship to it speaks of takes its value from the same
 * parameter of the parent's listing. A text says why there is no way.
 */
export function linkParent(
  { field, param, when, evidence }: Candidate,
  parent: KnownParent,
  open: readonly Parameter[],
  others: readonly Candidate[],
  ownFields: ReadonlyMap<string, FieldType>,
): LinkFound | string {
  const params = new Map<string, string>();
  const fromAbove = new Set(parent.columnByParam.values());
  const [onlyKey, ...moreKeys] = parent.key.filter((part) => !fromAbove.has(part));
  const unresolved: Parameter[] = [];
  for (const one of open) {
    const { name } = one;
    const stated = others.find((other) => other.param === name && other.parent === parent.entity);
    const wanted = name === param ? field : stated?.field;
    const column =
      wanted === null
        ? moreKeys.length === 0
          ? onlyKey
          : undefined
        : wanted === undefined
          ? parent.columnByParam.get(name)
          : parent.columnBySent.get(wanted);
    if (column !== undefined) params.set(name, column);
    else if (name === param) return `its parent ${parent.entity} has no field ${field ?? 'that is its key'}`;
    else unresolved.push(one);
  }
  const inject = new Map<string, string>();
  for (const [name, column] of params) {
    const target = injectedColumn(name, parent.entity, parent.fields.get(column), ownFields);
    if (target === null) return `the parameter ${name} would hide a field of the record with this name`;
    if (target !== '') inject.set(name, target);
  }
  return { link: { parent, params, inject, when: conditions(when, parent), evidence }, unresolved };
}

/** An empty text: the record has the value under this name already. */
function injectedColumn(
  param: string,
  parent: string,
  type: FieldType | undefined,
  own: ReadonlyMap<string, FieldType>,
): string | null {
  const plain = columnName(param);
  if (plain !== null && !own.has(plain)) return plain;
  // The record's own id is another one than that of its parent.
  if (plain !== null && plain !== 'id' && own.get(plain) === type) return '';
  const named = columnName(`${singular(parent)}_${param === 'id' ? 'id' : param}`);
  return named === null || own.has(named) ? null : named;
}

function conditions(when: Relationship['when'], { columnBySent }: KnownParent): ParentFile['when'] {
  const field = when === null ? undefined : columnBySent.get(when.field);
  return when === null || field === undefined ? [] : [{ kind: 'in', field, values: [...when.values] }];
}
