import { checkRemoteName, type Note } from './check-names.ts';
import type { EntityFile } from './definition-file.ts';
import { isReservedName } from './yaml-data.ts';
import type { YamlPath } from './yaml-places.ts';
import { suggestName } from './suggest-name.ts';

type SearchableFile = EntityFile['searchable'][string];

/**
 * The fields of the indexed store. What one is made from may be undeclared (such a field is kept beside the columns), so only
 * what is never stored, and what looks like a slip of the pen, is a mistake.
 */
export function checkSearchable(entity: EntityFile, entityAt: YamlPath, note: Note): void {
  for (const [name, field] of Object.entries(entity.searchable)) {
    const at = [...entityAt, 'searchable', name];
    checkRemoteName(name, at, note);
    field.from?.forEach((_, index) =>
      checkFrom(entity, field.from ?? [], index, entityAt, [...at, 'from'], note),
    );
    if (field.shape === 'pairs') checkPairs(entity, name, field, entityAt, note);
  }
}

function checkFrom(
  entity: EntityFile,
  from: readonly string[],
  index: number,
  entityAt: YamlPath,
  fromAt: YamlPath,
  note: Note,
): void {
  const at = [...fromAt, index];
  const name = from[index] ?? '';
  if (from.indexOf(name) !== index) note(at, `${name} is named twice`);
  if (entity.ignored.includes(name)) {
    note(at, `${name} is ignored: it is not stored, and nothing can be made from it`, [
      ...entityAt,
      'ignored',
    ]);
    return;
  }
  if (name === entity.explode?.field) {
    note(at, `${name} is exploded: name the fields of its elements`, [...entityAt, 'explode']);
    return;
  }
  const known = [...Object.keys(entity.fields), ...Object.keys(entity.explode?.fields ?? {})];
  if (known.includes(name)) return;
  const suggestion = suggestName(name, known);
  if (suggestion !== '' || name === '' || isReservedName(name)) {
    const message = `no such field: ${JSON.stringify(name)}${suggestion}`;
    note(at, message, [...entityAt, 'fields'], [...entityAt, 'explode']);
  }
}

/** `pairs` makes an array of `{name, value}` from an object. */
function checkPairs(
  entity: EntityFile,
  name: string,
  { type, from = [name] }: SearchableFile,
  entityAt: YamlPath,
  note: Note,
): void {
  const at = [...entityAt, 'searchable', name];
  if (type !== 'array') {
    note([...at, 'type'], `expected array beside shape: pairs, got ${type}`, [...at, 'shape']);
  }
  for (const source of from) {
    const declared = new Map(Object.entries({ ...entity.fields, ...entity.explode?.fields })).get(source);
    if (declared !== undefined && declared !== 'object' && declared !== 'any') {
      note(
        [...at, 'shape'],
        `pairs are made from objects; ${source} is of type ${declared}`,
        [...entityAt, 'fields', source],
        [...entityAt, 'explode'],
        [...at, 'from'],
      );
    }
  }
}
