import type { EntityName } from '../core/names.ts';
import type { Definition } from '../definitions/definition.ts';
import { suggestName } from '../definitions/suggest-name.ts';
import type { Note } from '../definitions/check-names.ts';
import type { EntitySettings } from './settings.ts';
import type { ConnectorFile } from './connector-file.ts';

interface Selection {
  readonly file: ConnectorFile;
  readonly definition: Definition;
  readonly at: readonly string[];
  readonly note: Note;
}

/**
 * Leaves the entities that `include` names (all without it) and `exclude` does not. An entity is found through its
 * parents' records, so each that stays needs its parents to stay; leaving one out silently would look like an empty
 * table.
 */
export function selectEntities(
  entities: ReadonlyMap<EntityName, EntitySettings>,
  selection: Selection,
): ReadonlyMap<EntityName, EntitySettings> {
  const { file, at, note } = selection;
  checkNames('include', file.include ?? [], selection);
  checkNames('exclude', file.exclude, selection);
  const selected = new Map(
    [...entities].filter(
      ([name]) => (file.include === undefined || file.include.includes(name)) && !file.exclude.includes(name),
    ),
  );
  if (selected.size === 0) {
    note(at, 'expected at least one entity to read, got none', [...at, 'include'], [...at, 'exclude']);
  }
  checkExcludedParents(entities, selected, selection);
  checkIncludedChildren(selected, selection);
  return selected;
}

function checkNames(
  key: 'include' | 'exclude',
  names: readonly string[],
  { definition, at, note }: Selection,
): void {
  const known = [...definition.entities.keys()];
  names.forEach((name, index) => {
    if (!known.some((entity) => entity === name)) {
      note(
        [...at, key, String(index)],
        `no such entity in ${definition.name}: ${JSON.stringify(name)}${suggestName(name, known)}`,
      );
    }
  });
}

function checkExcludedParents(
  entities: ReadonlyMap<EntityName, EntitySettings>,
  selected: ReadonlyMap<EntityName, EntitySettings>,
  { file, at, note }: Selection,
): void {
  for (const name of entities.keys()) {
    const index = file.exclude.indexOf(name);
    const orphans = index === -1 ? [] : descendants(name, entities).filter((child) => selected.has(child));
    if (orphans.length > 0) {
      note(
        [...at, 'exclude', String(index)],
        `without ${name} nothing leads to ${orphans.join(', ')}: exclude ${orphans.length === 1 ? 'it' : 'them'} as well`,
        [...at, 'include'],
        [...at, 'exclude'],
        ...parentsOf(orphans, at),
      );
    }
  }
}

function checkIncludedChildren(
  selected: ReadonlyMap<EntityName, EntitySettings>,
  { file, at, note }: Selection,
): void {
  for (const [name, { parents }] of selected) {
    const index = (file.include ?? []).indexOf(name);
    const missing = parents.filter((parent) => !selected.has(parent) && !file.exclude.includes(parent));
    if (index !== -1 && missing.length > 0) {
      note(
        [...at, 'include', String(index)],
        `${name} is found through ${missing.join(', ')}: include ${missing.length === 1 ? 'it' : 'them'} as well`,
        [...at, 'include'],
        [...at, 'exclude'],
        ...parentsOf([name], at),
      );
    }
  }
}

/** Where the file chooses the parents of these entities. */
function parentsOf(names: readonly EntityName[], at: readonly string[]): readonly (readonly string[])[] {
  return names.map((name) => [...at, 'entities', name, 'parents']);
}

/** Everything that is found through an entity, near ones first. */
function descendants(
  name: EntityName,
  entities: ReadonlyMap<EntityName, EntitySettings>,
): readonly EntityName[] {
  const found: EntityName[] = [];
  for (const [child, { parents }] of entities) {
    // Parents stand before their children, so one pass finds grandchildren too.
    if (parents.includes(name) || parents.some((parent) => found.includes(parent))) found.push(child);
  }
  return found;
}
