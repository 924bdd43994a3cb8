import type { EntityName } from '../core/names.ts';
import type { Params } from '../core/records.ts';
import type { Note } from '../definitions/check-names.ts';
import { checkParams, convertParams } from '../definitions/check-params.ts';
import type { Definition, Entity, Param } from '../definitions/definition.ts';
import { pagingParams } from '../definitions/paging-params.ts';
import { suggestName } from '../definitions/suggest-name.ts';
import type { ConnectorFile, EntitySettingsFile } from './connector-file.ts';

const defaultFullEveryMs = 7 * 86_400_000;

type EntitySettings = Readonly<ReturnType<typeof buildEntity>>;
type Entities = ReadonlyMap<EntityName, EntitySettings>;

/** What the file says of a connector, and where. */
interface Written {
  readonly file: ConnectorFile;
  readonly definition: Definition;
  readonly at: readonly string[];
  readonly note: Note;
}

/** The entities that a connector reads, in the definition's order, with what the file says of each. */
export function buildEntities(written: Written): Entities {
  const { file, definition, at, note } = written;
  const names: readonly string[] = [...definition.entities.keys()];
  for (const name of Object.keys(file.entities)) {
    if (names.includes(name)) continue;
    note([...at, 'entities', name], `no such entity in ${definition.name}${suggestName(name, names)}`);
  }
  const built = new Map(
    [...definition.entities].map(([name, entity]) => [name, buildEntity(entity, written)] as const),
  );
  return selectEntities(built, written);
}

function buildEntity(entity: Entity, { file: connector, at: connectorAt, note }: Written) {
  const file: EntitySettingsFile = connector.entities[entity.name] ?? {};
  const at = [...connectorAt, 'entities', entity.name];
  return {
    /** One set of `list` parameters per variant; default: `[{}]`. */
    variants: buildVariants(entity, file, at, note),
    /** Parent entities whose records lead to this one's partitions; the definition's defaults unless chosen. */
    parents: buildParents(entity, file.parents, [...at, 'parents'], note),
    fullEveryMs: file.fullEvery ?? defaultFullEveryMs,
    /** The entity's, or else the connector's. */
    freshWithinMs: file.freshWithin ?? connector.freshWithin ?? null,
    /** What is done with a field that the definition does not declare. The entity's, or else the connector's. */
    onSchemaChange: file.onSchemaChange ?? connector.onSchemaChange,
    /** How versions of rows are kept; null: there are none. The entity's, or else the connector's. */
    history: (file.history === undefined ? connector.history : file.history) ?? null,
    ...retentionOf({ ...connector.retention, ...file.retention }),
    /**
     * False: how many records a listing has, as the API counts them, is used for nothing. Absent: as the definition
     * says.
     */
    ...(file.totals !== undefined && { trustsTotal: file.totals === 'trust' }),
  };
}

/** How long what is no longer at the source is kept. Absent: as long as the sink keeps it by itself. */
function retentionOf({ deletedRows, quarantine, downloads }: NonNullable<ConnectorFile['retention']>) {
  if (deletedRows === undefined && quarantine === undefined && downloads === undefined) return {};
  const retention = {
    ...(deletedRows !== undefined && { deletedRowsMs: deletedRows }),
    ...(quarantine !== undefined && { quarantineMs: quarantine }),
    ...(downloads !== undefined && { downloadsMs: downloads }),
  };
  return { retention };
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
  const filled = entity.parents.flatMap((parent) =>
    [...parent.params.keys()].map(
      (name) => [name, `is filled from every record of ${parent.entity}; leave it out`] as const,
    ),
  );
  return new Map([...walkParams(entity), ...filled]);
}

/** Those that are the same for every listing of the entity, or change with each page. */
export function walkParams(entity: Entity): ReadonlyMap<string, string> {
  const taken = (names: Iterable<string>, why: string) => [...names].map((name) => [name, why] as const);
  const paging = pagingParams(entity.pagination).map(({ name }) => name);
  return new Map([
    ...taken(paging, 'is set page by page; leave it out'),
    ...taken(Object.keys(entity.fixedParams), 'is fixed by the definition; leave it out'),
    ...taken(
      Object.keys(entity.order?.params ?? {}),
      'sets the order that a complete read needs; leave it out',
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

/**
 * Leaves the entities that `include` names (all without it) and `exclude` does not. An entity is found through its
 * parents' records, so each that stays needs its parents to stay; leaving one out silently would look like an empty
 * table.
 */
function selectEntities(entities: Entities, written: Written): Entities {
  const { file, definition, at, note } = written;
  const known: readonly string[] = [...definition.entities.keys()];
  for (const key of ['include', 'exclude'] as const) {
    (file[key] ?? []).forEach((name, index) => {
      if (known.includes(name)) return;
      const message = `no such entity in ${definition.name}: ${JSON.stringify(name)}${suggestName(name, known)}`;
      note([...at, key, String(index)], message);
    });
  }
  const selected = new Map(
    [...entities].filter(
      ([name]) => (file.include === undefined || file.include.includes(name)) && !file.exclude.includes(name),
    ),
  );
  if (selected.size === 0) {
    note(at, 'expected at least one entity to read, got none', [...at, 'include'], [...at, 'exclude']);
  }
  checkExcludedParents(entities, selected, written);
  checkIncludedChildren(selected, written);
  return selected;
}

function checkExcludedParents(entities: Entities, selected: Entities, { file, at, note }: Written): void {
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

function checkIncludedChildren(selected: Entities, { file, at, note }: Written): void {
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
function descendants(name: EntityName, entities: Entities): readonly EntityName[] {
  const found: EntityName[] = [];
  for (const [child, { parents }] of entities) {
    // Parents stand before their children, so one pass finds grandchildren too.
    if (parents.includes(name) || parents.some((parent) => found.includes(parent))) found.push(child);
  }
  return found;
}
