import { Secret } from '../core/secret.ts';
import type { MapValue } from '../definitions/deep-freeze.ts';
import type { MaskRule } from '../definitions/mask/mask-rules.ts';
import type { Masks } from '../definitions/mask/masked-definition.ts';
import { formatDuration } from './parse-unit.ts';
import type { PostgresAddress } from './postgres-address.ts';
import type {
  ConnectorSettings,
  EntitySettings,
  LocalSettings,
  NotifySettings,
  PublishPlace,
  PublishSettings,
  Schedule,
  SinkSettings,
} from './settings.ts';

/**
 * The settings as plain data for people: defaults filled in, durations as texts, secrets never, nor what is missing
 * here.
 */
export function describeSettings(settings: LocalSettings): Readonly<Record<string, unknown>> {
  const { api, redis, http } = settings.parts;
  // Credentials of connectors are shown as secrets, whether they are here or not.
  const ofParts = settings.missing.filter(({ path }) => !path.startsWith('connectors.'));
  const missing = new Set(ofParts.map(({ path }) => path));
  const { isConfigured: _, ...queue } = redis;
  const { allowUpstreamHosts: hosts, publish, notify, allowNotifyHosts: notifyHosts } = settings;
  const described = {
    file: settings.file,
    api,
    allowUpstreamHosts: hosts.length === 0 ? null : hosts,
    signIns: settings.signIns,
    mask: settings.mask,
    definitions: [...settings.definitions.keys()],
    sinks: each(settings.sinks, describeSink),
    redis: { ...queue, url: describeRedis(redis.url.reveal()) },
    http: { ...http, tokens: Object.keys(http.tokens).length === 0 ? null : http.tokens },
    connectors: each(settings.connectors, describeConnector),
    publish: publish.size === 0 ? null : each(publish, describeTarget),
    notify: notify.size === 0 ? null : each(notify, describeChannel),
    allowNotifyHosts: notifyHosts.length === 0 ? null : notifyHosts,
    mcp: describeMcp(settings.mcp),
    guards: settings.guards,
  };
  return Object.fromEntries(shownMembers(described, '', missing));
}

/** As it is written; null: nothing is. */
function describeMcp({ connectors, exclude, sql, sqlRole }: LocalSettings['mcp']): object | null {
  if (connectors.length === 0 && exclude.length === 0 && !sql && sqlRole === null) return null;
  const written = exclude.map(
    ({ connector, entity, field }) =>
      `${connector === null ? '' : `${connector}/`}${entity}${field === null ? '' : `.${field}`}`,
  );
  const sqlPassword = sqlRole === null || sqlRole.password === null ? null : '[secret]';
  return { connectors, exclude: written, sql, sqlUser: sqlRole?.user ?? null, sqlPassword };
}

/** Null is left out, and `everyMs: 60000` is `every: 1m`. */
function shownMembers(
  members: object,
  at: string,
  missing: ReadonlySet<string>,
): readonly (readonly [name: string, value: unknown])[] {
  return Object.entries(members).flatMap(([key, value]: [string, unknown]) => {
    if (value === null || value === undefined) return [];
    const isDuration = key.endsWith('Ms') && typeof value === 'number';
    const name = isDuration ? key.slice(0, -'Ms'.length) : key;
    const place = `${at}${name}`;
    if (missing.has(place)) return [[name, '[missing]']];
    return [[name, isDuration ? formatDuration(value) : shown(value, place, missing)]];
  });
}

function shown(value: unknown, at: string, missing: ReadonlySet<string>): unknown {
  if (value instanceof Secret) return String(value);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(shownMembers(value, `${at}.`, missing));
}

function each<Value>(
  values: ReadonlyMap<string, Value>,
  describe: (value: Value) => object,
): Readonly<Record<string, object>> {
  return Object.fromEntries([...values].map(([name, value]) => [name, describe(value)]));
}

function describeSink(sink: SinkSettings): object {
  const { name: _, ...described } = sink;
  if (described.type !== 'postgres') return described;
  return describeServer(described);
}

/** A sink or target on a server, with its addresses as texts. */
function describeServer({
  type,
  connection,
  direct = null,
  ...rest
}: {
  readonly type: 'postgres';
  readonly connection: PostgresAddress;
  readonly direct?: PostgresAddress | null;
}): object {
  return { type, url: describePostgres(connection), directUrl: direct && describePostgres(direct), ...rest };
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
  const { definition, address, sink, schedule, freshWithinMs, concurrency, downloads } = connector;
  const { kind: _, ...where } = address;
  return {
    definition: definition.name,
    // Of credentials only which there are.
    ...('credentials' in where ? { credentials: Object.fromEntries(where.credentials) } : where),
    sink: sink.name,
    schedule: schedule && describeSchedule(schedule),
    freshWithinMs,
    concurrency,
    rateLimit: { requestsPerSecond: connector.requestsPerSecond },
    entities: each(connector.entities, describeEntity),
    mask: connector.masks.size === 0 ? null : each(connector.masks, describeMask),
    downloads,
  };
}

function describeSchedule(schedule: Schedule): object {
  const when =
    schedule.kind === 'cron'
      ? { cron: schedule.pattern, timezone: schedule.timezone }
      : { everyMs: schedule.everyMs };
  return { ...when, jitterMs: schedule.jitterMs === 0 ? null : schedule.jitterMs, missed: schedule.missed };
}

function describeEntity({ variants, parents, trustsTotal, ...entity }: EntitySettings): object {
  return {
    variants,
    parents: parents.length === 0 ? null : parents,
    ...entity,
    totals: trustsTotal === undefined ? null : trustsTotal ? 'trust' : 'ignore',
  };
}

function describeMask({ rules: { fields, unknownFields } }: MapValue<Masks>): object {
  const describe = (rule: MaskRule): string =>
    rule.kind === 'hash' && rule.as !== 'value'
      ? `hash as ${rule.as}`
      : rule.kind === 'truncate'
        ? `truncate to ${rule.length}`
        : rule.kind;
  return {
    fields: Object.fromEntries([...fields].map(([path, rule]) => [path, describe(rule)])),
    unknownFields,
  };
}

function describeTarget(target: PublishSettings): object {
  const { name: _, connectors, when, snapshotEveryMs, keepMs, ...place } = target;
  const { kind, ...every } = when;
  return {
    ...describePlace(place),
    connectors: connectors.map((connector) => connector.name),
    when: kind === 'every' ? every : kind,
    snapshotEveryMs,
    keepMs,
  };
}

function describeChannel(channel: NotifySettings): object {
  const { name: _, connectors, kinds, ...how } = channel;
  const where = 'url' in how ? { url: shownPlace(channel) } : {};
  return { ...how, ...where, connectors: connectors.length === 0 ? null : connectors, kinds };
}

/** Where a channel of `notify` leads, without what may be secret in its address. */
export function shownPlace(channel: NotifySettings): string {
  if (channel.type === 'email') return `${channel.server} to ${channel.to.join(', ')}`;
  const text = channel.url.reveal();
  return text === '' ? '[missing]' : `${new URL(text).origin}/[secret]`;
}

function describePlace(place: PublishPlace): object {
  switch (place.type) {
    case 'postgres':
      return describeServer(place);
    case 's3': {
      const { type, bucket, prefix, region, endpoint, credentials, ...files } = place;
      return { type, bucket, prefix, region, endpoint, ...credentials, ...files };
    }
    case 'files':
    case 'duckdb':
      return place;
  }
}
