import { checkKey, checkKnown, checkName, type Note } from './check-names.ts';
import type { EntityFile } from './definition-file.ts';
import type { YamlPath } from './yaml-places.ts';
import { suggestName } from './suggest-name.ts';

/** An array whose elements become rows of a table of their own. */
export function checkExplode(entity: EntityFile, at: YamlPath, note: Note): void {
  const { explode } = entity;
  if (explode === null) return;
  const here = [...at, 'explode'];
  const declared = Object.keys(entity.fields);
  const fieldOf = (name: string): YamlPath => [...at, 'fields', name];
  checkName(explode.into, [...here, 'into'], note);
  const type = entity.fields[explode.field];
  if (type !== 'array') {
    const got =
      type === undefined
        ? `there is no field ${JSON.stringify(explode.field)}${suggestName(explode.field, declared)}`
        : `${explode.field} is of type ${type}`;
    note([...here, 'field'], `expected an array field; ${got}`, fieldOf(explode.field));
  }
  checkKnown(explode.carry, declared, 'field', [...here, 'carry'], note, (name) => [fieldOf(name)]);
  for (const field of Object.keys(explode.fields)) {
    checkName(field, [...here, 'fields', field], note);
    if (explode.carry.includes(field)) {
      note([...here, 'fields', field], 'is also carried over from the record: rename or drop one');
    }
  }
  const columns = [...explode.carry, ...Object.keys(explode.fields)];
  const placesOf = (name: string): readonly YamlPath[] => [
    [...here, 'carry'],
    [...here, 'fields', name],
    fieldOf(name),
  ];
  const typeOf = (name: string): string | undefined => explode.fields[name] ?? entity.fields[name];
  checkKnown(explode.key, columns, 'field', [...here, 'key'], note, placesOf);
  checkKey(explode.key, typeOf, [...here, 'key'], note, placesOf);
}
