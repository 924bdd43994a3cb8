import type { FieldType } from '../core/records.ts';
import { checkName, checkTwice, fieldAt, type EntityCheck } from './check-names.ts';
import type { YamlPath } from './read-yaml.ts';
import { noSuch } from './suggest-name.ts';

const nameInPath = /^(?:\*|[A-Za-z0-9_-]+)$/;
/** Names that people give to properties may hold anything that can be read. */
const unpackedName = /^[^\p{C}]{1,200}$/u;
const jsonTypes = ['object', 'array', 'any'] as const;

/** Checks the descriptions of fields, and the derived columns of views. */
export function checkDescribed({ entity, note, field }: EntityCheck): void {
  const exploded = Object.keys(entity.explode?.fields ?? {});
  const declared = Object.keys(entity.fields);
  for (const name of Object.keys(entity.descriptions)) {
    if (declared.includes(name) || exploded.includes(name)) continue;
    note(['descriptions', name], noSuch('field', name, [...declared, ...exploded]), fieldAt(name));
  }
  const checkColumn = (name: string, at: YamlPath): void => {
    checkName(name, at, note);
    if (declared.includes(name)) note(at, `${name} is a field: give the column another name`, fieldAt(name));
  };
  const checkSource = (source: string, at: YamlPath, types?: readonly FieldType[]): void => {
    field(at, source, types);
    if (source === entity.explode?.field) note(at, `${source} is exploded: it has no column`, ['explode']);
  };
  for (const [name, { from }] of Object.entries(entity.unpack)) {
    const at = ['unpack', name];
    checkColumn(name, at);
    if (name in entity.derived) note(at, `${name} is named in derived too`, ['derived', name]);
    const [source = '', ...steps] = from.split('.');
    checkSource(source, [...at, 'from'], steps.length === 0 ? undefined : jsonTypes);
    if (steps.length > 8 || !steps.every((step) => unpackedName.test(step))) {
      const message = 'expected a field, and up to 8 names in it, joined by dots, such as merge_fields.PHONE';
      note([...at, 'from'], `${message}, got ${JSON.stringify(from)}`);
    }
  }
  for (const [name, { from, path }] of Object.entries(entity.derived)) {
    const at = ['derived', name];
    checkColumn(name, at);
    checkTwice(from, [...at, 'from'], note);
    from.forEach((source, index) => checkSource(source, [...at, 'from', index], jsonTypes));
    const steps = path.split('.');
    if (steps.length > 8 || !steps.every((step) => nameInPath.test(step))) {
      const message = 'expected up to 8 names or * joined by dots, such as *.title.*.plain_text';
      note([...at, 'path'], `${message}, got ${JSON.stringify(path)}`);
    }
  }
}
