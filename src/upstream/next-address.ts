import { queryText } from './build-request.ts';
import { refusedValue } from './call-address.ts';
import { brokenAnswer, UpstreamFailure } from './upstream-failure.ts';

type Pair = readonly [string, string];

/**
 * A page token out of the address of the next page: the parameters of its query that the definition keeps, and nothing
 * else of it. The next call's address is built as that of every call. Throws `UpstreamFailure` refused for an address
 * of another origin, or one without these parameters.
 */
export function writeKept(address: string, asked: URL, keep: readonly string[], status: number): string {
  const next = URL.canParse(address, asked.href) ? new URL(address, asked.href) : null;
  if (next === null || next.origin !== asked.origin || next.username !== '' || next.password !== '') {
    const text = `the answer of ${asked.host} names a next page of another origin, which is not called`;
    throw new UpstreamFailure('refused', text, { reason: 'otherOrigin', status });
  }
  const pairs = keptOf(next.searchParams, keep);
  if (pairs.length === 0) {
    throw brokenAnswer(`the next page's address has none of the parameters ${keep.join(', ')}`, status);
  }
  return queryText(pairs);
}

/** The query parameters in such a token. It came back through a caller, so only what the definition keeps is taken. */
export function readKept(token: string, keep: readonly string[]): readonly Pair[] {
  const pairs = keptOf(new URLSearchParams(token), keep);
  if (pairs.length === 0) throw refusedValue('the page token', 'is none that this connector gave out');
  return pairs;
}

function keptOf(query: URLSearchParams, keep: readonly string[]): readonly Pair[] {
  return keep.flatMap((name) => query.getAll(name).map((value): Pair => [name, value]));
}

const maxLinkChars = 32_768;
const parameter = /;\s*([\w!#$&^`|~+.-]+)\s*(?:=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",;]*)))?/g;

/** The target of `rel=next` in a `Link` header (RFC 8288); null where there is none. */
export function nextLinkOf(header: string | null): string | null {
  let rest = header?.slice(0, maxLinkChars) ?? '';
  for (;;) {
    const [, target, tail = ''] = /^[\s,]*<([^<>]*)>(.*)$/s.exec(rest) ?? [];
    if (target === undefined) return null;
    const [parameters = ''] =
      /^(?:\s*;\s*[^\s=;,"]+\s*(?:=\s*(?:"(?:[^"\\]|\\.)*"|[^\s",;]*))?)*/.exec(tail) ?? [];
    for (const [, name = '', quoted, bare = ''] of parameters.matchAll(parameter)) {
      const relations = (quoted ?? bare).toLowerCase().split(/\s+/);
      if (name.toLowerCase() === 'rel' && relations.includes('next')) return target;
    }
    const following = tail.slice(parameters.length);
    const comma = following.indexOf(',');
    if (comma === -1) return null;
    rest = following.slice(comma);
  }
}
