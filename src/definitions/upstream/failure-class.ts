import type { EntityName } from '../../core/names.ts';
import type { AnswerPath } from './answer-place.ts';

export interface FailedAnswer {
  readonly path: AnswerPath;
  /** The value that says so; null: any value but null, false and the empty text. */
  readonly is: string | number | boolean | null;
  /** Where the answer names the error: tried for the text after `message`. */
  readonly code: AnswerPath | null;
}

/** All conditions that are not null must hold. */
export interface ErrorRule {
  readonly status: number | null;
  readonly where: readonly { readonly path: AnswerPath; readonly is: string | number | boolean }[];
  /** A fragment of the error's text, without case. */
  readonly contains: string | null;
  /** Lower-case names. */
  readonly hasHeader: string | null;
  readonly lacksHeader: string | null;
  readonly entity: EntityName | null;
  readonly then: FailureClass;
}

export const failureClasses = [
  'unauthorized',
  'forbidden',
  'throttled',
  'edge',
  'quota',
  'notFound',
  'staleToken',
  'tooLarge',
  'unavailable',
  'refused',
] as const;

/**
 * `edge`: a network in front of the service refused; `staleToken`: the page token ended, the walk begins again;
 * `unavailable`: may pass; `refused`: the call is wrong and stays so.
 */
export type FailureClass = (typeof failureClasses)[number];

export type TimeFormat = 'seconds' | 'milliseconds' | 'unix' | 'httpDate';

/** A header that holds a wait (seconds, milliseconds) or a time (unix seconds, an HTTP date). Lower-case name. */
export interface HeaderTime {
  readonly header: string;
  readonly format: TimeFormat;
}

export type Wait =
  | ({ readonly kind: 'header' } & HeaderTime)
  /** Always that long. */
  | { readonly kind: 'constant'; readonly seconds: number };

/** What an answer means that no rule matches. `isJson`: its body was a JSON object. */
export function defaultFailureClass(status: number, isJson: boolean): FailureClass {
  switch (status) {
    case 401:
      return 'unauthorized';
    case 402:
      return 'quota';
    case 403:
      return isJson ? 'forbidden' : 'edge';
    case 404:
    case 410:
      return 'notFound';
    case 413:
      return 'tooLarge';
    case 429:
    case 529:
      return 'throttled';
    case 408:
    case 409:
    case 425:
      return 'unavailable';
    default:
      return status >= 500 ? 'unavailable' : 'refused';
  }
}
