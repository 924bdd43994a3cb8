import path from 'node:path';
import { timeMs } from '../core/clock.ts';
import {
  isConnectorId,
  isConnectorName,
  type ConnectorId,
  type ConnectorName,
  type EntityName,
} from '../core/names.ts';
import type { Params } from '../core/records.ts';
import { Secret } from '../core/secret.ts';
import { namePattern, type Note } from '../definitions/check-names.ts';
import { mapOf } from '../definitions/frozen.ts';
import {
  servedDefinition,
  pagingParams,
  firstSettings,
  withSettings,
  type Definition,
  type Entity,
  type Param,
} from '../definitions/definition.ts';
import { maskedDefinition, type Masks } from '../definitions/record-masks.ts';
import { credentialProblems, shapeText, checkParams, convertParams } from '../definitions/params.ts';
import { firstNames, noSuch, suggestName } from '../definitions/suggest-name.ts';
import type { WrittenConfig } from './config-files.ts';
import type { YamlPath } from '../definitions/read-yaml.ts';
import { missingHere } from './texts.ts';
import { buildMasks } from './mask-settings.ts';
import { isSharedSink, type Sink } from './sink-settings.ts';
import type { ConnectorFile, EntitySettingsFile, DownloadsFile, SettingsFile } from './settings-file.ts';

interface Known {
  readonly definitions: ReadonlyMap<string, Definition>;
  readonly sinks: ReadonlyMap<string, Sink>;
  /** The key that seals sign-ins; null: there is none. */
  readonly key: Secret | null;
  /** The key that hashes masked values; null: there is none. */
  readonly maskKey: Secret | null;
  /** The folder in which the relative paths of a connector begin. */
  readonly folderOf: (connector: string) => string;
  readonly keyPlacesOf: WrittenConfig['keyPlacesOf'];
  /** Whether the value at a place of the config is a reference. */
  readonly isFromOutside: (at: YamlPath) => boolean;
}

type BuiltWith = Known & {
  readonly likeEntities: BuildPart<Entities>;
  readonly likeMasks: BuildPart<Masks>;
};

type ConnectorSettings = Readonly<NonNullable<ReturnType<typeof buildConnector>>>;

/** The connectors by name; those with a problem are left out. */
export function buildConnectors(file: SettingsFile, known: Known, note: Note) {
  const connectors = new Map<ConnectorName, ConnectorSettings>();
  const likeEntities = openParts<Entities>();
  const likeMasks = openParts<Masks>();
  const nameByPrefix = new Map<string, string>();
  for (const [name, connector] of Object.entries(file.connectors)) {
    const at = ['connectors', name];
    // Tables are named <connector>__<entity> with _ for -.
    const prefix = name.replaceAll('-', '_').toLowerCase();
    const other = nameByPrefix.get(prefix);
    if (other !== undefined) {
      note(at, `its tables would have the same names as those of ${other}; rename one of them`);
    }
    nameByPrefix.set(prefix, name);
    const built = buildConnector(name, connector, { ...known, likeEntities, likeMasks }, note);
    if (built !== null) connectors.set(built.name, built);
  }
  return connectors;
}

function buildConnector(name: string, file: ConnectorFile, known: BuiltWith, note: Note) {
  const { definitions, sinks, key, maskKey, isFromOutside, likeEntities, likeMasks } = known;
  const at = ['connectors', name];
  if (!isConnectorName(name)) note(at, `expected ${namePattern('_ or -')}`);
  const definition = definitions.get(file.definition);
  const throughApi = isDirect(file, definition) ? null : addressOf(file, at, note);
  const sink = sinks.get(file.sink);
  if (sink === undefined) note([...at, 'sink'], unknown('sink', file.sink, sinks.keys()));
  if (definition === undefined) {
    note([...at, 'definition'], unknown('definition', file.definition, definitions.keys()));
  }
  if (!isConnectorName(name) || sink === undefined || definition === undefined) return null;
  const address =
    throughApi ??
    buildDirect(file, definition, { at, note, isFromOutside, signIns: { connector: name, sink, key } });
  const alike = [definition.name, ...sharedBetween(file)];
  const entities = likeEntities(alike, note, (noting) =>
    buildEntities({ file, definition, at, note: noting }),
  );
  if (address.kind === 'direct') checkAsked(definition, entities, at, note);
  if (sink.type === 'jsonl') checkNoHistory(entities, at, note);
  const read = new Set(entities.keys());
  const folder = known.folderOf(name);
  const here = { definition, read, sinks: sinks.values(), sink, folder, at: [...at, 'downloads'] };
  const downloads = buildDownloads(file.downloads, here, note);
  const served = address.kind === 'direct' ? definition : servedDefinition(definition);
  const asked = withSettings(served, address);
  const masks = likeMasks([...alike, file.mask], note, (noting) =>
    buildMasks({ file, definition: asked, entities, key: maskKey, at, note: noting }),
  );
  return {
    name,
    /** The definition, with the masks of the config on its entities, and the times that it gives. */
    definition: maskedDefinition(asked, masks),
    masks,
    address,
    /** Where its credentials come from, as the config names it; empty: they are no references, or there are none. */
    keyPlaces: file.credentials === undefined ? [] : known.keyPlacesOf(name),
    sink,
    /** The same sink and name, also where the records are read into another sink. */
    storedIn: { name, sink },
    schedule: file.schedule ?? null,
    /** How old stored data may be before an operator is alerted; null: no limit. */
    freshWithinMs: file.freshWithin ?? null,
    /** Partitions walked at a time. */
    concurrency: file.concurrency ?? definition.rateLimit.concurrency,
    /** False: the rate of the connector type applies, until the API states another one. */
    isRateSet: file.rateLimit !== undefined,
    requestsPerSecond: file.rateLimit?.requestsPerSecond ?? definition.rateLimit.requestsPerSecond,
    /** The entities to read, with their settings; excluded ones are absent. */
    entities,
    /** The files that are fetched after each sync; null: none. */
    downloads,
  };
}

/** Settings by which the entities of connectors are alike. */
function sharedBetween(file: ConnectorFile) {
  const { freshWithin, onSchemaChange, history, include, exclude, entities, retention } = file;
  return [freshWithin, onSchemaChange, history, include, exclude, entities, retention];
}

/** Refuses `history` for a JSONL sink: every change is a separate line there, and stays. */
function checkNoHistory(entities: Entities, at: readonly string[], note: Note): void {
  if ([...entities.values()].every(({ history }) => history === null)) return;
  note(
    [...at, 'history'],
    'belongs to sinks of type sqlite and postgres: the lines of a jsonl sink are its history, of each key in the order of _seq (docs/guides/history.md#jsonl shows how to read them)',
  );
}

/** Checks that a connector with credentials reads only entities that the service itself can be called for. */
function checkAsked({ name, upstream }: Definition, entities: Entities, at: readonly string[], note: Note) {
  if (upstream === null) return;
  const others = [...entities.keys()].filter((entity) => !upstream.entities.has(entity));
  if (others.length === 0) return;
  const one = others.length === 1;
  note(
    at,
    `the connector type ${name} does not say how its service is asked for ${firstNames(others)}: exclude ${one ? 'it' : 'them'}, or read ${one ? 'it' : 'them'} through an API`,
  );
}

type BuildPart<Part> = (alike: readonly unknown[], note: Note, build: (note: Note) => Part) => Part;

/**
 * Equal parts are built once and shared, for configs with ten thousand connectors. A part with problems is built for
 * each connector, to report them all.
 */
function openParts<Part>(): BuildPart<Part> {
  const soundByText = new Map<string, Part>();
  return (alike, note, build) => {
    const text = JSON.stringify(alike);
    const known = soundByText.get(text);
    if (known !== undefined) return known;
    let isSound = true;
    const part = build((...problem) => {
      isSound = false;
      note(...problem);
    });
    if (isSound) soundByText.set(text, part);
    return part;
  };
}

/** Whether a connector reads the service itself: its entry gives something for that, or nothing need be given. */
export function isDirect(file: Partial<ConnectorFile>, definition: Pick<Definition, 'upstream'> | undefined) {
  if (file.credentials !== undefined || file.settings !== undefined) return true;
  const ways = [...(definition?.upstream?.auth.values() ?? [])];
  return file.id === undefined && file.workspace === undefined && ways.some(({ kind }) => kind === 'none');
}

/** The address of a connector that is read through the API. */
function addressOf({ id, workspace }: ConnectorFile, at: readonly string[], note: Note) {
  if (workspace !== undefined) {
    if (id !== undefined) note([...at, 'workspace'], 'expected either id or workspace, got both');
    return { kind: 'workspace', workspace } as const;
  }
  if (id === undefined) {
    note(
      at,
      'expected id (the connector in the API) or workspace (to find it by definition), or credentials (to read the service itself)',
    );
  } else if (!isConnectorId(id)) note([...at, 'id'], 'expected 1 to 128 letters, digits, "_" and "-"');
  // `as`: an invalid id is noted.
  return { kind: 'id', id: id as ConnectorId } as const;
}

function unknown(what: string, name: string, known: Iterable<string>): string {
  const names = [...known];
  const all = names.length === 0 ? 'none is declared' : `known are ${firstNames(names)}`;
  return `no such ${what}: ${JSON.stringify(name)}${suggestName(name, names) || `; ${all}`}`;
}

type Texts = Readonly<Record<string, string>>;

interface DirectPlace {
  readonly at: readonly string[];
  readonly note: Note;
  /** Absent: no value is written in a config. */
  readonly isFromOutside?: (at: YamlPath) => boolean;
  /** The place where a sign-in of the connector is stored; null: nowhere. */
  readonly signIns?: {
    readonly connector: string;
    readonly sink: Sink;
    readonly key: Secret | null;
  } | null;
}

/** The credentials and the settings among the texts that a connector gives, as its entry in a config has them. */
export function entryGiven({ settings }: Pick<Definition, 'settings'>, given: Texts) {
  const part = (isSetting: boolean): Texts =>
    Object.fromEntries(Object.entries(given).filter(([name]) => settings.has(name) === isSetting));
  return { credentials: part(false), settings: part(true) };
}

/**
 * Builds the address of the service itself, with the credentials and settings of the config. Problems repeat no value:
 * it may be secret.
 */
export function buildDirect(
  { id, workspace, credentials: ofCredentials = {}, settings = {} }: Partial<ConnectorFile>,
  definition: Definition,
  { at: connectorAt, note, isFromOutside = () => true, signIns = null }: DirectPlace,
) {
  const at = [...connectorAt, 'credentials'];
  const given = { ...ofCredentials, ...entryGiven(definition, settings).settings };
  checkSettings({ credentials: ofCredentials, settings }, definition, {
    at: connectorAt,
    note,
    isFromOutside,
  });
  if (id !== undefined || workspace !== undefined) {
    note(at, 'expected either credentials (to read the service itself) or id or workspace, got both');
  }
  const { upstream, credentials: shapes, name } = definition;
  if (upstream === null) {
    note(
      at,
      `the connector type ${name} does not say how its service is called, so only an API can read it: expected id or workspace`,
    );
  }
  // A setting that is missing here counts as one that is allowed.
  const checked = Object.fromEntries(
    Object.entries(given).map(([field, text]) => [
      field,
      text === missingHere ? (definition.settings.get(field)?.setting?.values?.[0] ?? text) : text,
    ]),
  );
  if (upstream !== null) checkGiven(checked, definition, connectorAt, note);
  const way = shapes.find((shape) => credentialProblems({ credentials: [shape] }, checked).length === 0);
  const auth = upstream?.auth.get(way?.title ?? '');
  if (auth?.kind === 'refresh' && auth.rotates && given[auth.refreshToken] !== undefined) {
    note(
      [...at, auth.refreshToken],
      `each use of it makes another one, which a config has no place for: leave it out (the connector works until ${auth.accessToken} ends), use ${otherWays(definition, way?.title)}, or give the credentials to "connector-sync serve", which stores the new ones`,
    );
  }
  const signIn = auth?.kind === 'authorizationCode' ? signIns : null;
  if (signIn?.sink.type === 'postgres' && signIn.key === null) {
    note(
      at,
      'expected signIns.key in the config: it seals what "login" stores in the PostgreSQL sink. Make one with "openssl rand -base64 32"',
    );
  }
  // With the settings. A secret is hidden in all output; other settings are words that stand in records too.
  const credentials: ReadonlyMap<string, Pick<Secret, 'reveal'>> = mapOf(given, (value, name) =>
    definition.settings.get(name)?.isSecret === false ? { reveal: () => value } : new Secret(value),
  );
  return { kind: 'direct', credentials, signIn } as const;
}

/** Checks the texts that a connector gives against the ways to sign in. */
function checkGiven(given: Texts, definition: Definition, at: readonly string[], note: Note): void {
  const { credentials: shapes, settings } = definition;
  for (const { field, message } of credentialProblems(definition, given)) {
    const title = settings.get(field ?? '')?.setting?.title;
    const ways =
      field === null && shapes.length > 1
        ? `; the ways to sign in: ${shapes.map(shapeText).join(' or ')}`
        : '';
    const more = title === undefined ? ways : ` (${title})`;
    const part = title === undefined ? 'credentials' : 'settings';
    // In the style of the other problems of a config.
    const plain = `${message.charAt(0).toLowerCase()}${message.slice(1).replace(/\.$/, '')}`;
    note([...at, part, ...(field === null ? [] : [field])], `${plain}${more}`);
  }
}

/** Checks that settings are declared, that they are not among the credentials, and that secret ones are references. */
function checkSettings(
  { credentials, settings }: Readonly<Record<'credentials' | 'settings', Texts>>,
  definition: Definition,
  { at, note, isFromOutside }: Required<Omit<DirectPlace, 'signIns'>>,
): void {
  const { name: type, settings: declared } = definition;
  const times = firstSettings(definition);
  for (const [name, value] of Object.entries(settings)) {
    const here = [...at, 'settings', name];
    const known = declared.get(name);
    if (known === undefined) note(here, `no such setting of ${type}${suggestName(name, declared.keys())}`);
    else if (known.isSecret && !isFromOutside(here)) {
      note(here, 'is secret: expected ${VARIABLE} or ${file:path}, got the text itself');
    } else if (times.has(name) && value !== missingHere && timeMs(value) === null) {
      note(here, 'expected a time such as 2024-01-01 or 2024-01-01T00:00:00Z');
    }
  }
  for (const name of Object.keys(credentials)) {
    if (declared.has(name)) note([...at, 'credentials', name], 'is a setting: expected it below settings');
  }
}

function otherWays({ credentials }: Definition, title: string | undefined): string {
  const others = credentials.filter((shape) => shape.title !== title).map(shapeText);
  return others.length === 0 ? 'another way to sign in' : others.join(' or ');
}

const defaultFullEveryMs = 7 * 86_400_000;

type EntitySettings = Readonly<ReturnType<typeof buildEntity>>;
type Entities = ReadonlyMap<EntityName, EntitySettings>;

/** A connector as the file writes it, and its place there. */
interface Written {
  readonly file: ConnectorFile;
  readonly definition: Definition;
  readonly at: readonly string[];
  readonly note: Note;
}

/** The entities that a connector reads, in the definition's order, with their settings in the file. */
function buildEntities(written: Written): Entities {
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
    /** The entity's setting, or else the connector's. */
    freshWithinMs: file.freshWithin ?? connector.freshWithin ?? null,
    /** Treatment of fields that the definition does not declare: the entity's setting, or else the connector's. */
    onSchemaChange: file.onSchemaChange ?? connector.onSchemaChange,
    /** How versions of rows are kept; null: there are none. The entity's setting, or else the connector's. */
    history: (file.history === undefined ? connector.history : file.history) ?? null,
    ...retentionOf({ ...connector.retention, ...file.retention }),
    /** False: the number of records that the API states for a listing is not used. Absent: as the definition says. */
    ...(file.totals !== undefined && { trustsTotal: file.totals === 'trust' }),
  };
}

/** Retention of records that the source no longer has, in milliseconds. Absent: the default of the sink. */
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
    // The parameters are converted already, so only the order of the names can differ.
    const text = JSON.stringify(Object.entries(variant).sort(([left], [right]) => (left < right ? -1 : 1)));
    if (seen.has(text)) {
      note(here, 'says the same as another variant: every record would be read twice');
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

/** Parameters that the program sets, with the reason why a user may not. */
function takenParams(entity: Entity): ReadonlyMap<string, string> {
  const filled = entity.parents.flatMap((parent) =>
    [...parent.params.keys()].map(
      (name) => [name, `is filled from every record of ${parent.entity}; leave it out`] as const,
    ),
  );
  const each = [...entity.each.keys()].map(
    (name) => [name, 'has its values from the definition; leave it out'] as const,
  );
  const { fromParam, toParam } = entity.windows ?? { fromParam: null, toParam: null };
  const windows = [fromParam, toParam].flatMap((name) =>
    name === null ? [] : [[name, 'is set window by window; leave it out'] as const],
  );
  return new Map([...walkParams(entity), ...each, ...windows, ...filled]);
}

/** Parameters that are the same for every listing of the entity, or change with each page. */
export function walkParams(entity: Entity): ReadonlyMap<string, string> {
  const taken = (names: Iterable<string>, why: string) => [...names].map((name) => [name, why] as const);
  const paging = pagingParams(entity.pagination).map(({ name }) => name);
  const { firstParams = {} } = { firstParams: {}, ...entity.pagination };
  return new Map([
    ...taken(paging, 'is set page by page; leave it out'),
    ...taken(Object.keys(firstParams), 'is sent with the first page; leave it out'),
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
      note([...at, key, String(index)], noSuch(`entity in ${definition.name}`, name, known));
    });
  }
  const selected = new Map(
    [...entities].filter(
      ([name]) => (file.include === undefined || file.include.includes(name)) && !file.exclude.includes(name),
    ),
  );
  if (selected.size === 0) {
    note(at, 'expected at least one entity to read, got none');
  }
  checkParents(selected, written);
  return selected;
}

function checkParents(selected: Entities, { file, at, note }: Written): void {
  const missing = new Set<EntityName>();
  const orphans = new Set<EntityName>();
  // Parents precede their children, so one pass finds grandchildren too.
  for (const [name, { parents }] of selected) {
    const left = parents.filter((parent) => !selected.has(parent));
    if (left.length === 0 && !parents.some((parent) => orphans.has(parent))) continue;
    for (const parent of left) missing.add(parent);
    orphans.add(name);
  }
  if (orphans.size === 0) return;
  note(
    [...at, file.include === undefined ? 'exclude' : 'include'],
    `without ${[...missing].join(', ')} nothing leads to ${[...orphans].join(', ')}: read all of them, or none`,
  );
}

interface OfConnector {
  readonly definition: Definition;
  /** The entities that the connector reads. */
  readonly read: ReadonlySet<EntityName>;
  readonly sinks: Iterable<Sink>;
  /** The sink of the connector. */
  readonly sink: Sink;
  /** The folder of the config file; relative paths begin there. */
  readonly folder: string;
  readonly at: readonly string[];
}

/** Builds the download settings of a connector; null where the file has none. */
function buildDownloads(file: DownloadsFile | undefined, of: OfConnector, note: Note) {
  if (file === undefined) return null;
  const { at, folder } = of;
  const directory = path.resolve(folder, file.directory);
  const sink = [...of.sinks].find((one) => isStoredIn(one, directory));
  if (sink !== undefined) {
    note(
      [...at, 'directory'],
      `the sink ${sink.name} stores its records there; give files a separate directory`,
    );
  }
  if (isSharedSink(of.sink.type) && !file.shared) {
    note(
      [...at, 'directory'],
      `sink ${of.sink.name} may be written from several machines, which must see the same files: expected a directory that they share, and shared: true`,
    );
  }
  return {
    /** Absolute; files lie in `<directory>/<connector>/<entity>/`. */
    directory,
    /** The entities of the connector whose files are fetched. Not empty. */
    entities: downloadedEntities(file, of, note),
    /** A larger file is not fetched, and counts as failed. */
    maxBytes: file.maxBytes,
  };
}

function isStoredIn(sink: Sink, directory: string): boolean {
  switch (sink.type) {
    case 'sqlite':
      return directory === sink.path;
    case 'jsonl':
      return directory === sink.directory;
    case 'postgres':
      return false;
  }
}

function downloadedEntities(
  { entities }: DownloadsFile,
  { definition, read, at }: OfConnector,
  note: Note,
): readonly EntityName[] {
  const withFiles = [...definition.entities.values()]
    .filter(({ name, actions }) => actions.has('download') && read.has(name))
    .map(({ name }) => name);
  if (entities === undefined) {
    if (withFiles.length === 0) note(at, 'no entity that is read has files; leave downloads out');
    return withFiles;
  }
  const known = withFiles.join(', ') || 'none is read';
  entities.forEach((name, index) => {
    if (withFiles.some((one) => one === name) && entities.indexOf(name) === index) return;
    note(
      [...at, 'entities', String(index)],
      `expected entities that are read and have files, each once (${known}), got ${JSON.stringify(name)}${suggestName(name, withFiles)}`,
    );
  });
  return withFiles.filter((name) => entities.includes(name));
}
