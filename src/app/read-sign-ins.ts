import { systemClock, type Clock, type Instant } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { ConnectorName } from '../core/names.ts';
import { sinksOf } from '../settings/choices.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { SignInFacts } from '../sign-ins/sign-in.ts';

/** How a connector stands that a person signs in. */
export interface SignInState {
  /**
   * `ended`: the service refused to renew it, or its time is over. `signed-out`: no person has signed in. `unreadable`:
   * where it is stored cannot be read.
   */
  readonly state: 'signed-in' | 'ended' | 'signed-out' | 'unreadable';
  /** When the person signed in. */
  readonly since: Instant | null;
  readonly renewedAt: Instant | null;
  /** When a renewal began whose end is unknown. */
  readonly renewalBegunAt: Instant | null;
  /** As the service names it. */
  readonly account: string | null;
  /** When the access token ends, and when a person has to sign in again; null: the service did not say. */
  readonly accessUntil: Instant | null;
  readonly endsAt: Instant | null;
  /** Why it has ended or cannot be read. */
  readonly why: string | null;
  /** Only a person can change it, by `login`. */
  readonly needsPerson: boolean;
}

/** Of those connectors that a person signs in; the others are absent. Asks no service, and needs no credentials. */
export async function readSignIns(
  connectors: readonly ConnectorSettings[],
  clock: Clock = systemClock,
): Promise<ReadonlyMap<ConnectorName, SignInState>> {
  const signing = connectors.filter(({ address }) => address.kind === 'direct' && address.signIn !== null);
  const states = new Map<ConnectorName, SignInState>();
  if (signing.length === 0) return states;
  // Most configs have none: what reads them is loaded for the others alone.
  const { readSignInFacts } = await import('../sign-ins/sign-in-store.ts');
  for (const sink of sinksOf(signing)) {
    const names = signing.filter((one) => one.sink.name === sink.name).map(({ name }) => name);
    try {
      const facts = await readSignInFacts(sink, names, clock);
      for (const name of names) states.set(name, stateOf(facts.get(name), clock.now()));
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      const state = { ...signedOut, state: 'unreadable', why: error.message, needsPerson: false } as const;
      for (const name of names) states.set(name, state);
    }
  }
  return states;
}

const signedOut: SignInState = {
  state: 'signed-out',
  since: null,
  renewedAt: null,
  renewalBegunAt: null,
  account: null,
  accessUntil: null,
  endsAt: null,
  why: null,
  needsPerson: true,
};

function stateOf(facts: SignInFacts | undefined, nowMs: number): SignInState {
  if (facts === undefined) return signedOut;
  const { signedInAt: since, begunAt: renewalBegunAt, refusal, ...rest } = facts;
  const { endsAt } = rest;
  const isOver = endsAt !== null && Date.parse(endsAt) <= nowMs;
  const why = refusal ?? (isOver ? `it was good until ${endsAt}` : null);
  const hasEnded = why !== null;
  const state = hasEnded ? 'ended' : 'signed-in';
  return { state, since, ...rest, renewalBegunAt, why, needsPerson: hasEnded };
}
