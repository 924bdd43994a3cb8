import { systemClock, type Clock } from '../../src/core/clock.ts';
import type { OnRunEvent } from '../../src/core/events.ts';
import type { ConnectorId, ConnectorName, EntityName } from '../../src/core/names.ts';
import { Secret } from '../../src/core/secret.ts';
import type { Definition } from '../../src/definitions/definition.ts';
import type { ChosenEntities } from '../../src/engine/chosen-entities.ts';
import type { FileOptions } from '../../src/engine/run-tally.ts';
import type { RunOptions } from '../../src/engine/plan-run.ts';
import { syncConnector } from '../../src/engine/sync-connector.ts';
import { openFileFolder } from '../../src/sinks/files/open-file-folder.ts';
import { openSink } from '../../src/sinks/registry.ts';
import type { Sink, SinkOptions } from '../../src/sinks/sink-access.ts';
import type { Partition } from '../../src/sinks/partition.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import type { ConnectorIdentity } from '../../src/sinks/lease.ts';
import type { ApiLimits } from '../../src/source/api/api-limits.ts';
import { openApiClient } from '../../src/source/api/open-api-client.ts';
import { openApiSource } from '../../src/source/api/open-api-source.ts';
import type { Source, ConnectorSource } from '../../src/source/source.ts';

export const testCredentials = { clientId: 'test-client', clientSecret: 'test-secret-8c1f' };

export interface SyncOnce {
  readonly baseUrl: string;
  readonly definition: Definition;
  readonly connectorId: string;
  readonly sink: SinkOptions;
  readonly connector?: string;
  /** The address that the sink knows the connector by; default one of the tests'. */
  readonly identityUrl?: string;
  readonly entities?: ChosenEntities;
  readonly concurrency?: number;
  /** What bounds questions about single records; calls are not held back. */
  readonly requestsPerSecond?: number;
  /** The service cannot tell its account. */
  readonly doubtsAccount?: boolean;
  readonly clock?: Clock;
  readonly onEvent?: OnRunEvent;
  readonly signal?: AbortSignal;
  readonly limits?: Partial<ApiLimits>;
  readonly run?: Partial<RunOptions>;
  /** Where the files of all entities that have some are stored; absent or null: none are fetched. */
  readonly files?: { readonly directory: string; readonly maxBytes?: number } | null;
  /** Stand between the engine and its source or sink (to stop it at a step, to change what it sees). */
  readonly wrapSource?: (source: Source) => Source;
  readonly wrapSink?: (sink: Sink) => Sink;
}

/** Every entity of a definition without settings. */
export function allEntities(definition: Definition): ChosenEntities {
  return new Map(
    [...definition.entities.values()].map((entity) => [
      entity.name,
      {
        variants: [{}],
        parents: entity.parents.filter(({ byDefault }) => byDefault).map((parent) => parent.entity),
        fullEveryMs: 7 * 86_400_000,
        onSchemaChange: 'keepExtra',
      },
    ]),
  );
}

export function chosenEntities(definition: Definition, names: readonly string[]): ChosenEntities {
  return new Map([...allEntities(definition)].filter(([name]) => names.includes(name)));
}

export function identityFor(
  options: Pick<SyncOnce, 'definition' | 'connectorId' | 'connector' | 'identityUrl'>,
): ConnectorIdentity {
  return {
    connector: (options.connector ?? options.definition.name) as ConnectorName,
    baseUrl: options.identityUrl ?? 'http://test',
    connectorId: options.connectorId as ConnectorId,
    definition: options.definition.name,
    definitionHash: options.definition.contentHash,
    holder: { pid: process.pid, host: 'test', command: 'test', since: new Date(0).toISOString() },
  };
}

/** One run, wired as the program wires it: a client, a source, a sink of its own; all closed afterwards. */
export async function syncOnce(options: SyncOnce): Promise<RunReport> {
  const { definition, clock = systemClock, onEvent = () => undefined } = options;
  const signal = options.signal ?? new AbortController().signal;
  await using client = openApiClient({
    api: {
      baseUrl: options.baseUrl,
      clientId: testCredentials.clientId,
      clientSecret: new Secret(testCredentials.clientSecret),
      organizationId: null,
    },
    clock,
    onEvent,
    limits: options.limits ?? {},
  });
  await using source = openApiSource(client, {
    definition,
    connectorId: options.connectorId as ConnectorId,
    address: options.baseUrl,
    concurrency: 4,
    requestsPerSecond: 10_000,
    maxCalls: options.run?.maxCalls ?? null,
    onEvent,
  });
  await using sink = await openSink(options.sink, { clock });
  return await syncConnector({
    identity: identityFor(options),
    definition,
    entities: options.entities ?? allEntities(definition),
    source: options.wrapSource?.(source) ?? source,
    sink: options.wrapSink?.(sink) ?? sink,
    concurrency: options.concurrency ?? 4,
    requestsPerSecond: options.requestsPerSecond ?? 10_000,
    doubtsAccount: options.doubtsAccount ?? false,
    clock,
    onEvent,
    signal,
    files: filesFor(options, source, clock),
    ...(options.run === undefined ? {} : { run: options.run }),
  });
}

function filesFor(
  { files = null, definition, connector }: SyncOnce,
  source: ConnectorSource,
  clock: Clock,
): FileOptions | null {
  if (files === null) return null;
  const { directory, maxBytes = 1_000_000_000 } = files;
  const name = (connector ?? definition.name) as ConnectorName;
  const entities = [...definition.entities.values()].filter(({ actions }) => actions.has('download'));
  return {
    source,
    folder: openFileFolder({ directory, connector: name, clock }),
    entities: new Set(entities.map((entity) => entity.name)),
    maxBytes,
  };
}

export function entityNamed(definition: Definition, name: string) {
  const entity = definition.entities.get(name as EntityName);
  if (entity === undefined) throw new Error(`${definition.name} has no entity ${name}`);
  return entity;
}

/** A listing that is read in full from its start. */
export function testPartition(entity: string, more: Partial<Partition> = {}): Partition {
  return {
    id: 1,
    entity: entity as EntityName,
    params: {},
    inject: {},
    rank: 0,
    treeDepth: null,
    tree: null,
    position: null,
    mode: 'full',
    storedRows: 0,
    clockDifferences: [],
    watermark: null,
    ...more,
  };
}

/** The definition with pages of so many records. */
export function withPages(definition: Definition, maxSize: number): Definition {
  const entities = [...definition.entities].map(([name, entity]) => {
    const { pagination } = entity;
    return [
      name,
      pagination.kind === 'offset' ? { ...entity, pagination: { ...pagination, maxSize } } : entity,
    ] as const;
  });
  return { ...definition, entities: new Map(entities) };
}
