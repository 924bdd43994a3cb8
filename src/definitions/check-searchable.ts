import { checkRemoteName, checkTwice, type EntityCheck, fieldAt } from './check-names.ts';
import type { EntityFile } from './definition-file.ts';
import type { YamlPath } from './read-yaml.ts';
import { suggestName } from './suggest-name.ts';
import { isReservedName } from './yaml-data.ts';

/**
 * The fields of the indexed store. What one is made from may be undeclared (such a field is kept beside the columns),
 * so only what is never stored, and what looks like a slip of the pen, is a mistake.
 */
export function checkSearchable(check: EntityCheck): void {
  for (const [name, field] of Object.entries(check.entity.searchable)) {
    checkRemoteName(name, ['searchable', name], check.note);
    const { from = [] } = field;
    const at = ['searchable', name, 'from'];
    checkTwice(from, at, check.note);
    from.forEach((source, index) => checkFrom(check, source, [...at, index]));
    if (field.shape === 'pairs') checkPairs(check, name, field);
  }
}

function checkFrom({ entity, note }: EntityCheck, name: string, at: YamlPath): void {
  if (entity.ignored.includes(name)) {
    note(at, `${name} is ignored: it is not stored, and nothing can be made from it`, ['ignored']);
    return;
  }
  if (name === entity.explode?.field) {
    note(at, `${name} is exploded: name the fields of its elements`, ['explode']);
    return;
  }
  const known = [...Object.keys(entity.fields), ...Object.keys(entity.explode?.fields ?? {})];
  if (known.includes(name)) return;
  const suggestion = suggestName(name, known);
  if (suggestion !== '' || name === '' || isReservedName(name)) {
    note(at, `no such field: ${JSON.stringify(name)}${suggestion}`, ['fields'], ['explode']);
  }
}

/** `pairs` makes an array of `{name, value}` from an object. */
function checkPairs(
  { entity, note }: EntityCheck,
  name: string,
  { type, from = [name] }: EntityFile['searchable'][string],
): void {
  const at = ['searchable', name];
  const shapeAt = [...at, 'shape'];
  if (type !== 'array') note([...at, 'type'], `expected array beside shape: pairs, got ${type}`, shapeAt);
  const fields = new Map(Object.entries({ ...entity.fields, ...entity.explode?.fields }));
  for (const source of from) {
    const declared = fields.get(source);
    if (declared !== undefined && declared !== 'object' && declared !== 'any') {
      const message = `pairs are made from objects; ${source} is of type ${declared}`;
      note(shapeAt, message, fieldAt(source), ['explode'], [...at, 'from']);
    }
  }
}
