import { fieldAt, openEntityCheck, type EntityCheck, type Note } from './check-names.ts';
import type { DefinitionFile } from './definition-file.ts';
import { noSuch } from './suggest-name.ts';

/** Each reference leads from a declared field to a field of an entity that refers to nothing itself. */
export function checkReferences({ entities }: DefinitionFile, note: Note): void {
  for (const [name, entity] of Object.entries(entities)) {
    const check = openEntityCheck(entity, ['entities', name], note);
    for (const [path, target] of Object.entries(entity.references)) {
      const at = ['references', path];
      checkPath(check, path);
      const [owner = '', field = '', ...more] = target.split('.');
      const found = Object.hasOwn(entities, owner) ? entities[owner] : undefined;
      if (field === '' || more.length > 0) {
        check.note(at, `expected an entity and its field, such as lists.id, got ${JSON.stringify(target)}`);
      } else if (found === undefined) {
        note(['entities', name, ...at], noSuch('entity', owner, Object.keys(entities)), ['entities', owner]);
      } else if (!Object.hasOwn(found.fields, field)) {
        const missing = noSuch(`field of ${owner}`, field, Object.keys(found.fields));
        note(['entities', name, ...at], missing, ['entities', owner, ...fieldAt(field)]);
      } else if (owner === name && field === path) {
        check.note(at, 'expected another field than the field itself');
      } else if (Object.hasOwn(found.references, field)) {
        check.note(at, `${target} itself refers to ${found.references[field] ?? ''}: name that`);
      }
    }
  }
}

function checkPath({ entity, note, field }: EntityCheck, path: string): void {
  const at = ['references', path];
  const [first = '', ...rest] = path.split('.');
  if (rest.includes('')) note(at, `expected names joined by dots, got ${JSON.stringify(path)}`);
  field(at, first);
  if (entity.parents.some(({ inject }) => Object.hasOwn(inject, path))) {
    note(at, `${path} is filled in by parents, which say where it leads: leave it out`, ['parents']);
  }
}
