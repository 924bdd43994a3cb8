import type { JsonObject } from '../../../src/core/json.ts';
import type { Paging } from '../../../src/definitions/upstream/upstream.ts';

export type TokenKind = 'cursor' | 'lastRecord' | 'nextUrl' | 'linkHeader' | 'anyOfUrl' | 'anyOfLink';

/**
 * `repeats`, `leadsBack`: behind the last page comes that page again, or the first one, for ever. `skips`: a page
 * begins in the middle of the one before it, and the next one where it should. `endsEarly`: the second page is declared
 * the last. `empty`: a page without records that announces more.
 */
export type TokenFault = 'repeats' | 'leadsBack' | 'skips' | 'endsEarly' | 'empty';

export interface TokenPage {
  readonly records: readonly JsonObject[];
  readonly next: string | null;
  readonly more: boolean;
}

const body = (name: string): { kind: 'body'; path: string[] } => ({ kind: 'body', path: [name] });
const anyOfAddress = { keep: { except: [] }, isAlone: true };
const fromAddress = { keep: ['cursor'], isAlone: false };
export const tokenPaging: Readonly<Record<TokenKind, Paging>> = {
  cursor: { kind: 'cursor', token: body('next'), more: null },
  lastRecord: { kind: 'none' },
  nextUrl: { kind: 'nextUrl', url: ['next'], ...fromAddress },
  linkHeader: { kind: 'linkHeader', url: [], ...fromAddress },
  anyOfUrl: { kind: 'nextUrl', url: ['next'], ...anyOfAddress },
  anyOfLink: { kind: 'linkHeader', url: [], ...anyOfAddress },
};

interface Asked {
  readonly kind: TokenKind;
  readonly length: number;
  readonly fault: TokenFault | undefined;
  readonly token: string | null;
}

/** A token is the row it stands at, and how many have led there: no two are alike. */
export function tokenPage(rows: readonly string[], { kind, length, fault, token }: Asked): TokenPage {
  const [row = 0, step = 0] = (token ?? '')
    .replace(/^place-(.*)-of-row$/, '$1')
    .split('.')
    .map(Number);
  let start = kind === 'lastRecord' && token !== null ? rows.indexOf(token) + 1 : row;
  if (start > 0 && start >= rows.length) {
    if (fault === 'leadsBack') start = 0;
    if (fault === 'repeats') start = Math.max(0, Math.ceil(rows.length / length) - 1) * length;
  }
  const end = start + length;
  const from = fault === 'skips' ? Math.max(0, start - Math.ceil(length / 2)) : start;
  const isOver = end >= rows.length;
  const more =
    fault === 'endsEarly'
      ? start === 0 && !isOver
      : !isOver || (fault !== undefined && fault !== 'skips' && step < 40);
  const at = `${end}.${step + 1}`;
  const isToken = kind === 'cursor' || kind === 'lastRecord';
  const isAny = kind === 'anyOfUrl' || kind === 'anyOfLink';
  // As the place of a cursor, not as a number.
  const place = isAny ? `place-${at}-of-row&step=${step}` : at;
  return {
    records: rows.slice(from, from + length).map((id) => ({ id })),
    next: !more ? null : isToken ? at : `https://made-up.example/list?cursor=${place}`,
    more,
  };
}
