import type { ConnectorName } from '../../core/names.ts';
import type { JsonObject } from '../../core/json.ts';
import type { ErrorCode, ErrorContext, Recovery } from '../../core/errors.ts';
import type { Entity } from '../../definitions/definition.ts';
import type { SearchAnswer } from '../search-answer.ts';

/** What is searched, and for what. */
export interface SearchCall {
  /** A SQLite sink. */
  readonly file: string;
  readonly connector: ConnectorName;
  readonly entity: Entity;
  /** As they came from outside. */
  readonly params: JsonObject;
  /** What a cursor belongs to. */
  readonly scope: string;
}

export interface ProcessSettings {
  readonly cursorKey: Buffer;
  readonly deadlineMs: number;
}

/** To a search process: first its settings, then one call after the answer to the one before. */
export type ToSearchProcess =
  | { readonly kind: 'settings'; readonly settings: ProcessSettings }
  | { readonly kind: 'search'; readonly call: SearchCall };

export type FromSearchProcess =
  | { readonly kind: 'ready' }
  | { readonly kind: 'answer'; readonly answer: SearchAnswer }
  | { readonly kind: 'failed'; readonly error: SentError };

/** A `SyncError` without its cause, which stays where it happened. */
export interface SentError {
  readonly message: string;
  readonly code: ErrorCode;
  readonly recovery: Recovery;
  readonly context: ErrorContext;
}
