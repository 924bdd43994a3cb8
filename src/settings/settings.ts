import {
  type ConnectorName,
  historyName,
  isConnectorName,
  isDeclaredName,
  isLikeGlob,
} from '../core/names.ts';
import type { Problem } from '../core/problems.ts';
import type { Frozen, MapValue } from '../definitions/frozen.ts';
import type { Definition } from '../definitions/definition.ts';
import type { buildConnectors } from './connector-settings.ts';
import type { buildMcp } from './mcp-settings.ts';
import type { buildNotify, noticeKinds } from './notify-settings.ts';
import type { buildSinks } from './sink-settings.ts';
import type { buildPublishPlace, ConnectorFile, PublishFile, SettingsFile } from './settings-file.ts';
import { usage } from '../core/errors.ts';
import { firstNames, suggestName } from '../definitions/suggest-name.ts';

/** The config file and the environment, checked, with all parts complete. */
export type Settings = SettingsWith<PartName>;

/** The settings with the parts that a command needs, from `withParts`. */
export type SettingsWith<Name extends PartName> = LocalSettings & Pick<SettingsParts, Name>;

/**
 * Parts that need secrets: a variable or secret file that only these name may be missing as long as no command needs
 * the part. Commands that read stored records therefore work without credentials.
 */
interface SettingsParts {
  /** The API, for operations that only an API offers. */
  readonly api: ApiSettings;
  /**
   * The access that reading needs: the credentials of connectors, and the API unless all of them have credentials (then
   * null).
   */
  readonly access: ApiSettings | null;
  readonly redis: RedisSettings;
  readonly http: HttpSettings;
}

export type PartName = keyof SettingsParts;

/** Settings that every command has, wherever it runs. */
export interface LocalSettings {
  /** Absolute path of the config file; relative paths in it begin at its folder. */
  readonly file: string;
  /** Whether a worker reloads the config when something at `places` has changed. */
  readonly watch: boolean;
  /** Absolute paths of the files that were read and of the folders that were looked through. */
  readonly places: readonly string[];
  /** Parts for `withParts` alone: they contain `missingHere` in place of missing values. */
  readonly parts: Omit<SettingsParts, 'api' | 'access'> & { readonly api: ApiSettings | null };
  /**
   * Missing values that make a part incomplete; the path of each begins with the name of its part, or leads to
   * credentials of a connector, into a target or into `notify`.
   */
  readonly missing: readonly Problem[];
  readonly sinks: ReadonlyMap<string, SinkSettings>;
  readonly connectors: ReadonlyMap<ConnectorName, ConnectorSettings>;
  /** The targets of publications, by name. */
  readonly publish: ReadonlyMap<string, PublishSettings>;
  /** The receivers of notices, by name. */
  readonly notify: ReadonlyMap<string, NotifySettings>;
  /** Settings of `mcp`. */
  readonly mcp: Frozen<ReturnType<typeof buildMcp>>;
  /** Hosts of `notify` that may be at any address, in lower case. */
  readonly allowNotifyHosts: readonly string[];
  /** Hosts that direct connectors may reach at any address, in lower case. */
  readonly allowUpstreamHosts: readonly string[];
  /** The key that seals sign-ins, and the address that services redirect the browser to after a sign-in. */
  readonly signIns: Frozen<SettingsFile['signIns']>;
  /** The key that values are hashed with, shared by all connectors. */
  readonly mask: Frozen<SettingsFile['mask']>;
  readonly guards: { readonly maxDeleteShare: number; readonly minDeleteRows: number };
  /** Every definition that is known, by name: the built-in ones and the user's. */
  readonly definitions: ReadonlyMap<string, Definition>;
}

export type SinkSettings = MapValue<ReturnType<typeof buildSinks>>;
export type ConnectorSettings = MapValue<ReturnType<typeof buildConnectors>>;
/** The settings that reading a connector needs; its sink is not among them. */
export type ReadConnector = Pick<
  ConnectorSettings,
  'name' | 'definition' | 'address' | 'concurrency' | 'requestsPerSecond' | 'isRateSet'
> & {
  /** The connector that has read rows with these credentials before; null: no config has one. */
  readonly storedIn: ConnectorSettings['storedIn'] | null;
};
/** The service itself, with no API in between. */
export type DirectAddress = Extract<ConnectorSettings['address'], { kind: 'direct' }>;
export type HttpSettings = Frozen<SettingsFile['http']>;
export type ApiSettings = Frozen<NonNullable<SettingsFile['api']>>;
export type RedisSettings = Frozen<SettingsFile['redis'] & { readonly isConfigured: boolean }>;
export type Schedule = Frozen<NonNullable<ConnectorFile['schedule']>>;

export type NotifySettings = MapValue<ReturnType<typeof buildNotify>>;
export type NoticeKind = (typeof noticeKinds)[number];

/** The place of a target of `publish`. */
export type PublishPlace = Frozen<ReturnType<typeof buildPublishPlace>>;
/** A target of `publish`. */
export type PublishSettings = PublishPlace &
  Frozen<Pick<PublishFile, 'when' | 'times' | 'snapshotEveryMs' | 'keepMs'>> & {
    readonly name: string;
    /** Connectors of one sink, because a publication shows one state of it. Not empty. */
    readonly connectors: readonly ConnectorSettings[];
  };

/**
 * The connectors that a person named, each once and in that order; without names all of the config. A name with `*`
 * stands for all that match. Throws USAGE for an unknown one.
 */
export function chosenConnectors(
  settings: LocalSettings,
  names: readonly string[],
): readonly ConnectorSettings[] {
  checkSome(settings);
  if (names.length === 0) return [...settings.connectors.values()];
  return [
    ...new Set(
      names.flatMap((name) =>
        name.includes('*') ? connectorsMatching(settings, [name]) : [connectorNamed(settings, name)],
      ),
    ),
  ];
}

/**
 * The connectors that match one of the globs (`*` stands for any text); without globs all of the config. Throws USAGE
 * for one that matches nothing.
 */
export function connectorsMatching(
  settings: LocalSettings,
  globs: readonly string[],
): readonly ConnectorSettings[] {
  checkSome(settings);
  const all = [...settings.connectors.values()];
  for (const glob of globs) {
    if (all.some(({ name }) => isLikeGlob(name, glob))) continue;
    throw usage(
      `No connector matches "${glob}"; the config has ${firstNames([...settings.connectors.keys()])}.`,
    );
  }
  return globs.length === 0 ? all : all.filter(({ name }) => globs.some((glob) => isLikeGlob(name, glob)));
}

/** Finds a connector by name. Throws USAGE with the known names. */
export function connectorNamed(settings: LocalSettings, name: string): ConnectorSettings {
  const connector = isConnectorName(name) ? settings.connectors.get(name) : undefined;
  if (connector !== undefined) return connector;
  if (settings.publish.has(name)) {
    throw usage(
      `"${name}" is a target of publish, expected a connector. To publish into it: publish ${name}`,
    );
  }
  const names = [...settings.connectors.keys()];
  const hint = suggestName(name, names) || `; the config has ${firstNames(names)}.`;
  throw usage(`Unknown connector "${name}"${hint}`);
}

/** Finds a sink by name. `called`: the term for the name in messages. Throws USAGE with the known names. */
export function sinkNamed(
  { sinks, file }: LocalSettings,
  called: string,
  name: string | undefined,
): SinkSettings {
  const all = [...sinks.keys()].join(', ');
  if (name === undefined) throw usage(`${called}: expected the name of a sink; ${file} has ${all}.`);
  const sink = sinks.get(name);
  if (sink === undefined) throw usage(`${called}: the config has no sink "${name}"; it has ${all}.`);
  return sink;
}

/** The sinks of these connectors, each once. */
export function sinksOf(connectors: readonly ConnectorSettings[]): readonly SinkSettings[] {
  return [...new Map(connectors.map(({ sink }) => [sink.name, sink])).values()];
}

/** The sinks of these connectors, each with its connectors. */
export function connectorsBySink(connectors: readonly ConnectorSettings[]) {
  return sinksOf(connectors).map(
    (sink) => [sink, connectors.filter((connector) => connector.sink.name === sink.name)] as const,
  );
}

function checkSome(settings: LocalSettings): void {
  if (settings.connectors.size > 0) return;
  throw usage(
    `Expected at least one connector in ${settings.file}, there is none. Add one below "connectors:".`,
  );
}

/** The table that `<connector>/<entity>` on the command line names. */
export type EntityTarget = ReturnType<typeof targetsOf>[number];

/** Every table of a connector. */
export function targetsOf(connector: ConnectorSettings) {
  return [...connector.definition.entities.values()].flatMap((entity) =>
    [entity.table, entity.explodedTable].flatMap((table) =>
      table === null
        ? []
        : {
            /** The name that a person writes. */
            name: `${connector.name}/${table.entity}`,
            connector,
            /** The entity, or the one whose records have the named rows as elements. */
            entity,
            table,
            /** The rows are elements of the entity's records. */
            isExploded: table !== entity.table,
          },
    ),
  );
}

/** Finds a table by its name. Throws USAGE with the known names. */
export function entityTarget(settings: LocalSettings, text: string): EntityTarget {
  const [connectorText = '', entityText = '', ...rest] = text.split('/');
  if (entityText === '' || rest.length > 0) throw usage(`Expected <connector>/<entity>, got "${text}".`);
  const targets = targetsOf(connectorNamed(settings, connectorText));
  const target = isDeclaredName(entityText)
    ? targets.find(({ table }) => table.entity === entityText)
    : undefined;
  if (target !== undefined) return target;
  const names = targets.map(({ table }) => table.entity);
  const hint = suggestName(entityText, names) || `; it has ${firstNames(names)}.`;
  throw usage(`${connectorText} has no entity "${entityText}"${hint}`);
}

/**
 * The targets that a person named, each once and in that order; without names all of the config. Throws USAGE for an
 * unknown one, and where the config has none.
 */
export function chosenTargets(settings: LocalSettings, names: readonly string[]): readonly PublishSettings[] {
  if (settings.publish.size === 0) {
    throw usage(`Expected at least one target in ${settings.file}, there is none. Add one below "publish:".`);
  }
  if (names.length === 0) return [...settings.publish.values()];
  return [...new Set(names.map((name) => targetNamed(settings, name)))];
}

/** Names that no target may have. */
export const publishCommands: readonly string[] = ['status', 'check', 'snapshot', 'prune', 'schema', 'help'];

/** Finds a target by name. Throws USAGE with the known names. */
export function targetNamed({ publish }: LocalSettings, name: string): PublishSettings {
  const target = publish.get(name);
  if (target !== undefined) return target;
  if (publishCommands.includes(name)) {
    throw usage(`"${name}" is a command of publish, so it comes first: publish ${name} [target...]`);
  }
  const names = [...publish.keys()];
  const hint = suggestName(name, names) || `; the config has ${names.join(', ') || 'none'}.`;
  throw usage(`Unknown target "${name}"${hint}`);
}

/**
 * Whether the config still publishes the entity, the one that it is exploded from, or the one of which it is the
 * history. Other entities stay in the target unchanged.
 */
export function isStillPublished(
  { connectors }: Pick<PublishSettings, 'connectors'>,
  of: { readonly connector: string; readonly entity: string },
): boolean {
  const connector = connectors.find(({ name }) => name === of.connector);
  return [...(connector?.entities ?? [])].some(([name, { history }]) => {
    const names = [name, connector?.definition.entities.get(name)?.explodedTable?.entity ?? name];
    return [...names, ...(history === null ? [] : names.map(historyName))].some((one) => one === of.entity);
  });
}

/** The targets that the connector is published into. */
export function targetsOfConnector(
  { publish }: Pick<LocalSettings, 'publish'>,
  connector: string,
): readonly PublishSettings[] {
  return [...publish.values()].filter(({ connectors }) => connectors.some(({ name }) => name === connector));
}

/** The targets that are published after a sync of one of these connectors. */
export function targetsAfterSync(
  { publish }: Pick<LocalSettings, 'publish'>,
  connectors: ReadonlySet<string>,
): readonly PublishSettings[] {
  return [...publish.values()].filter(
    (target) =>
      target.when.kind === 'after-sync' && target.connectors.some(({ name }) => connectors.has(name)),
  );
}
