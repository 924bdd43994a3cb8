import { fillTemplate, type Template } from '../definitions/upstream/service-texts.ts';
import { UpstreamFailure } from './upstream-failure.ts';

const partOfHost = /^[\w.-]+$/;

/**
 * Builds the address of a template and its host variables. Throws `UpstreamFailure` for a value that is no part of a
 * host name, whatever its pattern lets through: one with a `/`, `@`, `:` or `#` would lead elsewhere. The parsed URL
 * must have the host that was put together.
 */
export function buildAddress(template: Template, variables: ReadonlyMap<string, string>): URL {
  const text = fillTemplate(template, (name) => variables.get(name) ?? '');
  const url = URL.canParse(text) ? new URL(text) : null;
  const hasNames = template.some(({ kind }) => kind === 'name');
  const host = hostOf(template, variables).toLowerCase();
  const isOfNames = [...variables.values()].every((value) => partOfHost.test(value));
  // A value that is empty leaves a label out, and one of dots would lead to another path.
  const isWhole = isOfNames && !host.split('.').includes('') && url?.pathname === pathIn(text);
  if (url === null || (hasNames && !(isWhole && url.host === host))) {
    throw new UpstreamFailure('refused', 'the credentials do not make an address of this service', {
      reason: 'credentials',
    });
  }
  return url;
}

function pathIn(address: string): string {
  return /^https?:\/\/[^/]*(\/.*)$/i.exec(address)?.[1] ?? '/';
}

/** Resolves the part of the template between `//` and the first `/` of its text, whatever the values are. */
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
  const problem = segmentProblem(value);
  if (problem !== null) throw refusedValue(name, problem);
  return encodeURIComponent(value);
}

/** Finds the problem with a value in a path; null: there is none. */
export function segmentProblem(value: string): string | null {
  if (value === '') return 'must not be empty';
  if (control.test(value)) return 'must not hold control characters';
  if (!value.isWellFormed()) return 'must be well-formed Unicode';
  // Some servers decode before they split: `a%2F..%2Fb` would be another path to them.
  const isPath = value
    .split(/[/\\]/)
    .some((part) => /^(?:\.|%2e){1,2}$/i.test(part) || (part === '' && /[/\\]/.test(value)));
  return isPath ? 'must not be or hold a path of its own, such as "." or ".."' : null;
}

export function refusedValue(name: string, why: string): UpstreamFailure {
  return new UpstreamFailure('refused', `${name} ${why}`, { reason: 'request' });
}

/** Encodes a query as forms do: a `+` of a time is `%2B`. */
export function queryText(pairs: readonly (readonly [string, string])[]): string {
  return new URLSearchParams(pairs.map(([name, value]): [string, string] => [name, value])).toString();
}

export const formType = 'application/x-www-form-urlencoded';
