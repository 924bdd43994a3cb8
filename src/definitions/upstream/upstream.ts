import type { EntityName } from '../../core/names.ts';
import type { JsonValue } from '../../core/json.ts';
import type { AnswerPath, AnswerPlace, Template } from './answer-place.ts';
import type { Authentication, HostVariable } from './authentication.ts';
import type { ErrorRule, FailedAnswer, HeaderTime, Wait } from './failure-class.ts';

/**
 * How a definition's records are read from the third party itself: what its `upstream:` says, checked and with every
 * default filled in. Data only; `src/upstream` carries it out.
 */
export interface Upstream {
  /** Scheme https (http only for loopback addresses), names in the host part only. No `/` at its end. */
  readonly baseUrl: Template;
  /** Every name of `baseUrl`. */
  readonly host: ReadonlyMap<string, HostVariable>;
  /** By the title of the credential shape; every shape of the definition has one. */
  readonly auth: ReadonlyMap<string, Authentication>;
  /** The request that proves the credentials, and where its answer says which account they belong to. */
  readonly check: {
    readonly request: UpstreamRequest;
    /** In order: the first that the answer has. */
    readonly identity: readonly AnswerPath[];
    readonly name: AnswerPath | null;
  };
  /** Of one credential, for all entities and processes together. */
  readonly limits: { readonly concurrency: number; readonly requestsPerSecond: number };
  /** Where the text of an error may be: the first that is a text counts. */
  readonly message: readonly AnswerPath[];
  /** An answer with a status below 300 that is an error all the same; null: there are none. */
  readonly failed: FailedAnswer | null;
  /** In order: the first that matches decides. None matches: `defaultFailureClass`. */
  readonly errors: readonly ErrorRule[];
  /** In order: the first that the answer has. */
  readonly retryAfter: readonly Wait[];
  /** At 0 the next call waits until `reset`; null: the service has no such header. */
  readonly remaining: { readonly header: string; readonly reset: HeaderTime } | null;
  /** Every entity of the definition, with a request for each action that asks the third party. */
  readonly entities: ReadonlyMap<EntityName, EntityRequests>;
}

export interface EntityRequests {
  readonly list: ListRequest;
  readonly get: GetRequest | null;
  readonly download: DownloadRequest | null;
  /** Field as it is sent -> field as it is declared. */
  readonly rename: ReadonlyMap<string, string>;
  /** Field -> parameter of the call whose value it is given, where the record does not have the field. */
  readonly inject: ReadonlyMap<string, string>;
}

export interface UpstreamRequest {
  readonly method: 'GET' | 'POST';
  /** It changes nothing, so it may be sent again. Always true of GET. */
  readonly isSafe: boolean;
  /** Names are parameters of the call. Begins with `/`. */
  readonly path: Template;
  /** Lower-case names: those of all requests and those of the entity, which win. */
  readonly headers: ReadonlyMap<string, string>;
  /** Sent with every call, under the parameters. */
  readonly query: ReadonlyMap<string, string>;
  /** POST only; merged under the parameters. */
  readonly body: Readonly<Record<string, JsonValue>>;
  /** For the whole call, from connecting to the last byte of the body. */
  readonly timeoutMs: number;
  /** Of the body, compressed and decompressed each. Not of a downloaded file. */
  readonly maxBodyBytes: number;
  /** Every declared parameter of the action. */
  readonly params: ReadonlyMap<string, ParamPlace>;
}

export interface ListRequest extends UpstreamRequest {
  /** The array of records; empty: the answer is the array. */
  readonly records: AnswerPath;
  /** Key of the metadata -> where the answer has it. An absent value is left out. */
  readonly metadata: ReadonlyMap<string, AnswerPlace>;
  readonly paging: Paging;
}

export interface GetRequest extends UpstreamRequest {
  /** The record; empty: the answer is the record. */
  readonly record: AnswerPath;
}

export interface DownloadRequest extends UpstreamRequest {
  /**
   * Null: the answer is the file (redirects are followed without credentials). Else the answer is JSON that holds the
   * address of the file.
   */
  readonly url: AnswerPath | null;
}

/** Where the value of a parameter goes. An absent value is not sent, nor one that is among `omit`. */
export type ParamPlace =
  | { readonly kind: 'path' }
  | {
      readonly kind: 'query' | 'header';
      readonly name: string;
      /** How an array is written: `a,b`; `n=a&n=b`; `n[]=a&n[]=b`. */
      readonly list: 'comma' | 'repeat' | 'brackets';
      readonly omit: readonly JsonValue[];
    }
  | { readonly kind: 'body'; readonly at: AnswerPath; readonly omit: readonly JsonValue[] }
  /** `paging` sends it in another form. */
  | { readonly kind: 'paging' };

/**
 * How the pages of the service become those that the entity's `pagination` declares. Where it is by token, the token
 * and the flag are written under the first of its `tokenKeys` and `flagKeys`; where it is by offset, the total under
 * the first of its `totalKeys`.
 */
export type Paging =
  /** The parameters are the service's own, and `metadata` copies what its answer says. */
  | { readonly kind: 'none' }
  /** pageToken. No token ends the walk, as does `more` when it is there and not true. */
  | { readonly kind: 'cursor'; readonly token: AnswerPlace; readonly more: AnswerPlace | null }
  /**
   * pageToken. The next page begins after the last record: its `field` is the token. `more` says whether there is one.
   */
  | { readonly kind: 'lastRecord'; readonly field: AnswerPath; readonly more: AnswerPlace }
  /**
   * pageToken. The next page's address, in the body or the `Link` header with rel=next. It must have the origin of
   * `baseUrl`, and only the `keep` parameters of its query are taken over, into the token; `isAlone`: a call with a
   * token sends no other parameters.
   */
  | {
      readonly kind: 'nextUrl' | 'linkHeader';
      /** `nextUrl` only; empty for `linkHeader`. */
      readonly url: AnswerPath;
      readonly keep: readonly string[];
      readonly isAlone: boolean;
    }
  /** offset. The parameters are the service's own (perhaps under other names). */
  | { readonly kind: 'offset'; readonly total: AnswerPlace | null }
  /**
   * offset. `param` counts pages from `first` on. One call for a page, never two, between which rows could move. An
   * offset at which no page of the asked size begins gets that of a smaller one which shows the most from there on;
   * those before the offset are left out.
   */
  | {
      readonly kind: 'page';
      readonly param: string;
      readonly first: number;
      readonly total: AnswerPlace | null;
      /** The service has no parameter for the size: each page holds the `maxSize` of the entity's pagination. */
      readonly isFixed: boolean;
      /** A later page than the first that is refused with this status is empty; null: none is. */
      readonly endStatus: number | null;
    };
