import { checkField } from './check-fields.ts';
import type { Note } from './check-names.ts';
import type { DefinitionFile, EntityFile } from './definition-file.ts';
import { noSuch, suggestName } from './suggest-name.ts';
import type { YamlPath } from './yaml-places.ts';

type ParentFile = EntityFile['parents'][number];

/** Parents exist, stand above their children, and say where every required parameter comes from. */
export function checkParents(file: DefinitionFile, note: Note): void {
  const names = Object.keys(file.entities);
  for (const [name, entity] of Object.entries(file.entities)) {
    const at = ['entities', name, 'parents'];
    if (entity.parents.length === 0) checkRequired(entity, null, ['entities', name], note);
    if (entity.parents.length > 0 && !entity.parents.some((parent) => parent.byDefault)) {
      note(at, 'expected at least one parent that is byDefault, or this entity is never read', at);
    }
    entity.parents.forEach((parent, index) => {
      const target = file.entities[parent.entity];
      if (target === undefined || !Object.hasOwn(file.entities, parent.entity)) {
        const message = noSuch('entity', parent.entity, names);
        note([...at, index, 'entity'], message, ['entities', parent.entity]);
        return;
      }
      if (entity.parents.findIndex((other) => other.entity === parent.entity) !== index) {
        note([...at, index, 'entity'], `${parent.entity} is named twice`);
      }
      checkOrder(file, name, parent.entity, [...at, index, 'entity'], note);
      checkParent(entity, index, target, ['entities', name], note);
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

function checkParent(
  entity: EntityFile,
  index: number,
  target: EntityFile,
  entityAt: YamlPath,
  note: Note,
): void {
  const at = [...entityAt, 'parents', index];
  const parent = entity.parents[index];
  if (parent === undefined) return;
  const declared = entity.actions.list?.params ?? {};
  const parentFields = Object.keys(target.fields);
  for (const [param, field] of Object.entries(parent.params)) {
    const here = [...at, 'params', param];
    const declaration = [...entityAt, 'actions', 'list', 'params', param];
    const found = declared[param];
    if (found === undefined) {
      note(here, `no such list parameter${suggestName(param, Object.keys(declared))}`, declaration);
    } else if (!found.required) {
      note(here, 'expected a required list parameter: only those tell partitions apart', declaration);
    }
    if (!parentFields.includes(field)) {
      const message = noSuch(`field of ${parent.entity}`, field, parentFields);
      note(here, message, ['entities', parent.entity, 'fields', field]);
    }
  }
  checkRequired(entity, index, entityAt, note);
  checkInject(entity, parent, entityAt, at, note);
  parent.when.forEach(({ field }, position) => {
    if (!parentFields.includes(field)) {
      const message = noSuch(`field of ${parent.entity}`, field, parentFields);
      note([...at, 'when', position, 'field'], message, ['entities', parent.entity, 'fields', field]);
    }
  });
  checkMarker(parent, target, at, note);
}

/** A marker is compared as a text and read as a time. */
function checkMarker(parent: ParentFile, target: EntityFile, at: YamlPath, note: Note): void {
  if (parent.marker === null) return;
  const { field } = parent.marker;
  const here = [...at, 'marker', 'field'];
  const declaration = ['entities', parent.entity, 'fields', field];
  const type = target.fields[field];
  if (type === undefined) {
    note(here, noSuch(`field of ${parent.entity}`, field, Object.keys(target.fields)), declaration);
  } else if (type !== 'string') {
    note(here, `expected a field of type string, ${field} is of type ${type}`, declaration);
  }
}

function checkInject(
  entity: EntityFile,
  parent: ParentFile,
  entityAt: YamlPath,
  at: YamlPath,
  note: Note,
): void {
  const declared = Object.keys(entity.fields);
  for (const [field, param] of Object.entries(parent.inject)) {
    if (!declared.includes(field)) {
      const message = `no such field${suggestName(field, declared)}`;
      note([...at, 'inject', field], message, [...entityAt, 'fields', field]);
    }
    if (!Object.hasOwn(parent.params, param)) {
      const given = Object.keys(parent.params).join(', ');
      const message = `expected a parameter that this parent fills (${given}), got ${param}`;
      note([...at, 'inject', field], message, [...at, 'params', param]);
    }
  }
}

/** Of one parent, or of an entity without parents where `index` is null. */
function checkRequired(entity: EntityFile, index: number | null, entityAt: YamlPath, note: Note): void {
  const filled = index === null ? {} : (entity.parents[index]?.params ?? {});
  const list = [...entityAt, 'actions', 'list'];
  const filledAt = index === null ? [...entityAt, 'parents'] : [...entityAt, 'parents', index, 'params'];
  for (const [name, { required }] of Object.entries(entity.actions.list?.params ?? {})) {
    if (required && !Object.hasOwn(filled, name) && !Object.hasOwn(entity.fixedParams, name)) {
      note(
        index === null ? list : filledAt,
        `nothing fills the required list parameter ${name}: name it in parents or fixedParams`,
        [...list, 'params', name],
        [...entityAt, 'fixedParams', name],
        filledAt,
      );
    }
  }
}

/** Listings inside listings: the fields that identify them and the fields that are filled in. */
export function checkRecursive(entity: EntityFile, at: YamlPath, note: Note): void {
  const { recursive } = entity;
  if (recursive === null) return;
  const wanted = [
    ['flag', ['boolean']],
    ['parentField', ['object', 'any']],
    ['typeField', ['string']],
    ['rootField', ['string']],
    ['depthField', ['integer']],
    ['positionField', ['integer']],
  ] as const;
  for (const [role, types] of wanted) {
    checkField(entity, recursive[role], types, { at: [...at, 'recursive', role], entityAt: at }, note);
  }
  const here = [...at, 'recursive', 'param'];
  if (entity.actions.list?.params[recursive.param] === undefined) {
    const declaration = [...at, 'actions', 'list', 'params', recursive.param];
    note(here, `no such list parameter: ${JSON.stringify(recursive.param)}`, declaration);
  }
  if (entity.parents.length === 0) {
    note([...at, 'recursive'], 'expected parents: a tree begins at a parent record', [...at, 'parents']);
  }
  entity.parents.forEach((parent, index) => {
    if (!Object.hasOwn(parent.params, recursive.param)) {
      const message = `expected ${recursive.param}, which begins the tree`;
      note([...at, 'parents', index, 'params'], message, here);
    }
    if (parent.inject[recursive.rootField] !== recursive.param) {
      note(
        [...at, 'parents', index, 'inject'],
        `expected ${recursive.rootField}: ${recursive.param}, which names the tree in every record`,
        here,
        [...at, 'recursive', 'rootField'],
        [...at, 'parents', index, 'inject', recursive.rootField],
      );
    }
  });
}
