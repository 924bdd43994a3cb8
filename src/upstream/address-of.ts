import type { JsonObject } from '../core/json.ts';
import type { Definition } from '../definitions/definition.ts';
import { linearPattern } from '../definitions/linear-pattern.ts';
import { isIssued, type HostSource } from '../definitions/upstream/authentication.ts';
import { fillTemplate, type Template } from '../definitions/upstream/template.ts';
import { buildAddress } from './call-address.ts';
import { credentialValue, readCredentials, unusable, type OpenCredentials } from './credentials.ts';
import type { BesideFacts } from './request-tokens.ts';
import { UpstreamFailure } from './upstream-failure.ts';

const maxHostLength = 253;

/**
 * Builds the address of a template. Each value of a name in its host is checked against its pattern: the definition's
 * file fixes the end of the host, so no credential leads to another service. Throws `UpstreamFailure` unauthorized; its
 * text names the fields and repeats no value.
 */
export function addressOf(
  template: Template,
  { upstream, credentials }: Pick<BesideFacts, 'upstream' | 'credentials'>,
): URL {
  const variables = new Map<string, string>();
  for (const [name, { from, pattern }] of upstream.host) {
    if (!template.some((part) => part.kind === 'name' && part.name === name)) continue;
    const found = firstValue(from, credentials);
    if (found === null) {
      const sources = from.map(nameOf).join(' or ');
      throw unusable(`the ${name} of the address is missing; it is read from ${sources}`);
    }
    if (
      found.value === null ||
      found.value.length > maxHostLength ||
      !linearPattern(pattern).test(found.value)
    ) {
      throw unusable(
        `the ${name} of the address, from ${nameOf(found.source)}, does not have the form ${pattern}`,
      );
    }
    variables.set(name, found.value);
  }
  return buildAddress(template, variables);
}

/**
 * Scheme, host and port of each place that receives these credentials, known without a call; the service itself is the
 * first. A host name that comes with the token stays a name. Null: the credentials cannot be used, so nothing is sent.
 * Throws `TypeError` for a definition without `upstream`.
 */
export function placesOfCredentials(definition: Definition, given: JsonObject): string | null {
  const { upstream } = definition;
  if (upstream === null) throw new TypeError(`the definition ${definition.name} has no upstream`);
  let credentials: OpenCredentials;
  try {
    credentials = readCredentials(definition, upstream, given, '');
  } catch (error) {
    if (error instanceof UpstreamFailure) return null;
    throw error;
  }
  const { auth } = credentials;
  const urls = isIssued(auth) ? [auth.tokenUrl] : [];
  if (auth?.kind === 'authorizationCode') {
    urls.push(...[auth.authorizeUrl, auth.deviceUrl, auth.revokeUrl].filter((url) => url !== undefined));
  }
  const names = new Map<string, string>();
  for (const [name, { from }] of upstream.host) {
    const found = firstValue(from, credentials);
    if (found !== null) names.set(name, found.value ?? '');
  }
  const [first = '', ...others] = [upstream.baseUrl, ...urls].map((template) =>
    originIn(fillTemplate(template, (name) => names.get(name) ?? `{${name}}`)),
  );
  return [first, ...[...new Set(others)].filter((one) => one !== first).toSorted()].join(', ');
}

function originIn(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : (/^[^/]*\/\/[^/?#]*/.exec(url)?.[0] ?? url).toLowerCase();
}

function firstValue(sources: readonly HostSource[], { values }: OpenCredentials) {
  for (const source of sources) {
    const value = credentialValue(source, values);
    if (value !== null) return { value: hostIn(source, value), source };
  }
  return null;
}

/** The host of an origin; null for an address that has more than a host. */
function hostIn({ isOrigin }: HostSource, value: string): string | null {
  if (!isOrigin || !value.includes('/')) return value;
  return /^https:\/\/([^/]+)\/?$/i.exec(value)?.[1] ?? null;
}

function nameOf(source: HostSource): string {
  switch (source.kind) {
    case 'text':
      return 'the definition';
    case 'afterLast':
      return `what follows the last "${source.separator}" of ${source.field}`;
    case 'field':
    case 'suffix':
      return source.field;
  }
}
