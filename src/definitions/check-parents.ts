import {
  type Note,
  type EntityCheck,
  fieldAt,
  fieldType,
  listParamAt,
  openEntityCheck,
} from './check-names.ts';
import type { DefinitionFile, EntityFile } from './definition-file.ts';
import { noSuch, suggestName } from './suggest-name.ts';
import type { YamlPath } from './read-yaml.ts';

type ParentFile = EntityFile['parents'][number];

/** Parents exist, stand above their children, and say where every required parameter comes from. */
export function checkParents(file: DefinitionFile, note: Note): void {
  const names = Object.keys(file.entities);
  for (const [name, entity] of Object.entries(file.entities)) {
    const check = openEntityCheck(entity, ['entities', name], note);
    const at = ['entities', name, 'parents'];
    if (entity.parents.length === 0) checkRequired(check, null);
    if (entity.parents.length > 0 && !entity.parents.some((parent) => parent.byDefault)) {
      note(at, 'expected at least one parent that is byDefault, or this entity is never read', at);
    }
    entity.parents.forEach((parent, index) => {
      const here = [...at, index, 'entity'];
      const target = file.entities[parent.entity];
      if (target === undefined || !Object.hasOwn(file.entities, parent.entity)) {
        note(here, noSuch('entity', parent.entity, names), ['entities', parent.entity]);
        return;
      }
      if (entity.parents.findIndex((other) => other.entity === parent.entity) !== index) {
        note(here, `${parent.entity} is named twice`);
      }
      checkOrder(file, name, parent.entity, here, note);
      checkParent(check, parent, index, (path, where, types) =>
        checkParentField(target, parent.entity, path, types, [...at, index, ...where], note),
      );
    });
  }
}

/** Files are read top-down: a parent's partitions exist before its children's. A cycle can never stand in order. */
function checkOrder(file: DefinitionFile, child: string, parent: string, at: YamlPath, note: Note): void {
  const names = Object.keys(file.entities);
  if (names.indexOf(parent) < names.indexOf(child)) return;
  const cycle = pathUp(file, parent, child, []);
  note(
    at,
    cycle === null
      ? `expected ${parent} above ${child} in the file: parents come before their children`
      : `parents form a cycle: ${[child, ...cycle].join(' -> ')}`,
  );
}

function pathUp(
  file: DefinitionFile,
  from: string,
  to: string,
  seen: readonly string[],
): readonly string[] | null {
  if (from === to) return [...seen, from];
  if (seen.includes(from)) return null;
  for (const parent of file.entities[from]?.parents ?? []) {
    const path = pathUp(file, parent.entity, to, [...seen, from]);
    if (path !== null) return path;
  }
  return null;
}

/**
 * Notes a field, or a dotted path in one, that the parent `name` does not declare, or declares with another type; `at`
 * is a place of the file. `types`: of a field; absent: any.
 */
function checkParentField(
  parent: EntityFile,
  name: string,
  path: string,
  types: readonly string[] | undefined,
  at: YamlPath,
  note: Note,
): void {
  const [field = '', ...inner] = path.split('.');
  const expected = inner.length === 0 ? types : ['object', 'any'];
  const found = fieldType(parent, field);
  const declaration = ['entities', name, 'fields', field];
  if (found === undefined) {
    note(at, noSuch(`field of ${name}`, field, Object.keys(parent.fields)), declaration);
  } else if (expected !== undefined && !expected.includes(found)) {
    const message = `expected a field of type ${expected.join(' or ')}, ${field} is of type ${found}`;
    note(at, message, declaration);
  } else if (inner.includes('')) note(at, `expected names joined by dots, got ${JSON.stringify(path)}`);
}

function checkParent(
  check: EntityCheck,
  parent: ParentFile,
  index: number,
  parentField: (path: string, at: YamlPath, types?: readonly string[]) => void,
): void {
  const { entity, note } = check;
  const declared = entity.actions.list?.params ?? {};
  for (const [param, field] of Object.entries(parent.params)) {
    const here = ['parents', index, 'params', param];
    const found = declared[param];
    if (found === undefined) {
      note(here, `no such list parameter${suggestName(param, Object.keys(declared))}`, listParamAt(param));
    } else if (!found.required) {
      const message = 'expected a required list parameter: only those tell partitions apart';
      note(here, message, listParamAt(param));
    }
    parentField(field, ['params', param]);
  }
  checkRequired(check, index);
  checkInject(check, parent, index);
  parent.when.forEach(({ field }, position) => parentField(field, ['when', position, 'field']));
  parent.childCount.forEach((path, position) => parentField(path, ['childCount', position], ['integer']));
  // A marker is compared as a text and read as a time.
  if (parent.marker !== null) parentField(parent.marker.field, ['marker', 'field'], ['string']);
}

function checkInject({ entity, note }: EntityCheck, { inject, params }: ParentFile, index: number): void {
  const declared = Object.keys(entity.fields);
  for (const [field, param] of Object.entries(inject)) {
    const at = ['parents', index, 'inject', field];
    if (!declared.includes(field)) {
      note(at, `no such field${suggestName(field, declared)}`, fieldAt(field));
    }
    if (!Object.hasOwn(params, param)) {
      const given = Object.keys(params).join(', ');
      const message = `expected a parameter that this parent fills (${given}), got ${param}`;
      note(at, message, ['parents', index, 'params', param]);
    }
  }
}

/** Of one parent, or of an entity without parents where `index` is null. */
function checkRequired({ entity, note }: EntityCheck, index: number | null): void {
  const filled = index === null ? {} : (entity.parents[index]?.params ?? {});
  const filledAt = index === null ? ['parents'] : ['parents', index, 'params'];
  for (const [name, { required }] of Object.entries(entity.actions.list?.params ?? {})) {
    if (required && !Object.hasOwn(filled, name) && !Object.hasOwn(entity.fixedParams, name)) {
      note(
        index === null ? ['actions', 'list'] : filledAt,
        `nothing fills the required list parameter ${name}: name it in parents or fixedParams`,
        listParamAt(name),
        ['fixedParams', name],
        filledAt,
      );
    }
  }
}

const treeFields = [
  ['flag', ['boolean']],
  ['parentField', ['object', 'any']],
  ['typeField', ['string']],
  ['rootField', ['string']],
  ['depthField', ['integer']],
  ['positionField', ['integer']],
] as const;

/** Listings inside listings: the fields that identify them and the fields that are filled in. */
export function checkRecursive({ entity, note, field }: EntityCheck): void {
  const { recursive } = entity;
  if (recursive === null) return;
  for (const [role, types] of treeFields) field(['recursive', role], recursive[role], types);
  const here = ['recursive', 'param'];
  const { param, rootField } = recursive;
  if (entity.actions.list?.params[param] === undefined) {
    note(here, `no such list parameter: ${JSON.stringify(param)}`, listParamAt(param));
  }
  if (entity.parents.length === 0) {
    note(['recursive'], 'expected parents: a tree begins at a parent record', ['parents']);
  }
  entity.parents.forEach((parent, index) => {
    if (!Object.hasOwn(parent.params, param)) {
      note(['parents', index, 'params'], `expected ${param}, which begins the tree`, here);
    }
    if (parent.inject[rootField] !== param) {
      const at = ['parents', index, 'inject'];
      const message = `expected ${rootField}: ${param}, which names the tree in every record`;
      note(at, message, here, ['recursive', 'rootField'], [...at, rootField]);
    }
  });
}
