import { isLikeGlob } from '../core/glob.ts';
import { usage } from '../core/usage-error.ts';
import type { Definition } from '../definitions/definition.ts';
import { openHosted, type HostedConnector } from '../service/open-hosted.ts';
import { storeEntities } from '../service/store/store-entities.ts';
import { storeConnector } from '../service/store/store-file.ts';
import { readExclusions, type Exclusion } from '../settings/build-mcp.ts';
import type { McpSource } from './open-mcp.ts';
import { shownEntities, type ShownConnector } from './shown-entities.ts';

interface ServeSourceOptions {
  /** The data folder of `serve`. */
  readonly folder: string;
  /** Of an id, or of `<workspace>/<name>`: which connectors agents see; empty: all. */
  readonly globs: readonly string[];
  /** As `mcp.exclude` of a config, with the connector type in place of the connector. */
  readonly exclude: readonly string[];
}

/**
 * What `serve` keeps in its data folder, whether it runs or not, as it is at each call. Throws `SyncError` USAGE for a
 * folder on which no service of this version was started, and for an exclusion that names nothing.
 */
export function serveSource({ folder, globs, exclude }: ServeSourceOptions): McpSource {
  const hosted = openHosted(folder);
  const types = new Map([...hosted.definitions].map(([name, definition]) => [name, { definition }]));
  const exclusions = readExclusions(
    exclude,
    { of: types, called: 'connector type', whole: 'serve' },
    (index, problem) => {
      throw usage(`--exclude ${exclude[index]}: ${problem}.`);
    },
  );
  const isShown = ({ id, workspace, name }: HostedConnector): boolean =>
    globs.length === 0 ||
    globs.some((glob) => isLikeGlob(id, glob) || isLikeGlob(`${workspace}/${name}`, glob));
  return {
    shown: () => {
      const connectors = hosted.connectors().filter(isShown);
      return shownEntities(connectors.map((one) => shownConnector(one, exclusions)));
    },
    sqlRole: null,
  };
}

/** As if a config named it, with its store as the sink. */
function shownConnector(
  { id, definition, file, noStore, ...names }: HostedConnector,
  exclusions: readonly Exclusion[],
): ShownConnector {
  const { name, workspace, organization } = names;
  const { concurrency, requestsPerSecond } = definition.rateLimit;
  return {
    label: id,
    alsoKnownBy: { name, workspace, ...(organization === null ? {} : { organization }) },
    noCopy: noStore === null ? null : `There is no local copy of ${id}: ${noStore}.`,
    exclude: exclusions.filter(({ connector }) => connector === null || connector === definition.name),
    name: storeConnector,
    definition,
    masks: new Map(),
    address: { kind: 'id', id },
    sink: { type: 'sqlite', name: id, path: file, durability: 'normal', lockTimeoutMs: 0 },
    schedule: null,
    freshWithinMs: null,
    concurrency,
    isRateSet: false,
    requestsPerSecond,
    entities: entitiesOf(definition),
    downloads: null,
  };
}

/** Thousands of connectors may have one definition. */
const made = new WeakMap<Definition, ShownConnector['entities']>();

function entitiesOf(definition: Definition): ShownConnector['entities'] {
  const known = made.get(definition);
  if (known !== undefined) return known;
  const entities = new Map(
    [...storeEntities(definition)].map(([name, { variants, parents, fullEveryMs, onSchemaChange }]) => {
      const how = { variants, parents, fullEveryMs, onSchemaChange };
      return [name, { ...how, freshWithinMs: null, history: null }] as const;
    }),
  );
  made.set(definition, entities);
  return entities;
}
