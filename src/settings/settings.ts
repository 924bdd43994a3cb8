import type { ConnectorName } from '../core/names.ts';
import type { Problem } from '../core/problems.ts';
import type { Frozen, MapValue } from '../definitions/frozen.ts';
import type { Definition } from '../definitions/definition.ts';
import type { buildConnectors } from './connector-settings.ts';
import type { buildMcp } from './mcp-settings.ts';
import type { buildNotify, noticeKinds } from './notify-settings.ts';
import type { buildSinks } from './sink-settings.ts';
import type { buildPublishPlace, ConnectorFile, PublishFile, SettingsFile } from './settings-file.ts';

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
