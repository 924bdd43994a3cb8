import { isLikeGlob, type EntityName } from '../core/names.ts';
import type { Params } from '../core/records.ts';
import type { JsonValue } from '../core/json.ts';
import { valuesOf, type Definition, type Entity } from '../definitions/definition.ts';
import { checkParam, convertValue } from '../definitions/params.ts';
import { SyncError, usage } from '../core/errors.ts';
import { suggestName } from '../definitions/suggest-name.ts';

/** Reading of one entity: a walk per variant of its parameters, and the parents that lead to it. */
export interface ChosenEntity {
  readonly variants: readonly Params[];
  readonly parents: readonly EntityName[];
  /** Sent beside each variant in a backfill: the window's bounds. Absent where the entity is read without. */
  readonly bounds?: Params;
  /**
   * A partition is read in full when its newest full walk is older than this; only counts where less than that can be
   * read.
   */
  readonly fullEveryMs: number;
  readonly onSchemaChange: OnSchemaChange;
  /** Time that versions of rows are kept after their end, null for ever. Null or absent: there are none. */
  readonly history?: { readonly keepMs: number | null } | null;
  /**
   * False: how many records a listing has, as the API counts them, is used for nothing. Absent: as the definition says.
   */
  readonly trustsTotal?: boolean;
}

/** Treatment of a field that the definition does not declare. */
export type OnSchemaChange = 'keepExtra' | 'evolve' | 'quarantine' | 'fail';

/** An entity as a config without choices reads it. */
export function ordinaryChoice({ parents }: Entity, fullEveryMs = 0): ChosenEntity {
  const chosen = parents.filter(({ byDefault }) => byDefault).map(({ entity }) => entity);
  return { variants: [{}], parents: chosen, fullEveryMs, onSchemaChange: 'keepExtra' };
}

/** The entities of a run, parents before children. */
export type ChosenEntities = ReadonlyMap<EntityName, ChosenEntity>;

/**
 * The entities without those whose key is an open guess, which rows may share, and those below them. `skipped`: each of
 * those, with the entity of that key.
 */
export function readableEntities({ entities: all }: Definition, chosen: ChosenEntities) {
  const skipped = new Map<EntityName, EntityName>();
  for (const [name, { parents }] of chosen) {
    const isOpen = all.get(name)?.draft?.open.some(({ guess }) => guess === 'key') === true;
    const cause = isOpen ? name : parents.flatMap((parent) => skipped.get(parent) ?? [])[0];
    if (cause !== undefined) skipped.set(name, cause);
  }
  return { entities: new Map([...chosen].filter(([name]) => !skipped.has(name))), skipped };
}

/**
 * Whether the settings choose among an entity's records. One that a walk does not meet may then be hidden, or have
 * moved between variants.
 */
export function isFiltered(chosen: Pick<ChosenEntity, 'variants'> | undefined): boolean {
  const variants = chosen?.variants ?? [];
  return variants.length > 1 || variants.some((variant) => Object.keys(variant).length > 0);
}

/**
 * Parameters of the listings into which those of an entity are divided: one for each set of parameters, and each of the
 * values that the definition lists. Throws DEFINITION_INVALID for a value that is none of its parameter.
 */
export function dividedListings(entity: Entity, variants: readonly Params[]) {
  const declared = entity.actions.get('list')?.params;
  let listings = variants;
  for (const [param, rule] of entity.each) {
    const values = valuesOf(entity.name, rule).map((value) => {
      const type = declared?.get(param);
      const [problem] = type === undefined ? [] : checkParam(param, type, value);
      if (problem === undefined && value !== '') return convertValue(type?.type ?? 'any', value);
      const why = problem ?? `${param}: expected a value, got an empty text`;
      throw new SyncError(`${entity.name} has no listing by a value of ${rule.setting ?? param}: ${why}.`, {
        code: 'DEFINITION_INVALID',
        recovery: 'stop',
      });
    });
    listings = listings.flatMap((listing) => values.map((value) => ({ [param]: value, ...listing })));
  }
  return listings;
}

/** Values that the parameters of a listing fill into its records: field -> parameter. */
export function injectedFrom(
  { fields }: Pick<Entity, 'fields'>,
  inject: ReadonlyMap<string, string>,
  params: Params,
): Record<string, JsonValue> {
  const injected: Record<string, JsonValue> = {};
  for (const [field, param] of inject) {
    const type = fields.get(field);
    if (type !== undefined) injected[field] = convertValue(type, params[param] ?? null);
  }
  return injected;
}

/** Where reading begins by a setting, in milliseconds; empty where none says so. */
export function givenFirst(entity: Entity | undefined): readonly (number | null)[] {
  const first = entity?.first ?? null;
  // Each window is read by itself, wherever the first one is.
  return first === null || first.setting === null || entity?.windows !== null ? [] : [first.ms];
}

/** Steps from a root entity: deeper partitions start first, so that parents do not pile up children. */
export function rankOf(definition: Definition, name: EntityName): number {
  const parents = definition.entities.get(name)?.parents ?? [];
  return parents.length === 0
    ? 0
    : 1 + Math.max(...parents.map((parent) => rankOf(definition, parent.entity)));
}

/**
 * Whether only changes are asked for: not where the settings send a parameter that such a walk needs, which would then
 * have two values.
 */
export function isReadIncrementally(entity: Entity, chosen: ChosenEntity | undefined): boolean {
  const { incremental } = entity;
  if (incremental === null || chosen === undefined) return false;
  const sent =
    incremental.kind === 'newestFirst' ? Object.keys(incremental.params) : [incremental.sinceParam];
  return chosen.variants.every((variant) => !sent.some((name) => Object.hasOwn(variant, name)));
}

/**
 * Narrows entities to those that match a `select` glob (none: all) and no `exclude`, which takes children along. Throws
 * USAGE for a glob that matches nothing.
 */
export function selectEntities(
  definition: Definition,
  chosen: ChosenEntities,
  globs: { readonly select: readonly string[]; readonly exclude: readonly string[] },
) {
  const names = [...chosen.keys()];
  for (const glob of [...globs.select, ...globs.exclude]) {
    if (!names.some((name) => isLikeGlob(name, glob))) {
      const advice = glob.includes(',') ? ' Several are written with blanks between, not with commas.' : '';
      const hint = suggestName(glob, names) || `; there are ${names.join(', ')}.`;
      throw usage(`No entity matches "${glob}"${hint}${advice}`);
    }
  }
  const excluded = new Set(names.filter((name) => globs.exclude.some((glob) => isLikeGlob(name, glob))));
  const selected = names.filter(
    (name) => globs.select.length === 0 || globs.select.some((glob) => isLikeGlob(name, glob)),
  );
  const kept = new Map<EntityName, ChosenEntity>();
  /** Read although they were not named: the selected ones are found through them. */
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
  if (kept.size === 0) throw usage('Nothing to read: every selected entity, or its parent, is excluded.');
  const inOrder = [...definition.entities.keys()].flatMap((name): [EntityName, ChosenEntity][] => {
    const entity = kept.get(name);
    return entity === undefined ? [] : [[name, entity]];
  });
  const entities: ChosenEntities = new Map(inOrder);
  return { entities, addedParents };
}
