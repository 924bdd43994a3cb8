import type { Note } from './check-names.ts';
import type { EntityFile } from './definition-file.ts';
import type { YamlPath } from './yaml-places.ts';
import { pagingParams } from './paging-params.ts';
import { suggestName } from './suggest-name.ts';

/** What full walks and backfills rest on: listings that only grow, deletes, records that listings leave out, windows. */
export function checkReading(entity: EntityFile, at: YamlPath, note: Note): void {
  if (entity.growsOnly && entity.deletes !== 'never') {
    note(
      [...at, 'growsOnly'],
      `expected deletes: never beside it (got ${entity.deletes}): rows of such a listing never leave`,
      [...at, 'deletes'],
    );
  }
  checkUnlisted(entity, at, note);
  checkWindow(entity, at, note);
}

function checkUnlisted(entity: EntityFile, entityAt: YamlPath, note: Note): void {
  entity.unlisted.forEach(({ field, values }, index) => {
    const at = [...entityAt, 'unlisted', index];
    const declaration = [...entityAt, 'fields', field];
    const type = Object.hasOwn(entity.fields, field) ? entity.fields[field] : undefined;
    if (type === undefined) {
      const suggestion = suggestName(field, Object.keys(entity.fields));
      note([...at, 'field'], `no such field: ${JSON.stringify(field)}${suggestion}`, declaration);
      return;
    }
    if (type !== 'string' && type !== 'boolean') {
      note(
        [...at, 'field'],
        `expected a field of type string or boolean, ${field} is of type ${type}`,
        declaration,
      );
      return;
    }
    values.forEach((value, position) => {
      if (typeof value !== type) {
        note(
          [...at, 'values', position],
          `expected a ${type}, the type of ${field}, got ${JSON.stringify(value)}`,
          declaration,
        );
      }
    });
  });
}

function checkWindow(entity: EntityFile, entityAt: YamlPath, note: Note): void {
  const { window } = entity;
  if (window === null) return;
  const declared = entity.actions.list?.params ?? {};
  for (const bound of ['since', 'before'] as const) {
    const name = window[bound];
    const at = [...entityAt, 'window', bound];
    const declaration = [...entityAt, 'actions', 'list', 'params', name];
    const param = declared[name];
    if (param === undefined) {
      const suggestion = suggestName(name, Object.keys(declared));
      note(at, `no such list parameter: ${JSON.stringify(name)}${suggestion}`, declaration);
    } else if (param.type !== 'string') {
      note(at, `expected a list parameter of type string, ${name} is of type ${param.type}`, declaration);
    }
    if (
      pagingParams(entity.pagination).some((param) => param.name === name) ||
      Object.hasOwn(entity.fixedParams, name)
    ) {
      note(
        at,
        `${name} is set elsewhere: it cannot have two values`,
        [...entityAt, 'pagination'],
        [...entityAt, 'fixedParams'],
      );
    }
  }
  if (window.since === window.before) {
    note([...entityAt, 'window'], `expected two parameters, got ${window.since} for both bounds`);
  }
}
