import type { Note } from './check-names.ts';
import type { EntityFile } from './definition-file.ts';
import type { YamlPath } from './yaml-places.ts';
import { suggestName } from './suggest-name.ts';

/** Listings inside listings: the fields they are told by and the fields that are filled in. */
export function checkRecursive(entity: EntityFile, at: YamlPath, note: Note): void {
  const { recursive } = entity;
  if (recursive === null) return;
  const wanted = [
    ['flag', ['boolean']],
    ['parentField', ['object', 'any']],
    ['typeField', ['string']],
    ['rootField', ['string']],
    ['depthField', ['integer']],
    ['positionField', ['integer']],
  ] as const;
  for (const [role, types] of wanted) {
    const field = recursive[role];
    const type = entity.fields[field];
    const here = [...at, 'recursive', role];
    if (type === undefined) {
      const suggestion = suggestName(field, Object.keys(entity.fields));
      note(here, `no such field: ${JSON.stringify(field)}${suggestion}`, [...at, 'fields', field]);
    } else if (!types.some((allowed) => allowed === type)) {
      const message = `expected a field of type ${types.join(' or ')}, ${field} is of type ${type}`;
      note(here, message, [...at, 'fields', field]);
    }
  }
  const here = [...at, 'recursive', 'param'];
  if (entity.actions.list?.params[recursive.param] === undefined) {
    const declaration = [...at, 'actions', 'list', 'params', recursive.param];
    note(here, `no such list parameter: ${JSON.stringify(recursive.param)}`, declaration);
  }
  if (entity.parents.length === 0) {
    note([...at, 'recursive'], 'expected parents: a tree begins at a parent record', [...at, 'parents']);
  }
  entity.parents.forEach((parent, index) => {
    if (!Object.hasOwn(parent.params, recursive.param)) {
      const message = `expected ${recursive.param}, which begins the tree`;
      note([...at, 'parents', index, 'params'], message, here);
    }
    if (parent.inject[recursive.rootField] !== recursive.param) {
      note(
        [...at, 'parents', index, 'inject'],
        `expected ${recursive.rootField}: ${recursive.param}, which names the tree in every record`,
        here,
        [...at, 'recursive', 'rootField'],
        [...at, 'parents', index, 'inject', recursive.rootField],
      );
    }
  });
}
