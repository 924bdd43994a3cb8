import { type Clock, instant, type Instant, systemClock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { ConnectorName } from '../core/names.ts';
import { replacesRows } from '../definitions/definition.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import { connectorsBySink, sinksOf } from '../settings/choices.ts';
import type { ConnectorSettings, SinkSettings } from '../settings/settings.ts';
import { nextSlot } from '../settings/cron.ts';
import type { SignInFacts } from '../sign-ins/sign-in-store.ts';
import type { ConnectorOverview } from '../sinks/sink-access.ts';
import { type PurgeWork, targetNames, type WithheldOf } from '../sinks/requests.ts';
import { openExistingHistory } from '../sinks/registry.ts';

/** When the first entity gets too old. In the past where one was never read whole; without limits, never. */
export function freshUntilMs(
  connector: Pick<ConnectorSettings, 'entities'>,
  freshness: ConnectorOverview['freshness'] = [],
): number {
  const limits = freshnessOf(connector, freshness).flatMap(({ asOf, freshWithinMs }) =>
    freshWithinMs === null ? [] : [asOf === null ? 0 : Date.parse(asOf) + freshWithinMs],
  );
  return Math.min(Infinity, ...limits);
}

/** The age of each entity and its limit. An entity without a run has no age, but may exceed its limit. */
export function freshnessOf(
  { entities }: Pick<ConnectorSettings, 'entities'>,
  freshness: ConnectorOverview['freshness'] = [],
) {
  const asOf = new Map(freshness.map((known) => [known.entity, known.asOf]));
  return [...entities].map(([entity, { freshWithinMs }]) => {
    return { entity, asOf: asOf.get(entity) ?? null, freshWithinMs };
  });
}

export type WithRetention = Pick<ConnectorSettings, 'entities'> & {
  readonly definition: Pick<ConnectorSettings['definition'], 'entities'>;
};

/** Retention of each entity that has data to remove by age, and of the table that it is exploded into. */
export function retentionsOf({ entities, definition }: WithRetention, clock: Pick<Clock, 'now'>) {
  const before = (ms: number | null | undefined): Instant | null =>
    ms === undefined || ms === null ? null : instant(clock.now() - ms);
  return [...entities].flatMap(([entity, { retention, history }]) => {
    const keepMs = history?.keepMs ?? null;
    if (retention === undefined && keepMs === null) return [];
    const exploded = definition.entities.get(entity)?.explodedTable?.entity;
    return [entity, ...(exploded === undefined ? [] : [exploded])].map((one) => ({
      entity: one,
      deletedBefore: before(retention?.deletedRowsMs),
      quarantinedBefore: before(retention?.quarantineMs),
      filesBefore: before(retention?.downloadsMs),
      versionsBefore: before(keepMs),
      publishedThrough: Number.MAX_SAFE_INTEGER,
      withheld: 0,
    }));
  });
}

/** Items that a guard keeps although they are too old, of entities that still have a retention. */
export function withheldByAgeOf(connector: WithRetention, stored: readonly WithheldOf[]) {
  if (stored.length === 0) return stored;
  const kept = new Set(retentionsOf(connector, systemClock).map(({ entity }) => entity));
  return stored.filter(({ entity }) => kept.has(entity));
}

/** The states of one sink's connectors, according to its ledger. */
export type SinkOverview = Readonly<Awaited<ReturnType<typeof readOverview>>>;

/**
 * Opens each sink of these connectors once and reads it in one pass. The result is by sink name. Throws if a sink
 * cannot be read.
 */
export async function readOverviews(connectors: readonly ConnectorSettings[]) {
  const overviews = new Map<string, SinkOverview>();
  for (const sink of sinksOf(connectors)) overviews.set(sink.name, await readOverview(sink));
  return overviews;
}

/**
 * As `readOverviews`, but a sink that cannot be read does not hide the others. Throws where none of them can
 * be read.
 */
export async function readOverviewsOfReadable(connectors: readonly ConnectorSettings[]) {
  const overviews = new Map<string, SinkOverview>();
  const errors = new Map<SinkSettings, SyncError>();
  for (const sink of sinksOf(connectors)) {
    try {
      overviews.set(sink.name, await readOverview(sink));
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      errors.set(sink, error);
    }
  }
  const unreadable = [...errors].map(([sink, error]) => {
    return { sink, connectors: connectors.filter((one) => one.sink.name === sink.name), error };
  });
  if (overviews.size === 0 && unreadable[0] !== undefined) throw unreadable[0].error;
  return { overviews, readable: connectors.filter(({ sink }) => overviews.has(sink.name)), unreadable };
}

export async function readOverview(sink: SinkSettings) {
  await using history = await openExistingHistory(sink);
  const all = (await history?.overview()) ?? [];
  const connectors: ReadonlyMap<ConnectorName, ConnectorOverview> = new Map(
    all.map((one) => [one.connector, one]),
  );
  // Null: the sink is not on this machine, or was never used.
  return { id: history?.sinkId ?? null, connectors };
}

/** Null where nothing of the connector was ever stored and it was never paused. */
export function overviewOf(
  overviews: ReadonlyMap<string, SinkOverview>,
  { name, sink }: Pick<ConnectorSettings, 'name' | 'sink'>,
): ConnectorOverview | null {
  return overviews.get(sink.name)?.connectors.get(name) ?? null;
}

/** A worker may be busy, or start again. */
const graceMs = 5 * 60_000;

/**
 * The next run of a connector by its schedule, before the jitter. `now`: it runs, or waits for a worker. `overdue`: no
 * worker has begun the run that was due then. `never`: the pattern never comes again.
 */
export function nextRunOf(
  { schedule }: Pick<ConnectorSettings, 'schedule'>,
  overview: Pick<ConnectorOverview, 'paused' | 'lastRun'> | null,
  nowMs: number,
):
  | { readonly kind: 'now' | 'paused' | 'no-schedule' | 'never' }
  | { readonly kind: 'at' | 'overdue'; readonly at: Instant } {
  const lastRun = overview?.lastRun ?? null;
  if (lastRun?.state === 'running') return { kind: 'now' };
  if ((overview?.paused ?? null) !== null) return { kind: 'paused' };
  if (schedule === null) return { kind: 'no-schedule' };
  // A worker begins the first run of an interval at once.
  if (lastRun === null && schedule.kind === 'every') return { kind: 'now' };
  const startedMs = lastRun === null ? nowMs : Date.parse(lastRun.startedAt);
  const endedMs = lastRun === null ? nowMs : Date.parse(lastRun.finishedAt ?? lastRun.startedAt);
  const slotAfter = (ms: number): number | undefined =>
    schedule.kind === 'cron'
      ? nextSlot(schedule, ms)
      : startedMs + Math.max(1, Math.ceil((ms - startedMs) / schedule.everyMs)) * schedule.everyMs;
  const dueMs = slotAfter(endedMs);
  if (dueMs === undefined) return { kind: 'never' };
  if (nowMs < dueMs) return { kind: 'at', at: instant(dueMs) };
  const isOverdue = nowMs - dueMs > graceMs + schedule.jitterMs;
  return isOverdue ? { kind: 'overdue', at: instant(dueMs) } : { kind: 'now' };
}

/** Sign-ins of the connectors that need a person to sign in. Calls no service, and needs no credentials. */
export async function readSignIns(connectors: readonly ConnectorSettings[], clock: Clock = systemClock) {
  const signing = connectors.filter(({ address }) => address.kind === 'direct' && address.signIn !== null);
  const states = new Map<ConnectorName, SignInState>();
  if (signing.length === 0) return states;
  // Loaded only if needed: most configs have no sign-ins.
  const { readSignInFacts } = await import('../sign-ins/sign-in-store.ts');
  for (const [sink, ofSink] of connectorsBySink(signing)) {
    const names = ofSink.map(({ name }) => name);
    try {
      const facts = await readSignInFacts(sink, names, clock);
      for (const name of names) states.set(name, stateOf(facts.get(name) ?? {}, clock.now()));
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      for (const name of names) states.set(name, stateOf({}, clock.now(), error.message));
    }
  }
  return states;
}

/** State of a sign-in by a person. */
export type SignInState = ReturnType<typeof stateOf>;

/** `problem`: why it cannot be read; null: it was read. */
function stateOf(facts: Partial<SignInFacts>, nowMs: number, problem: string | null = null) {
  const { signedInAt: since = null, refusal = null, endsAt = null } = facts;
  const isOver = endsAt !== null && Date.parse(endsAt) <= nowMs;
  const why = problem ?? refusal ?? (isOver ? `it was good until ${endsAt}` : null);
  const read = since === null ? 'signed-out' : why === null ? 'signed-in' : 'ended';
  return {
    /**
     * `ended`: the service refused to renew it, or its time is over. `signed-out`: no person has signed in.
     * `unreadable`: where it is stored cannot be read.
     */
    state: problem === null ? read : 'unreadable',
    /** When the person signed in. */
    since,
    renewedAt: facts.renewedAt ?? null,
    /** When a renewal began whose end is unknown. */
    renewalBegunAt: facts.begunAt ?? null,
    /** As the service names it. */
    account: facts.account ?? null,
    /** When the access token ends, and when a person has to sign in again; null: the service did not say. */
    accessUntil: facts.accessUntil ?? null,
    endsAt,
    /** Why it has ended or cannot be read. */
    why,
    /** Only a person can change it, by `login`. */
    needsPerson: problem === null && read !== 'signed-in',
  } as const;
}

/** Facts about entities without a key that a connector reads; empty: it reads none. */
export function keylessText({ definition, entities }: Pick<ConnectorSettings, 'definition' | 'entities'>) {
  const keyless = [...definition.entities.values()].filter(
    (entity) => entity.isKeyless === true && !replacesRows(entity) && entities.has(entity.name),
  );
  if (keyless.length === 0) return '';
  const names = firstNames(keyless.map(({ name }) => name));
  return `without a key: ${names} (a record that changes is another row, and none counts as deleted)`;
}

/** Says which purges are unfinished, and where that matters; empty: none is. */
export function unfinishedPurgeText(work: readonly PurgeWork[], program: string): string {
  if (work.length === 0) return '';
  const connectors = [...new Set(work.map(({ connector }) => connector))].join(' ');
  const isSinkLeft = work.some(({ step }) => step === 'lines' || step === 'space');
  const targets = targetNames(work).map((name) => `target ${name}`);
  const places = [...(isSinkLeft ? ['the sink'] : []), ...targets].join(' and ');
  return `a purge is not finished: ${places} may still hold what was purged; to finish it: ${program} prune ${connectors}`;
}
