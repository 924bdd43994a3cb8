import type { Note } from './check-names.ts';
import type { EntityFile } from './definition-file.ts';
import { noSuch } from './suggest-name.ts';
import type { YamlPath } from './yaml-places.ts';

/** Notes a field that the entity does not declare, or declares with another type. */
export function checkField(
  entity: EntityFile,
  field: string,
  types: readonly string[],
  { at, entityAt }: { readonly at: YamlPath; readonly entityAt: YamlPath },
  note: Note,
): void {
  const type = Object.hasOwn(entity.fields, field) ? entity.fields[field] : undefined;
  const declaration = [...entityAt, 'fields', field];
  if (type === undefined) note(at, noSuch('field', field, Object.keys(entity.fields)), declaration);
  else if (!types.includes(type)) {
    note(at, `expected a field of type ${types.join(' or ')}, ${field} is of type ${type}`, declaration);
  }
}

/** The same for a parameter of \`list\` that takes a text. */
export function checkTextParam(
  entity: EntityFile,
  name: string,
  { at, entityAt }: { readonly at: YamlPath; readonly entityAt: YamlPath },
  note: Note,
): void {
  const declared = entity.actions.list?.params ?? {};
  const type = declared[name]?.type;
  const declaration = [...entityAt, 'actions', 'list', 'params', name];
  if (type === undefined) note(at, noSuch('list parameter', name, Object.keys(declared)), declaration);
  else if (type !== 'string') {
    note(at, `expected a list parameter of type string, ${name} is of type ${type}`, declaration);
  }
}
