import type { Instant } from '../core/clock.ts';
import type { Database, Tx } from '../sql/database.ts';
import type { Lock } from '../sql/sqlite/lock.ts';

/** Tokens that a service has issued to a person for one connector. Every value is secret. */
export interface SignInTokens {
  readonly accessToken: string;
  /** Null: the service issued none. */
  readonly refreshToken: string | null;
  /** By the fields of the credentials that the definition keeps them in. */
  readonly kept: Readonly<Record<string, string>>;
  /** The hash of the app that they were issued to, and of where: with another one they are of no use. */
  readonly app: string;
}

/** Tokens as a service has just issued them. */
export interface IssuedTokens extends SignInTokens {
  /** How long each is good for from now on; null: the service does not say. */
  readonly accessSeconds: number | null;
  readonly refreshSeconds: number | null;
}

/** Facts about a sign-in without its tokens; none of them is secret. */
export interface SignInFacts {
  readonly signedInAt: Instant;
  /** Null: the tokens are those that the person brought. */
  readonly renewedAt: Instant | null;
  /** Whose it is, as the service names the account; null: it did not say. */
  readonly account: string | null;
  /** When the access token ends; null: the service did not say. */
  readonly accessUntil: Instant | null;
  /** When a person has to sign in again, unless the tokens are renewed before; null: the service did not say. */
  readonly endsAt: Instant | null;
  /** When a renewal began whose end is unknown: it may have used up the refresh token. Null: there is none. */
  readonly begunAt: Instant | null;
  /** Why the service refused to renew the tokens, without secrets. Null: it has not refused. */
  readonly refusal: string | null;
}

export interface StoredSignIn extends SignInFacts {
  readonly tokens: SignInTokens;
  /** Another one for every change of the tokens. */
  readonly revision: string;
}

/** How one renewal ended. `failed`: `isOpen` where the service may have renewed the tokens all the same. */
export type Renewal =
  | { readonly kind: 'renewed'; readonly tokens: IssuedTokens }
  | { readonly kind: 'refused'; readonly why: string }
  | { readonly kind: 'failed'; readonly error: unknown; readonly isOpen: boolean };

/** The sign-in of one connector, stored for all processes that read it. */
export interface SignIn extends AsyncDisposable {
  /** Null: no person has signed in. */
  read(): Promise<StoredSignIn | null>;
  /** A person has signed in: takes the place of what was there. Durable when it resolves. */
  store(tokens: IssuedTokens): Promise<void>;
  /** Stores the name that the service gives to the signed-in account. */
  nameAccount(account: string): Promise<void>;
  /** Gives what was there. */
  remove(): Promise<StoredSignIn | null>;
  /**
   * Has `ask` renew the tokens of this revision, while no other process does; what it brings is durable when this
   * resolves. Where they were renewed meanwhile, refused or removed, `ask` is not called. Gives what is stored then.
   * `signal` ends the wait for another process, and no renewal. Rejects with what `ask` failed with.
   */
  renew(
    revision: string,
    ask: (found: StoredSignIn) => Promise<Renewal>,
    signal: AbortSignal,
  ): Promise<StoredSignIn | null>;
}

/** Operations that depend on where sign-ins are stored, in addition to SQL. */
export interface SignInDriver extends AsyncDisposable {
  /** Null: nothing was ever stored there. `makes`: the place is made then. */
  open(makes: boolean): Promise<Database | null>;
  /** By the clock that all processes at this place share. */
  now(tx: Tx): Promise<number>;
  /**
   * Held by one process at a time, and freed by its end: then every renewal that began before is over. Null: another
   * process has it. Absent: a renewal counts as over when its time is up.
   */
  readonly lock?: () => Lock | null;
}
