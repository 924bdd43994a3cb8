import type { Note } from './check-names.ts';
import type { EntityFile } from './definition-file.ts';
import type { YamlPath } from './read-yaml.ts';
import { suggestName } from './suggest-name.ts';

/** Listings inside listings: the fields they are told by and the fields that are filled in. */
export function checkRecursive(entity: EntityFile, at: YamlPath, note: Note): void {
  const { recursive } = entity;
  if (recursive === null) {
    return;
  }
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
      note(here, `no such field: ${JSON.stringify(field)}${suggestName(field, Object.keys(entity.fields))}`);
    } else if (!types.some((allowed) => allowed === type)) {
      note(here, `expected a field of type ${types.join(' or ')}, ${field} is of type ${type}`);
    }
  }
  const here = [...at, 'recursive', 'param'];
  if (entity.actions.list?.params[recursive.param] === undefined) {
    note(here, `no such list parameter: ${JSON.stringify(recursive.param)}`);
  }
  if (entity.parents.length === 0) {
    note([...at, 'recursive'], 'expected parents: a tree begins at a parent record');
  }
  entity.parents.forEach((parent, index) => {
    if (!Object.hasOwn(parent.params, recursive.param)) {
      note([...at, 'parents', index, 'params'], `expected ${recursive.param}, which begins the tree`);
    }
    if (parent.inject[recursive.rootField] !== recursive.param) {
      note(
        [...at, 'parents', index, 'inject'],
        `expected ${recursive.rootField}: ${recursive.param}, which names the tree in every record`,
      );
    }
  });
}
