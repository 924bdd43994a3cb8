import type { ErrorCode, Failure } from '../core/errors.ts';
import { type Health, healthWords } from '../core/health.ts';
import type { EntityName } from '../core/names.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import { type FieldNews, newForMs } from '../sinks/readings.ts';
import type { ConnectorOverview } from '../sinks/sink-access.ts';
import type { PurgeWork } from '../sinks/requests.ts';
import {
  freshnessOf,
  freshUntilMs,
  type SignInState,
  withheldByAgeOf,
  type WithRetention,
} from './connector-states.ts';

/**
 * Trouble of a connector, and the word that it makes true; null: none. `isForPerson`: it does not heal by
 * itself.
 */
export type Trouble = { readonly isForPerson: boolean; readonly word: Health | null } & (
  | { readonly kind: 'withheld' | 'pending'; readonly rows: number; readonly entities: readonly EntityName[] }
  | {
      readonly kind: 'credentials' | 'schema' | 'error' | 'retried';
      readonly code: ErrorCode;
      readonly message: string | undefined;
      /** Entities of which listings or files were set aside; undefined: the whole run stopped. */
      readonly entities: readonly EntityName[] | undefined;
    }
  /** Records that the last run could not store. `misfits`: fields of theirs whose values fit no column. */
  | {
      readonly kind: 'quarantine';
      readonly of: ConnectorOverview['quarantined'];
      readonly misfits: readonly FieldNews[];
    }
  /** Entities that were not read, or whose listings prove nothing: their definition rests on guesses. */
  | { readonly kind: 'unproven'; readonly entities: readonly EntityName[] }
  | { readonly kind: 'throttled'; readonly until: string }
  | { readonly kind: 'interrupted' | 'limited' | 'left-out' }
  | { readonly kind: 'part-missing'; readonly listings: number; readonly entities: readonly EntityName[] }
  | ({ readonly kind: 'late' } & ReturnType<typeof freshnessOf>[number])
  | ({ readonly kind: 'paused' } & NonNullable<ConnectorOverview['paused']>)
  /** New fields of the last days, and the time at which the last of them stops being new. */
  | { readonly kind: 'fields'; readonly fields: readonly FieldNews[]; readonly untilMs: number }
  /** Data older than the config keeps, and more than a guard removes at once. */
  | { readonly kind: 'withheld-by-age'; readonly entities: readonly EntityName[]; readonly items: number }
  | { readonly kind: 'purge'; readonly work: readonly PurgeWork[] }
  /** A person has to run `login`. */
  | { readonly kind: 'sign-in'; readonly signIn: SignInState }
);

export type ConnectorHealth = ReturnType<typeof healthOf>;

/**
 * State of a connector, for every reader: the words that are true of it, the worst of them, and the reason. `overview`
 * null: nothing of it was ever stored. `signIn` null: no person signs in to it, or the sign-in was not read.
 */
export function healthOf(
  connector: WithRetention,
  overview: ConnectorOverview | null,
  nowMs: number,
  signIn: SignInState | null = null,
) {
  const stored = overview === null ? [] : troublesOf(connector, overview, nowMs);
  const isSignedOut = signIn?.needsPerson === true;
  const isRefusal = (one: Trouble): boolean => one.kind === 'credentials' && one.code === 'AUTH_FAILED';
  const all: readonly Trouble[] = isSignedOut
    ? [
        // Failures that follow from it are the same trouble.
        { kind: 'sign-in', signIn, word: stored.find(isRefusal)?.word ?? null, isForPerson: true },
        ...stored.filter((one) => !isRefusal(one)),
      ]
    : stored;
  const isRunning = overview?.lastRun?.state === 'running';
  const words = new Set<Health>([
    ...all.flatMap(({ word }) => word ?? []),
    ...(isRunning ? (['running'] as const) : []),
    ...(isNew(overview) ? (['new'] as const) : []),
  ]);
  const word = healthWords.find((one) => words.has(one)) ?? 'ok';
  const reason = all.find((one) => one.word === word) ?? null;
  // A pause is a decision, not a problem.
  const troubles = all.filter(({ kind }) => kind !== 'paused');
  return {
    word,
    /** All words that are true of the connector; empty if it is `ok`. */
    words: words as ReadonlySet<Health>,
    /** Why `word` is true; null where that needs no reason. */
    reason,
    isRunning,
    stalest: stalestOf(connector, overview),
    /** The reason comes first, then those that need a person most. */
    troubles: troubles.toSorted((left, right) => Number(right === reason) - Number(left === reason)),
    needsPerson: troubles.some(({ isForPerson }) => isForPerson),
  };
}

/** Nothing was read yet: no run has ended, or none could begin. */
function isNew(overview: ConnectorOverview | null): boolean {
  return overview === null || overview.identity === null || overview.lastEnded === null;
}

/** Numbers of connectors by health word. */
export function countWords(all: readonly { readonly word: Health }[]): Readonly<Record<Health, number>> {
  const counts = { failed: 0, late: 0, incomplete: 0, paused: 0, running: 0, new: 0, ok: 0 };
  for (const { word } of all) counts[word] += 1;
  return counts;
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
    asOf === null ? 0 : Date.parse(asOf) + (freshWithinMs ?? 0);
  const [stalest = null] = (limited.length > 0 ? limited : all).toSorted(
    (one, other) => dueMs(one) - dueMs(other),
  );
  return stalest;
}

const aboutCredentials: ReadonlySet<ErrorCode> = new Set(['AUTH_FAILED', 'FORBIDDEN'] as const);

function troublesOf(connector: WithRetention, overview: ConnectorOverview, nowMs: number) {
  const { lastEnded, error, failures, missing } = overview;
  const partMissing = overview.partMissing.filter(({ isUnproven }) => isUnproven !== true);
  const { recovery } = error ?? unknownError;
  const failed =
    lastEnded?.state === 'failed'
      ? [failureTrouble(error ?? unknownError, recovery !== 'retry', 'failed')]
      : [];
  const leftOut = failures
    .filter(({ code }) => code !== 'UNPROVEN')
    .map((failure) => failureTrouble(failure, failure.recovery === 'stop', 'incomplete'));
  const unproven = [
    ...failures.flatMap(({ code, entities }) => (code === 'UNPROVEN' ? entities : [])),
    ...overview.partMissing.flatMap(({ entity, isUnproven }) => (isUnproven === true ? [entity] : [])),
  ];
  // Keeps the gravest of one kind, which stands last.
  const byKind = new Map([...leftOut, ...failed].map((one) => [one.kind, one]));
  const byAge = withheldByAgeOf(connector, overview.withheldByAge);
  const items = byAge.reduce((sum, one) => sum + one.withheld, 0);
  const listings = partMissing.reduce((sum, one) => sum + one.listings, 0);
  const found: readonly (Trouble | false)[] = [
    ...lateness(connector, overview, nowMs),
    missingRows(missing, 'withheld'),
    byAge.length > 0 && {
      kind: 'withheld-by-age',
      entities: byAge.map(({ entity }) => entity),
      items,
      ...waits,
    },
    overview.purgeWork.length > 0 && { kind: 'purge', work: overview.purgeWork, ...waits },
    ...byKind.values(),
    unproven.length > 0 && {
      kind: 'unproven',
      entities: unproven,
      word: 'incomplete',
      isForPerson: true,
    },
    listings > 0 && {
      kind: 'part-missing',
      listings,
      entities: partMissing.map(({ entity }) => entity),
      ...heals,
    },
    ...fieldTroubles(overview, byKind.has('schema'), nowMs),
    lastEnded?.state === 'degraded' &&
      leftOut.length + unproven.length === 0 && { kind: 'left-out', ...heals },
    ...cut(overview),
    missingRows(missing, 'pending'),
    overview.paused !== null && { kind: 'paused', ...overview.paused, word: 'paused', isForPerson: false },
  ];
  return found.filter((one) => one !== false);
}

/** Trouble that waits for a person and changes no word, and trouble that the next run resolves. */
const waits = { word: null, isForPerson: true } as const;
const heals = { word: 'incomplete', isForPerson: false } as const;

/** Rows that look deleted and are kept; only those that a guard withholds need a person. */
function missingRows(missing: ConnectorOverview['missing'], kind: 'withheld' | 'pending'): Trouble | false {
  const some = missing.filter((one) => one[kind] > 0);
  const isForPerson = kind === 'withheld';
  return (
    some.length > 0 && {
      kind,
      rows: some.reduce((sum, one) => sum + one[kind], 0),
      entities: some.map(({ entity }) => entity),
      word: isForPerson ? 'incomplete' : null,
      isForPerson,
    }
  );
}

/**
 * Refused records, and new fields. New fields need a person until the definition declares them, and for some days.
 * Fields to which `onSchemaChange` gives a column need none: the config has decided. `isStopped`: the last run stopped
 * at them, and says so.
 */
function fieldTroubles(
  { newFields: all, quarantined: of }: ConnectorOverview,
  isStopped: boolean,
  nowMs: number,
): readonly Trouble[] {
  const current = all.filter(({ since, hasColumn }) => Date.parse(since) + newForMs > nowMs && !hasColumn);
  const entities = new Set(of.map(({ entity }) => entity));
  const isMisfit = ({ entity, isRefused }: FieldNews): boolean => isRefused && entities.has(entity);
  const fields = current.filter((one) => !isMisfit(one));
  const untilMs = Math.max(...fields.map(({ since }) => Date.parse(since))) + newForMs;
  return [
    ...(of.length > 0
      ? [{ kind: 'quarantine', of, misfits: current.filter(isMisfit), ...waits } as const]
      : []),
    ...(fields.length > 0 && !isStopped ? [{ kind: 'fields', fields, untilMs, ...waits } as const] : []),
  ];
}

const unknownError: Failure = { code: 'INTERNAL', recovery: 'stop', message: 'it stopped on an error' };

/** Nothing is late before its first read. A connector that is paused or has a run in progress needs no person. */
function lateness(connector: WithRetention, overview: ConnectorOverview, nowMs: number): readonly Trouble[] {
  const stalest = stalestOf(connector, overview);
  if (isNew(overview) || stalest === null || nowMs <= freshUntilMs(connector, overview.freshness)) return [];
  const { paused, lastRun, lastEnded } = overview;
  const isForPerson = paused === null && lastRun?.state !== 'running' && lastEnded?.state !== 'failed';
  return [{ kind: 'late', ...stalest, word: 'late', isForPerson }];
}

/** The newest run ended before its work was done, and nothing has failed. */
function cut({ lastRun, resumeAt }: ConnectorOverview): readonly Trouble[] {
  if (lastRun?.state === 'interrupted') return [{ kind: 'interrupted', ...heals }];
  if (lastRun?.state !== 'partial') return [];
  return [
    resumeAt === null ? { kind: 'limited', ...heals } : { kind: 'throttled', until: resumeAt, ...heals },
  ];
}

function failureTrouble(
  failure: Pick<Failure, 'code'> & Partial<Failure & ConnectorOverview['failures'][number]>,
  isForPerson: boolean,
  word: Health,
): Trouble {
  const { code, message, entities } = failure;
  const of = { code, message, entities, word };
  if (aboutCredentials.has(code)) return { kind: 'credentials', ...of, isForPerson: true };
  if (code === 'SCHEMA_CHANGED') return { kind: 'schema', ...of, isForPerson: true };
  return { kind: isForPerson ? 'error' : 'retried', ...of, isForPerson };
}
