import { SyncError } from '../core/errors.ts';
import type { EntityName } from '../core/names.ts';
import type { Definition } from '../definitions/definition.ts';
import type { ChosenEntities, ChosenEntity } from './chosen-entities.ts';

export interface Selection {
  readonly entities: ChosenEntities;
  /** Read although nobody named them: the selected ones are found through them. */
  readonly addedParents: readonly EntityName[];
}

/**
 * Narrows a connector's entities to those that match one of the `select` globs (all of them where there is none) and
 * none of `exclude`; excluded entities take their children with them. Throws USAGE when a glob matches nothing.
 */
export function selectEntities(
  definition: Definition,
  chosen: ChosenEntities,
  globs: { readonly select: readonly string[]; readonly exclude: readonly string[] },
): Selection {
  const names = [...chosen.keys()];
  for (const glob of [...globs.select, ...globs.exclude]) {
    if (!names.some((name) => matches(glob, name))) {
      throw new SyncError(`No entity matches "${glob}"; there are ${names.join(', ')}.`, {
        code: 'USAGE',
        recovery: 'stop',
      });
    }
  }
  const excluded = new Set(names.filter((name) => globs.exclude.some((glob) => matches(glob, name))));
  const selected = names.filter(
    (name) => globs.select.length === 0 || globs.select.some((glob) => matches(glob, name)),
  );
  const kept = new Map<EntityName, ChosenEntity>();
  const addedParents: EntityName[] = [];

  /** True when the entity can be read: a root, or at least one of its parents can. */
  function keep(name: EntityName, isNamed: boolean): boolean {
    const entity = chosen.get(name);
    if (entity === undefined || excluded.has(name)) return false;
    if (kept.has(name)) return true;
    const isRoot = definition.entities.get(name)?.parents.length === 0;
    const parents = entity.parents.filter((parent) => keep(parent, selected.includes(parent)));
    if (!isRoot && parents.length === 0) return false;
    kept.set(name, { ...entity, parents });
    if (!isNamed) addedParents.push(name);
    return true;
  }

  for (const name of selected) keep(name, true);
  if (kept.size === 0) {
    throw new SyncError('Nothing to read: every selected entity, or its parent, is excluded.', {
      code: 'USAGE',
      recovery: 'stop',
    });
  }
  const inOrder = [...definition.entities.keys()].flatMap((name): [EntityName, ChosenEntity][] => {
    const entity = kept.get(name);
    return entity === undefined ? [] : [[name, entity]];
  });
  return { entities: new Map(inOrder), addedParents };
}

function matches(glob: string, name: string): boolean {
  const pattern = glob.split('*').map((part) => part.replaceAll(/[.+?^${}()|[\]\\]/g, String.raw`\$&`));
  return new RegExp(`^${pattern.join('.*')}$`).test(name);
}
