import { hiddenWords, type Params } from '../core/records.ts';
import { usage } from '../core/usage-error.ts';
import { pagingParams, type Entity } from '../definitions/definition.ts';
import type { TriedCall } from '../engine/try-listing.ts';
import type { SeenExchange } from '../http/exchange.ts';

/* Tokens of pages are made by a service, and may hold values of records: those of a masked entity are not shown. */

type Masked = Pick<Entity, 'mask' | 'pagination'>;

const sealed = 'sealed:';

/** As a person gets it, who can give it back in the same form. */
export function shownToken({ mask }: Masked, token: string): string {
  return mask === null ? token : `${sealed}${mask.seal(token)}`;
}

/** With the token that a person was shown. Throws USAGE for one that was sealed with another key. */
export function withOpenToken(entity: Masked, params: Params): Params {
  const { mask } = entity;
  const name = tokenParam(entity);
  const given = name === null ? undefined : params[name];
  if (mask === null || name === null || typeof given !== 'string' || !given.startsWith(sealed)) return params;
  const token = mask.open(given.slice(sealed.length));
  if (token !== null) return { ...params, [name]: token };
  throw usage(`${name} was sealed with another mask.key, or was changed: begin with the first page again.`);
}

/** A call of a trial as it may be shown. */
export function withoutTokens<Call extends TriedCall & { readonly exchanges: readonly SeenExchange[] }>(
  entity: Masked,
  call: Call,
): Call {
  if (entity.mask === null) return call;
  const { request, page, next, exchanges } = call;
  const name = tokenParam(entity);
  const hidden = <Request extends TriedCall['request']>(of: Request): Request =>
    name === null || !Object.hasOwn(of.params, name)
      ? of
      : { ...of, params: { ...of.params, [name]: hiddenWords } };
  const hasToken = (page?.next?.token ?? null) !== null;
  // A next link may have it in any part.
  const isBehindToken = name !== null && Object.hasOwn(request.params, name);
  const shownUrl = (url: string): string =>
    isBehindToken ? `${new URL(url).origin}/${hiddenWords}` : (url.split('?', 1)[0] ?? '');
  return {
    ...call,
    request: hidden(request),
    page: hasToken && page?.next ? { ...page, next: { ...page.next, token: hiddenWords } } : page,
    next: next.kind === 'call' ? { ...next, request: hidden(next.request) } : next,
    exchanges: exchanges.map((seen) => ({ ...seen, url: shownUrl(seen.url), body: null })),
  };
}

function tokenParam({ pagination }: Masked): string | null {
  return pagingParams(pagination).find(({ role }) => role === 'tokenParam')?.name ?? null;
}
