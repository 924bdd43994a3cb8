import { checkName } from './check-names.ts';
import { type EntityCheck, fieldAt } from './entity-check.ts';
import { noSuch } from './suggest-name.ts';

const nameInPath = /^(?:\*|[A-Za-z0-9_-]+)$/;

/** What is said of fields, and the columns that views make of them. */
export function checkDescribed({ entity, note, field }: EntityCheck): void {
  const exploded = Object.keys(entity.explode?.fields ?? {});
  const declared = Object.keys(entity.fields);
  for (const name of Object.keys(entity.descriptions)) {
    if (declared.includes(name) || exploded.includes(name)) continue;
    note(['descriptions', name], noSuch('field', name, [...declared, ...exploded]), fieldAt(name));
  }
  for (const [name, { from, path }] of Object.entries(entity.derived)) {
    const at = ['derived', name];
    checkName(name, at, note);
    if (declared.includes(name)) note(at, `${name} is a field: give the column another name`, fieldAt(name));
    from.forEach((source, index) => {
      const here = [...at, 'from', index];
      field(here, source, ['object', 'array', 'any']);
      if (from.indexOf(source) !== index) note(here, `${source} is named twice`);
      if (source === entity.explode?.field) {
        note(here, `${source} is exploded: it has no column`, ['explode']);
      }
    });
    const steps = path.split('.');
    if (steps.length > 8 || !steps.every((step) => nameInPath.test(step))) {
      const message = 'expected up to 8 names or * joined by dots, such as *.title.*.plain_text';
      note([...at, 'path'], `${message}, got ${JSON.stringify(path)}`);
    }
  }
}
