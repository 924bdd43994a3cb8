import type { Instant } from '../core/clock.ts';
import type { Database, Tx } from '../sql/database.ts';
import type { Lock } from '../sql/sqlite/lock.ts';

/** Tokens that a service has issued to a person for one connector. Every value is secret. */
export interface SignInTokens {
  readonly accessToken: string;
  /** Null: the service issued none. */
  readonly refreshToken: string | null;
  /** Additional values from the answer, by the credential fields that the definition keeps them in. */
  readonly kept: Readonly<Record<string, string>>;
  /** The hash of the app and of the place that the tokens were issued for: they work with no other. */
  readonly app: string;
}

/** Tokens as a service has just issued them. */
export interface IssuedTokens extends SignInTokens {
  /** The lifetime of each token from now on; null: the service does not say. */
  readonly accessSeconds: number | null;
  readonly refreshSeconds: number | null;
}

/** Facts about a sign-in without its tokens; none of them is secret. */
export interface SignInFacts {
  readonly signedInAt: Instant;
  /** Null: the tokens are those of the sign-in itself. */
  readonly renewedAt: Instant | null;
  /** The service's name of the account; null: it did not say. */
  readonly account: string | null;
  /** When the access token ends; null: the service did not say. */
  readonly accessUntil: Instant | null;
  /** When a person has to sign in again, unless the tokens are renewed before; null: the service did not say. */
  readonly endsAt: Instant | null;
  /** Start of a renewal with an unknown result: it may have used up the refresh token. Null: there is none. */
  readonly begunAt: Instant | null;
  /** The reason why the service refused to renew the tokens, without secrets. Null: it has not refused. */
  readonly refusal: string | null;
}

export interface StoredSignIn extends SignInFacts {
  readonly tokens: SignInTokens;
  /** Changes with every change of the tokens. */
  readonly revision: string;
}

/** The result of one renewal. `failed`: `isOpen` if the service may have renewed the tokens nevertheless. */
export type Renewal =
  | { readonly kind: 'renewed'; readonly tokens: IssuedTokens }
  | { readonly kind: 'refused'; readonly why: string }
  | { readonly kind: 'failed'; readonly error: unknown; readonly isOpen: boolean };

/** The sign-in of one connector, stored for all processes that read it. */
export interface SignIn extends AsyncDisposable {
  /** Null: no person has signed in. */
  read(): Promise<StoredSignIn | null>;
  /** Stores a new sign-in of a person, replacing the former one. Durable when it resolves. */
  store(tokens: IssuedTokens): Promise<void>;
  /** Stores the name that the service gives to the signed-in account. */
  nameAccount(account: string): Promise<void>;
  /** Removes the sign-in, and returns it. */
  remove(): Promise<StoredSignIn | null>;
  /**
   * Lets `ask` renew the tokens of this revision while no other process does; the result is durable when this resolves.
   * If they were renewed meanwhile, refused or removed, `ask` is not called. Returns the stored sign-in. `signal` ends
   * the wait for another process, but not a renewal. Rejects with the error of `ask`.
   */
  renew(
    revision: string,
    ask: (found: StoredSignIn) => Promise<Renewal>,
    signal: AbortSignal,
  ): Promise<StoredSignIn | null>;
}

/** Operations that depend on where sign-ins are stored, in addition to SQL. */
export interface SignInDriver extends AsyncDisposable {
  /** Null: nothing was ever stored there. `makes`: creates the place. */
  open(makes: boolean): Promise<Database | null>;
  /** The time of the clock that all processes at this place share. */
  now(tx: Tx): Promise<number>;
  /**
   * A lock for one process at a time, which ends with the process: every earlier renewal is over then. Null: another
   * process holds it. Absent: a renewal counts as over when its time is up.
   */
  readonly lock?: () => Lock | null;
}
