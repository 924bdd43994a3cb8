import type { AnswerPath, Template } from './answer-place.ts';

/** A text made of one credential field, or a fixed one. An absent field, or one without the separator, has no value. */
export type CredentialValue =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'field'; readonly field: string }
  /** What follows the last separator: `us1` of `abc-us1`. */
  | { readonly kind: 'afterLast'; readonly field: string; readonly separator: string }
  /** With a text at its end: `me@example.com/token`. */
  | { readonly kind: 'suffix'; readonly field: string; readonly suffix: string };

export interface HostVariable {
  /** In order: the first that has a value counts, and no other. */
  readonly from: readonly HostSource[];
  /** A value of which not the whole matches is refused before anything is sent. See `linearPattern`. */
  readonly pattern: string;
}

export type HostSource =
  | CredentialValue
  /**
   * A GET that tells it, with credentials of its own kind; has no value where those have none. `separator`: what
   * follows the last one counts; null: the whole text. An answer without a text at `path` is unauthorized.
   */
  | {
      readonly kind: 'lookup';
      readonly url: string;
      readonly auth: PlainAuthentication;
      readonly path: AnswerPath;
      readonly separator: string | null;
    };

export type PlainAuthentication =
  | { readonly kind: 'basic'; readonly user: CredentialValue; readonly password: CredentialValue }
  /** `Authorization: <scheme> <token>`; the scheme is Bearer where the file names none. */
  | { readonly kind: 'bearer'; readonly token: CredentialValue; readonly scheme: string }
  /** Lower-case name. The prefix stands before the value as it is. */
  | {
      readonly kind: 'header';
      readonly name: string;
      readonly value: CredentialValue;
      readonly prefix: string;
    }
  | { readonly kind: 'query'; readonly name: string; readonly value: CredentialValue };

export type Authentication = PlainAuthentication | RefreshedAuthentication;

/**
 * OAuth 2.0 (RFC 6749, section 6): a bearer token that a refresh token renews. Without a refresh token it is a plain
 * bearer token.
 */
export interface RefreshedAuthentication {
  readonly kind: 'refresh';
  readonly scheme: string;
  /**
   * Credential field of the access token; may be absent: then it is asked for before the first call. A new one is saved
   * here.
   */
  readonly accessToken: string;
  /** Credential field of the refresh token. A new one is saved here before it is used. */
  readonly refreshToken: string;
  readonly clientId: CredentialValue;
  readonly clientSecret: CredentialValue;
  /** Names are host variables that need no lookup. */
  readonly tokenUrl: Template;
  /** How the client identifies itself: basic authentication, or `client_id` and `client_secret` in the body. */
  readonly style: 'basic' | 'body';
  readonly format: 'form' | 'json';
  /** Each answer brings a new refresh token and ends the old one. */
  readonly rotates: boolean;
}
