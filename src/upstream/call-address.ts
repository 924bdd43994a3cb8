import { fillTemplate, type Template } from '../definitions/upstream/template.ts';
import { brokenAnswer, UpstreamFailure } from './upstream-failure.ts';

/**
 * The address that a template and its host variables make. The parsed URL must have the host that was put together: a
 * value that brings a `/`, `@`, `:` or `#` would lead elsewhere. Throws `UpstreamFailure` otherwise.
 */
export function buildAddress(template: Template, variables: ReadonlyMap<string, string>): URL {
  const text = fillTemplate(template, (name) => variables.get(name) ?? '');
  const url = URL.canParse(text) ? new URL(text) : null;
  const hasNames = template.some(({ kind }) => kind === 'name');
  if (url === null || (hasNames && !isAt(url, hostOf(template, variables)))) {
    throw new UpstreamFailure('refused', 'the credentials do not make an address of this service', {
      reason: 'credentials',
    });
  }
  return url;
}

/** The address with an invented host where that has names: for its scheme and its port. */
export function withoutNames(template: Template): URL {
  return new URL(fillTemplate(template, () => 'x'));
}

function isAt(url: URL, host: string): boolean {
  return (
    // A value that is empty leaves a label out.
    host.split('.').every((label) => label !== '') &&
    url.host === host.toLowerCase() &&
    url.username === '' &&
    url.password === '' &&
    url.search === '' &&
    url.hash === ''
  );
}

/** What stands between `//` and the `/` of the template's own text, whatever the values are. */
function hostOf(template: Template, variables: ReadonlyMap<string, string>): string {
  let host = '';
  for (const part of template) {
    if (part.kind === 'name') host += variables.get(part.name) ?? '';
    else {
      const text = part.text.replace(/^https?:\/\//i, '');
      const slash = text.indexOf('/');
      if (slash !== -1) return host + text.slice(0, slash);
      host += text;
    }
  }
  return host;
}

// oxlint-disable-next-line no-control-regex -- control characters are what it looks for.
export const control = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;

/**
 * The path below `base`, each value encoded as one segment. A value that a server might read as another path is
 * refused: empty, `.`, `..`, with control characters, or with one of these between slashes. Throws `UpstreamFailure`
 * refused.
 */
export function buildPath(base: URL, template: Template, values: ReadonlyMap<string, string>): URL {
  const prefix = base.pathname.replace(/\/+$/, '');
  let path = prefix;
  let shape = prefix;
  for (const part of template) {
    if (part.kind === 'text') {
      path += part.text;
      shape += part.text;
    } else {
      path += encodeSegment(part.name, values.get(part.name) ?? '');
      shape += 'x';
    }
  }
  const url = new URL(`${base.origin}${path}`);
  const segments = (text: string): number => text.split('/').length;
  if (url.origin !== base.origin || url.pathname !== path || segments(url.pathname) !== segments(shape)) {
    throw refusedValue('the path', 'changes its meaning when it is read as an address');
  }
  return url;
}

function encodeSegment(name: string, value: string): string {
  if (value === '') throw refusedValue(name, 'must not be empty');
  if (control.test(value)) throw refusedValue(name, 'must not hold control characters');
  if (!value.isWellFormed()) throw refusedValue(name, 'must be well-formed Unicode');
  // Some servers decode before they split: `a%2F..%2Fb` would be another path to them.
  if (
    value
      .split(/[/\\]/)
      .some((part) => /^(?:\.|%2e){1,2}$/i.test(part) || (part === '' && /[/\\]/.test(value)))
  ) {
    throw refusedValue(name, 'must not be or hold a path of its own, such as "." or ".."');
  }
  return encodeURIComponent(value);
}

export function refusedValue(name: string, why: string): UpstreamFailure {
  return new UpstreamFailure('refused', `${name} ${why}`, { reason: 'request' });
}

/** As forms encode it: a `+` of a time is `%2B`. */
export function queryText(pairs: readonly (readonly [string, string])[]): string {
  return new URLSearchParams(pairs.map(([name, value]): [string, string] => [name, value])).toString();
}

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
