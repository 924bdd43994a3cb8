import type { Secret } from '../core/secret.ts';
import { isConnectorId, isConnectorName, type ConnectorName } from '../core/names.ts';
import type { FoundDefinitions } from '../definitions/load-definitions.ts';
import { type Definition, servedDefinition } from '../definitions/definition.ts';
import { maskedDefinition, type Masks } from '../definitions/mask/masked-definition.ts';
import { firstNames, suggestName } from '../definitions/suggest-name.ts';
import { buildDirect } from './build-direct.ts';
import { buildDownloads } from './build-downloads.ts';
import { buildMasks } from './build-masks.ts';
import { buildEntities } from './build-entities.ts';
import { namePattern, type Note } from '../definitions/check-names.ts';
import type { ConnectorFile } from './connector-file.ts';
import type { Sink } from './build-sinks.ts';
import type { SettingsFile } from './settings-file.ts';

interface Known {
  readonly found: FoundDefinitions;
  readonly sinks: ReadonlyMap<string, Sink>;
  /** Seals sign-ins; null: there is none. */
  readonly key: Secret | null;
  /** Hashes masked values; null: there is none. */
  readonly maskKey: Secret | null;
  /** Where the relative paths of a connector begin. */
  readonly folderOf: (connector: string) => string;
}

type BuiltWith = Known & {
  readonly likeEntities: BuildPart<Entities>;
  readonly likeMasks: BuildPart<Masks>;
};

type ConnectorSettings = Readonly<NonNullable<ReturnType<typeof buildConnector>>>;

/** The connectors by name; those with a problem are left out. */
export function buildConnectors(
  file: SettingsFile,
  known: Known,
  note: Note,
): ReadonlyMap<ConnectorName, ConnectorSettings> {
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

function buildConnector(
  name: string,
  file: ConnectorFile,
  { found, sinks, key, maskKey, folderOf, likeEntities, likeMasks }: BuiltWith,
  note: Note,
) {
  const at = ['connectors', name];
  const isNamed = isConnectorName(name);
  if (!isNamed) note(at, `expected ${namePattern('_ or -')}`);
  const throughApi = file.credentials === undefined ? buildAddress(file, at, note) : null;
  const sink = sinks.get(file.sink);
  if (sink === undefined) {
    note([...at, 'sink'], unknown('sink', file.sink, sinks.keys()), ['sinks', file.sink]);
  }
  const definition = found.definitions.get(file.definition);
  if (definition === undefined) {
    if (!found.mayBeBroken(file.definition)) {
      const message = unknown('definition', file.definition, found.definitions.keys());
      note([...at, 'definition'], message, ['definitions']);
    }
    return null;
  }
  const address =
    file.credentials === undefined
      ? throughApi
      : buildDirect(file, file.credentials, definition, {
          at,
          note,
          signIns: { connector: name, sink, key },
        });
  const {
    freshWithin: freshWithinMs = null,
    onSchemaChange,
    history,
    include,
    exclude,
    entities: named,
    retention = null,
  } = file;
  const alike = [
    definition.name,
    freshWithinMs,
    onSchemaChange,
    history ?? null,
    include ?? null,
    exclude,
    named,
    retention,
  ];
  const entities = likeEntities(alike, note, (noting) =>
    buildEntities({ file, definition, at, note: noting }),
  );
  if (address?.kind === 'direct') checkAsked(definition, entities, at, note);
  if (sink?.type === 'jsonl') checkNoHistory(file, at, note);
  const read = new Set(entities.keys());
  const folder = folderOf(name);
  const here = { definition, read, sinks: sinks.values(), sink, folder, at: [...at, 'downloads'] };
  const downloads = buildDownloads(file.downloads, here, note);
  const asked = file.credentials === undefined ? servedDefinition(definition) : definition;
  const masks = likeMasks([...alike, file.mask], note, (noting) =>
    buildMasks({ file, definition: asked, entities, key: maskKey, at, note: noting }),
  );
  if (!isNamed || address === null || sink === undefined) return null;
  return {
    name,
    /** Its entities have the masks that the config gives them. */
    definition: maskedDefinition(asked, masks),
    masks,
    address,
    sink,
    /** The same sink and name, also where the records are read into another sink. */
    storedIn: { name, sink },
    schedule: file.schedule ?? null,
    /** How old stored data may be before an operator is alerted; null: no limit. */
    freshWithinMs,
    /** Partitions walked at a time. */
    concurrency: file.concurrency ?? definition.rateLimit.concurrency,
    /** False: by the connector type, until the API states another one. */
    isRateSet: file.rateLimit !== undefined,
    requestsPerSecond: file.rateLimit?.requestsPerSecond ?? definition.rateLimit.requestsPerSecond,
    /** The entities to read, with their settings; excluded ones are absent. */
    entities,
    /** The files that are fetched after each sync; null: none. */
    downloads,
  };
}

/** Every change is a line of its own there, and stays. */
function checkNoHistory(file: ConnectorFile, at: readonly string[], note: Note): void {
  const places = [
    { history: file.history, path: [...at, 'history'] },
    ...Object.entries(file.entities).map(([name, { history }]) => ({
      history,
      path: [...at, 'entities', name, 'history'],
    })),
  ];
  for (const { history, path } of places) {
    if (history === undefined || history === null) continue;
    note(
      path,
      'belongs to sinks of type sqlite and postgres: the lines of a jsonl sink are its history, of each key in the order of _seq (docs/guides/history.md#jsonl shows how to read them)',
    );
  }
}

/** The service itself can be asked for what a connector with credentials reads. */
function checkAsked(
  { name, upstream }: Definition,
  entities: Entities,
  at: readonly string[],
  note: Note,
): void {
  const others = [...entities.keys()].filter((entity) => upstream?.entities.has(entity) !== true);
  if (others.length === 0) return;
  const one = others.length === 1;
  note(
    at,
    `the connector type ${name} does not say how its service is asked for ${firstNames(others)}: exclude ${one ? 'it' : 'them'}, or read ${one ? 'it' : 'them'} through an API`,
    [...at, 'include'],
    [...at, 'exclude'],
  );
}

type Entities = ReturnType<typeof buildEntities>;

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

/** Through the API; null after a problem. */
function buildAddress(file: ConnectorFile, at: readonly string[], note: Note) {
  if (file.id !== undefined && file.workspace !== undefined) {
    note([...at, 'workspace'], 'expected either id or workspace, got both');
    return null;
  }
  if (file.workspace !== undefined) {
    return { kind: 'workspace', workspace: file.workspace } as const;
  }
  if (file.id === undefined) {
    note(
      at,
      'expected id (the connector in the API) or workspace (to find it by definition), or credentials (to read the service itself)',
    );
    return null;
  }
  if (!isConnectorId(file.id)) {
    note([...at, 'id'], 'expected 1 to 128 letters, digits, "_" and "-"');
    return null;
  }
  return { kind: 'id', id: file.id } as const;
}

function unknown(what: string, name: string, known: Iterable<string>): string {
  const names = [...known];
  const all = names.length === 0 ? 'none is declared' : `known are ${firstNames(names)}`;
  return `no such ${what}: ${JSON.stringify(name)}${suggestName(name, names) || `; ${all}`}`;
}
