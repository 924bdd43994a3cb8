import type { ErrorCode, Failure } from '../core/errors.ts';
import type { EntityName } from '../core/names.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import { newForMs, type FieldNews } from '../sinks/drift.ts';
import type { ConnectorOverview } from '../sinks/ledger-reader.ts';
import {
  freshnessOf,
  freshUntilMs,
  statesOf,
  withheldByAgeOf,
  type WithRetention,
} from './connector-states.ts';
import type { SignInState } from './read-sign-ins.ts';

/** From the best to the worst. */
export const healthWords = ['ok', 'running', 'waiting', 'incomplete', 'stale', 'failed', 'paused'] as const;
export type Health = (typeof healthWords)[number];

/** What is wrong with a connector. `isForPerson`: it does not heal by itself. */
export type Trouble = { readonly isForPerson: boolean } & (
  | { readonly kind: 'withheld' | 'pending'; readonly rows: number }
  | { readonly kind: 'credentials' | 'schema' | 'error' | 'retried'; readonly code: ErrorCode }
  | { readonly kind: 'quarantine'; readonly records: number }
  | { readonly kind: 'throttled'; readonly until: string }
  | { readonly kind: 'interrupted' }
  /** What has come up in the last days, and when the last of it is new no more. */
  | { readonly kind: 'fields'; readonly fields: readonly FieldNews[]; readonly untilMs: number }
  /** Older than the config keeps it, and more than a guard lets go at once. */
  | { readonly kind: 'withheld-by-age'; readonly entities: readonly EntityName[]; readonly items: number }
  /** A person has to run `login`. */
  | { readonly kind: 'sign-in'; readonly signIn: SignInState }
);

export type ConnectorHealth = ReturnType<typeof healthOf>;

/**
 * One word for a connector, the worst of its parts, and why. `overview` null: nothing of it was ever stored. `signIn`
 * null: no person signs in to it, or it was not read.
 */
export function healthOf(
  connector: WithRetention,
  overview: ConnectorOverview | null,
  nowMs: number,
  signIn: SignInState | null = null,
) {
  const states = statesOf(connector, overview, nowMs);
  const { lastRun = null, lastEnded = null } = overview ?? {};
  const stored = overview === null ? [] : troublesOf(connector, overview, nowMs);
  // What a run met because of it is the same trouble.
  const troubles: readonly Trouble[] =
    signIn?.needsPerson === true
      ? [
          { kind: 'sign-in', signIn, isForPerson: true },
          ...stored.filter((one) => one.kind !== 'credentials' || one.code !== 'AUTH_FAILED'),
        ]
      : stored;
  const isCut = lastRun?.state === 'interrupted' || lastEnded?.state === 'partial';
  const isPart =
    lastEnded?.state === 'degraded' || states.has('withheld') || (overview?.unproven.length ?? 0) > 0;
  const word: Health = states.has('paused')
    ? 'paused'
    : lastEnded?.state === 'failed'
      ? 'failed'
      : states.has('stale') && !states.has('never-synced')
        ? 'stale'
        : isPart
          ? 'incomplete'
          : lastRun?.state === 'running'
            ? 'running'
            : states.has('never-synced') || isCut
              ? 'waiting'
              : 'ok';
  return {
    word,
    isRunning: lastRun?.state === 'running',
    isStale: states.has('stale'),
    stalest: stalestOf(connector, overview),
    troubles,
    /** How many fields are new and need a person. */
    newFields: newFieldsOf(overview, nowMs).length,
    needsPerson: troubles.some(({ isForPerson }) => isForPerson),
  };
}

/**
 * `healthOf` for calls that are repeated: the same object until its connector's data or sign-in changes, or time passes
 * a limit. A config may have ten thousand connectors, of which few change between two calls.
 */
export function openHealths(): typeof healthOf {
  const known = new WeakMap<
    WithRetention,
    {
      readonly overview: ConnectorOverview | null;
      readonly freshUntilMs: number;
      readonly health: ConnectorHealth;
    }
  >();
  return (connector, overview, nowMs, signIn) => {
    if (signIn !== undefined && signIn !== null) return healthOf(connector, overview, nowMs, signIn);
    const last = known.get(connector);
    const isSame =
      last?.overview === overview &&
      last.health.isStale === nowMs > last.freshUntilMs &&
      last.health.newFields === newFieldsOf(overview, nowMs).length;
    if (isSame) return last.health;
    const health = healthOf(connector, overview, nowMs);
    known.set(connector, { overview, freshUntilMs: freshUntilMs(connector, overview?.freshness), health });
    return health;
  };
}

/**
 * The entity that is nearest to its limit, or furthest beyond it; without limits, the oldest. Null where nothing was
 * read yet.
 */
function stalestOf(connector: Pick<ConnectorSettings, 'entities'>, overview: ConnectorOverview | null) {
  if (overview === null || overview.freshness.length === 0) return null;
  const all = freshnessOf(connector, overview.freshness);
  const limited = all.filter(({ freshWithinMs }) => freshWithinMs !== null);
  const dueMs = ({ asOf, freshWithinMs }: (typeof all)[number]): number =>
    asOf === null ? -Infinity : Date.parse(asOf) + (freshWithinMs ?? 0);
  return (limited.length > 0 ? limited : all).reduce<(typeof all)[number] | null>(
    (oldest, one) => (oldest === null || dueMs(one) < dueMs(oldest) ? one : oldest),
    null,
  );
}

const aboutCredentials: ReadonlySet<ErrorCode> = new Set(['AUTH_FAILED', 'FORBIDDEN'] as const);

/**
 * What needs a person because it is new: until the definition declares it, and for some days. Not where
 * `onSchemaChange` gives it a column: then the config has decided.
 */
export function newFieldsOf(overview: ConnectorOverview | null, nowMs: number): readonly FieldNews[] {
  const all = overview?.newFields ?? [];
  if (all.length === 0) return all;
  return all.filter(
    ({ since, kind, hasColumn }) =>
      Date.parse(since) + newForMs > nowMs && !(kind === 'undeclared' && hasColumn),
  );
}

function troublesOf(
  connector: WithRetention,
  overview: ConnectorOverview,
  nowMs: number,
): readonly Trouble[] {
  const { lastEnded, lastRun, error, failures, missing, quarantined, resumeAt } = overview;
  const withheld = missing.reduce((sum, one) => sum + one.withheld, 0);
  const pending = missing.reduce((sum, one) => sum + one.pending, 0);
  const failed = [
    ...(error === null ? [] : [failureTrouble(error, error.recovery !== 'retry')]),
    ...failures.map((failure) => failureTrouble(failure, failure.recovery === 'stop')),
  ];
  const byKind = new Map(failed.map((one) => [one.kind, one]));
  const fields = newFieldsOf(overview, nowMs);
  const newest = Math.max(...fields.map(({ since }) => Date.parse(since)));
  const byAge = withheldByAgeOf(connector, overview.withheldByAge);
  const isCut = lastRun !== null && lastRun.state === 'interrupted' && lastRun.run !== lastEnded?.run;
  return [
    ...(withheld === 0 ? [] : [{ kind: 'withheld', rows: withheld, isForPerson: true } as const]),
    ...(byAge.length === 0
      ? []
      : [
          {
            kind: 'withheld-by-age',
            entities: byAge.map(({ entity }) => entity),
            items: byAge.reduce((sum, one) => sum + one.withheld, 0),
            isForPerson: true,
          } as const,
        ]),
    ...byKind.values(),
    // A run that stopped at them says so already.
    ...(fields.length === 0 || byKind.has('schema')
      ? []
      : [{ kind: 'fields', fields, untilMs: newest + newForMs, isForPerson: true } as const]),
    ...(quarantined === 0 ? [] : [{ kind: 'quarantine', records: quarantined, isForPerson: true } as const]),
    ...(resumeAt === null ? [] : [{ kind: 'throttled', until: resumeAt, isForPerson: false } as const]),
    ...(pending === 0 ? [] : [{ kind: 'pending', rows: pending, isForPerson: false } as const]),
    ...(isCut ? [{ kind: 'interrupted', isForPerson: false } as const] : []),
  ];
}

function failureTrouble({ code }: Pick<Failure, 'code'>, isForPerson: boolean): Trouble {
  if (aboutCredentials.has(code)) return { kind: 'credentials', code, isForPerson: true };
  if (code === 'SCHEMA_CHANGED') return { kind: 'schema', code, isForPerson: true };
  return { kind: isForPerson ? 'error' : 'retried', code, isForPerson };
}
