import type { EntityName } from '../core/names.ts';
import type { Params } from '../core/records.ts';
import { pagingParams } from '../definitions/paging-params.ts';
import { checkParams, convertParams } from '../definitions/check-params.ts';
import type { Definition, Entity, Param } from '../definitions/definition.ts';
import { suggestName } from '../definitions/suggest-name.ts';
import type { Note } from '../definitions/check-names.ts';
import { selectEntities } from './select-entities.ts';
import type { EntitySettings } from './settings.ts';
import type { ConnectorFile, EntitySettingsFile } from './connector-file.ts';

const defaultFullEveryMs = 7 * 86_400_000;

/** Where an entity's settings stand, and what its connector says for all of them. */
interface OfConnector extends Pick<EntitySettings, 'freshWithinMs' | 'onSchemaChange'> {
  readonly at: readonly string[];
}

/** The entities that a connector reads, in the definition's order, with what the file says of each. */
export function buildEntities(
  file: ConnectorFile,
  definition: Definition,
  { at, freshWithinMs }: Pick<OfConnector, 'at' | 'freshWithinMs'>,
  note: Note,
): ReadonlyMap<EntityName, EntitySettings> {
  const built = new Map<EntityName, EntitySettings>();
  const names = [...definition.entities.keys()];
  for (const name of Object.keys(file.entities)) {
    if (!names.some((known) => known === name)) {
      note([...at, 'entities', name], `no such entity in ${definition.name}${suggestName(name, names)}`);
    }
  }
  for (const [name, entity] of definition.entities) {
    const { onSchemaChange } = file;
    const here = { at: [...at, 'entities', name], freshWithinMs, onSchemaChange };
    built.set(name, buildEntity(entity, file.entities[name] ?? {}, here, note));
  }
  return selectEntities(built, { file, definition, at, note });
}

function buildEntity(
  entity: Entity,
  file: EntitySettingsFile,
  { at, freshWithinMs, onSchemaChange }: OfConnector,
  note: Note,
): EntitySettings {
  return {
    variants: buildVariants(entity, file, at, note),
    parents: buildParents(entity, file.parents, [...at, 'parents'], note),
    fullEveryMs: file.fullEvery ?? defaultFullEveryMs,
    freshWithinMs: file.freshWithin ?? freshWithinMs,
    onSchemaChange: file.onSchemaChange ?? onSchemaChange,
    ...(file.totals === undefined ? {} : { trustsTotal: file.totals === 'trust' }),
  };
}

function buildVariants(
  entity: Entity,
  file: EntitySettingsFile,
  at: readonly string[],
  note: Note,
): readonly Params[] {
  if (file.params !== undefined && file.variants !== undefined) {
    note([...at, 'variants'], 'expected either params or variants, got both');
  }
  const variants: Params[] = [];
  const seen = new Set<string>();
  for (const [index, params] of (file.variants ?? [file.params ?? {}]).entries()) {
    const here = file.variants === undefined ? [...at, 'params'] : [...at, 'variants', index];
    const variant = buildVariant(entity, params, here, note);
    // Canonical enough: a parameter's value is converted, only the order of the names differs.
    const text = JSON.stringify(Object.entries(variant).sort(([left], [right]) => (left < right ? -1 : 1)));
    if (seen.has(text)) {
      const message = 'says the same as another variant: every record would be read twice';
      note(here, message, [...at, 'variants']);
    }
    seen.add(text);
    variants.push(variant);
  }
  return variants;
}

function buildVariant(entity: Entity, params: Params, at: readonly (string | number)[], note: Note): Params {
  const list = entity.actions.get('list') ?? { params: new Map<string, Param>() };
  const taken = takenParams(entity);
  for (const [name, value] of Object.entries(params)) {
    const why = taken.get(name);
    if (why !== undefined) {
      note([...at, name], why);
      continue;
    }
    for (const message of checkParams(list, { [name]: value })) {
      note([...at, name], message);
    }
  }
  return convertParams(list, params);
}

/** Parameters that the program sets, and why a user may not. */
function takenParams(entity: Entity): ReadonlyMap<string, string> {
  return new Map([
    ...pagingParams(entity.pagination).map(({ name }): [string, string] => [
      name,
      'is set page by page; leave it out',
    ]),
    ...Object.keys(entity.fixedParams).map((name): [string, string] => [
      name,
      'is fixed by the definition; leave it out',
    ]),
    ...Object.keys(entity.order?.params ?? {}).map((name): [string, string] => [
      name,
      'sets the order that a complete read needs; leave it out',
    ]),
    ...entity.parents.flatMap((parent) =>
      [...parent.params.keys()].map((name): [string, string] => [
        name,
        `is filled from every record of ${parent.entity}; leave it out`,
      ]),
    ),
  ]);
}

function buildParents(
  entity: Entity,
  chosen: readonly string[] | undefined,
  at: readonly string[],
  note: Note,
): readonly EntityName[] {
  if (chosen === undefined) {
    return entity.parents.filter((parent) => parent.byDefault).map((parent) => parent.entity);
  }
  const known = entity.parents.map((parent) => parent.entity);
  for (const [index, name] of chosen.entries()) {
    if (!known.some((parent) => parent === name)) {
      const all = known.length === 0 ? 'it has none' : `its parents are ${known.join(', ')}`;
      note([...at, String(index)], `${JSON.stringify(name)} is no parent of ${entity.name}: ${all}`);
    }
  }
  return known.filter((parent) => chosen.includes(parent));
}
