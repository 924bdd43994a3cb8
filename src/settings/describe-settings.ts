import { formatDuration } from './parse-unit.ts';
import type {
  ApiSettings,
  ConnectorSettings,
  EntitySettings,
  LocalSettings,
  PostgresAddress,
  PublishPlace,
  PublishSettings,
  Schedule,
  SinkSettings,
} from './settings.ts';

/**
 * The settings as plain data for people: defaults filled in, durations as texts, secrets never, nor what is missing
 * here.
 */
export function describeSettings(settings: LocalSettings): object {
  const { api, redis, http } = settings.parts;
  const missing = new Set(settings.missing.map(({ path }) => path));
  const shown = (path: string, text: string): string => (missing.has(path) ? '[missing]' : text);
  return {
    file: settings.file,
    ...(api === null ? {} : { api: describeApi(api, shown) }),
    ...(settings.allowUpstreamHosts.length === 0 ? {} : { allowUpstreamHosts: settings.allowUpstreamHosts }),
    definitions: [...settings.definitions.keys()],
    sinks: Object.fromEntries([...settings.sinks].map(([name, sink]) => [name, describeSink(sink)])),
    redis: {
      url: missing.has('redis.url') ? '[missing]' : describeRedis(redis.url.reveal()),
      prefix: shown('redis.prefix', redis.prefix),
    },
    http: {
      ...(http.token === null ? {} : { token: shown('http.token', http.token.toString()) }),
      connectorSeries: http.connectorSeries,
    },
    connectors: Object.fromEntries(
      [...settings.connectors].map(([name, connector]) => [name, describeConnector(connector)]),
    ),
    ...(settings.publish.size === 0
      ? {}
      : {
          publish: Object.fromEntries(
            [...settings.publish].map(([name, target]) => [name, describeTarget(target, shown)]),
          ),
        }),
    guards: { ...settings.guards },
  };
}

/** What is shown of a value: itself, unless it is missing here. */
type Shown = (path: string, text: string) => string;

function describeApi(api: ApiSettings, shown: Shown): object {
  const { organizationId, scopedToWorkspace, lookups } = api;
  return {
    baseUrl: shown('api.baseUrl', api.baseUrl),
    clientId: shown('api.clientId', api.clientId),
    clientSecret: shown('api.clientSecret', api.clientSecret.toString()),
    ...(organizationId === null ? {} : { organizationId: shown('api.organizationId', organizationId) }),
    ...(scopedToWorkspace === null
      ? {}
      : { scopedToWorkspace: shown('api.scopedToWorkspace', scopedToWorkspace) }),
    lookups: {
      requestsPerSecond: lookups.requestsPerSecond,
      concurrency: lookups.concurrency,
      cacheFor: formatDuration(lookups.cacheForMs),
    },
  };
}

function describeSink(sink: SinkSettings): object {
  if (sink.type === 'postgres') {
    const { type, connection, direct, schema, connections, durability } = sink;
    const around = direct === null ? {} : { directUrl: describePostgres(direct) };
    return { type, url: describePostgres(connection), ...around, schema, connections, durability };
  }
  const { name: _, lockTimeoutMs, ...rest } = sink;
  return { ...rest, lockTimeout: formatDuration(lockTimeoutMs) };
}

/** Only where it is. */
function describePostgres({ hosts, database, password, sslmode, rootCertificate }: PostgresAddress): string {
  const places = hosts.map(({ host, port }) => `${host}:${port}`).join(',');
  const root = rootCertificate === null ? '' : `&sslrootcert=${rootCertificate}`;
  return `postgresql://${password === null ? '' : '[secret]@'}${places}/${database}?sslmode=${sslmode}${root}`;
}

/** Only where it is: user, password and options may all be secret. */
function describeRedis(text: string): string {
  const url = new URL(text);
  return `${url.protocol}//${url.password === '' ? '' : '[secret]@'}${url.host}`;
}

function describeConnector(connector: ConnectorSettings): object {
  const { address } = connector;
  return {
    definition: connector.definition.name,
    ...describeAddress(address),
    sink: connector.sink.name,
    ...(connector.schedule === null ? {} : { schedule: describeSchedule(connector.schedule) }),
    ...describeFreshness(connector.freshWithinMs),
    concurrency: connector.concurrency,
    rateLimit: { requestsPerSecond: connector.requestsPerSecond },
    entities: Object.fromEntries(
      [...connector.entities].map(([name, entity]) => [name, describeEntity(entity)]),
    ),
    ...(connector.downloads === null ? {} : { downloads: { ...connector.downloads } }),
  };
}

/** Of credentials only which there are. */
function describeAddress(address: ConnectorSettings['address']): object {
  switch (address.kind) {
    case 'id':
      return { id: address.id };
    case 'workspace':
      return { workspace: address.workspace };
    case 'direct':
      return {
        credentials: Object.fromEntries(
          [...address.credentials].map(([name, value]) => [name, String(value)]),
        ),
      };
  }
}

function describeTarget(target: PublishSettings, shown: Shown): object {
  const { name, connectors, when, snapshotEveryMs, keepMs } = target;
  return {
    ...describePlace(target, (key, text) => shown(`publish.${name}.${key}`, text)),
    connectors: connectors.map((connector) => connector.name),
    when: when.kind === 'every' ? { every: formatDuration(when.everyMs) } : when.kind,
    ...(snapshotEveryMs === null ? {} : { snapshotEvery: formatDuration(snapshotEveryMs) }),
    ...(keepMs === null ? {} : { keep: formatDuration(keepMs) }),
  };
}

function describePlace(place: PublishPlace, shown: Shown): object {
  switch (place.type) {
    case 'files': {
      const { type, directory, format, layout } = place;
      return { type, directory: shown('directory', directory), format, layout: shown('layout', layout) };
    }
    case 's3': {
      const { type, bucket, prefix, region, endpoint, credentials, format, layout } = place;
      return {
        type,
        bucket: shown('bucket', bucket),
        prefix: shown('prefix', prefix),
        ...(region === null ? {} : { region: shown('region', region) }),
        ...(endpoint === null ? {} : { endpoint: shown('endpoint', endpoint) }),
        ...(credentials === null
          ? {}
          : {
              accessKeyId: shown('accessKeyId', credentials.accessKeyId),
              secretAccessKey: shown('secretAccessKey', credentials.secretAccessKey.toString()),
            }),
        format,
        layout: shown('layout', layout),
      };
    }
    case 'postgres': {
      const { type, connection, schema, deletes } = place;
      return { type, url: shown('url', describePostgres(connection)), schema, deletes };
    }
    case 'duckdb':
      return { type: place.type, path: shown('path', place.path) };
  }
}

function describeSchedule(schedule: Schedule): object {
  return {
    ...(schedule.kind === 'cron'
      ? { cron: schedule.pattern, timezone: schedule.timezone }
      : { every: formatDuration(schedule.everyMs) }),
    ...(schedule.jitterMs === 0 ? {} : { jitter: formatDuration(schedule.jitterMs) }),
    missed: schedule.missed,
  };
}

function describeEntity(entity: EntitySettings): object {
  return {
    variants: entity.variants,
    ...(entity.parents.length === 0 ? {} : { parents: entity.parents }),
    fullEvery: formatDuration(entity.fullEveryMs),
    ...describeFreshness(entity.freshWithinMs),
    onSchemaChange: entity.onSchemaChange,
    ...(entity.trustsTotal === undefined ? {} : { totals: entity.trustsTotal ? 'trust' : 'ignore' }),
  };
}

function describeFreshness(ms: number | null): object {
  return ms === null ? {} : { freshWithin: formatDuration(ms) };
}
