import type { Note } from './check-names.ts';
import type { DefinitionFile, EntityFile } from './definition-file.ts';
import type { YamlPath } from './read-yaml.ts';
import { suggestName } from './suggest-name.ts';

type ParentFile = EntityFile['parents'][number];

/** Parents exist, stand above their children, and say where every required parameter comes from. */
export function checkParents(file: DefinitionFile, note: Note): void {
  const names = Object.keys(file.entities);
  for (const [name, entity] of Object.entries(file.entities)) {
    const at = ['entities', name, 'parents'];
    if (entity.parents.length === 0) {
      checkRequired(entity, [], ['entities', name, 'actions', 'list'], note);
    }
    if (entity.parents.length > 0 && !entity.parents.some((parent) => parent.byDefault)) {
      note(at, 'expected at least one parent that is byDefault, or nobody would find this entity');
    }
    entity.parents.forEach((parent, index) => {
      const target = file.entities[parent.entity];
      if (target === undefined || !Object.hasOwn(file.entities, parent.entity)) {
        const suggestion = suggestName(parent.entity, names);
        note([...at, index, 'entity'], `no such entity: ${JSON.stringify(parent.entity)}${suggestion}`);
        return;
      }
      if (entity.parents.findIndex((other) => other.entity === parent.entity) !== index) {
        note([...at, index, 'entity'], `${parent.entity} is named twice`);
      }
      checkOrder(file, name, parent.entity, [...at, index, 'entity'], note);
      checkParent(entity, parent, target, [...at, index], note);
    });
  }
}

/** Files are read top-down: a parent's partitions exist before its children's. A cycle can never stand in order. */
function checkOrder(file: DefinitionFile, child: string, parent: string, at: YamlPath, note: Note): void {
  const names = Object.keys(file.entities);
  if (names.indexOf(parent) < names.indexOf(child)) {
    return;
  }
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
  if (from === to) {
    return [...seen, from];
  }
  if (seen.includes(from)) {
    return null;
  }
  for (const parent of file.entities[from]?.parents ?? []) {
    const path = pathUp(file, parent.entity, to, [...seen, from]);
    if (path !== null) {
      return path;
    }
  }
  return null;
}

function checkParent(
  entity: EntityFile,
  parent: ParentFile,
  target: EntityFile,
  at: YamlPath,
  note: Note,
): void {
  const declared = entity.actions.list?.params ?? {};
  const parentFields = Object.keys(target.fields);
  for (const [param, field] of Object.entries(parent.params)) {
    const here = [...at, 'params', param];
    const found = declared[param];
    if (found === undefined) {
      note(here, `no such list parameter${suggestName(param, Object.keys(declared))}`);
    } else if (!found.required) {
      note(here, 'expected a required list parameter: only those tell partitions apart');
    }
    if (!parentFields.includes(field)) {
      const suggestion = suggestName(field, parentFields);
      note(here, `no such field of ${parent.entity}: ${JSON.stringify(field)}${suggestion}`);
    }
  }
  checkRequired(entity, Object.keys(parent.params), [...at, 'params'], note);
  checkInject(entity, parent, at, note);
  parent.when.forEach((condition, index) => {
    if (!parentFields.includes(condition.field)) {
      const suggestion = suggestName(condition.field, parentFields);
      note(
        [...at, 'when', index, 'field'],
        `no such field of ${parent.entity}: ${JSON.stringify(condition.field)}${suggestion}`,
      );
    }
  });
}

function checkInject(entity: EntityFile, parent: ParentFile, at: YamlPath, note: Note): void {
  const declared = Object.keys(entity.fields);
  for (const [field, param] of Object.entries(parent.inject)) {
    if (!declared.includes(field)) {
      note([...at, 'inject', field], `no such field${suggestName(field, declared)}`);
    }
    if (!Object.hasOwn(parent.params, param)) {
      const given = Object.keys(parent.params).join(', ');
      note([...at, 'inject', field], `expected a parameter that this parent fills (${given}), got ${param}`);
    }
  }
}

function checkRequired(entity: EntityFile, filled: readonly string[], at: YamlPath, note: Note): void {
  for (const [name, { required }] of Object.entries(entity.actions.list?.params ?? {})) {
    if (required && !filled.includes(name) && !Object.hasOwn(entity.fixedParams, name)) {
      note(at, `nothing fills the required list parameter ${name}: name it in parents or fixedParams`);
    }
  }
}
