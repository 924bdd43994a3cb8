import { checkField, checkTextParam } from './check-fields.ts';
import type { Note } from './check-names.ts';
import type { EntityFile } from './definition-file.ts';
import type { YamlPath } from './yaml-places.ts';
import { pagingParams } from './paging-params.ts';

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
    checkField(entity, field, ['string', 'boolean'], { at: [...at, 'field'], entityAt }, note);
    if (type !== 'string' && type !== 'boolean') return;
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
  for (const bound of ['since', 'before'] as const) {
    const name = window[bound];
    const at = [...entityAt, 'window', bound];
    checkTextParam(entity, name, { at, entityAt }, note);
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
