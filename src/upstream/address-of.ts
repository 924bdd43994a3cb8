import type { JsonObject } from '../core/json.ts';
import type { Definition } from '../definitions/definition.ts';
import { linearPattern } from '../definitions/linear-pattern.ts';
import {
  isIssued,
  type CredentialValue,
  type HostSource,
  type PlainAuthentication,
} from '../definitions/upstream/authentication.ts';
import { fillTemplate, type Template } from '../definitions/upstream/template.ts';
import { isSuccess, type WireAnswer } from '../http/exchange.ts';
import { readJsonAnswer, valueAt } from './answers.ts';
import { buildAddress } from './call-address.ts';
import type { CallLane } from './call-gate.ts';
import {
  afterLast,
  credentialValue,
  readCredentials,
  signRequest,
  unusable,
  type OpenCredentials,
} from './credentials.ts';
import { askBeside, type BesideFacts } from './request-tokens.ts';
import { UpstreamFailure } from './upstream-failure.ts';

export interface HostFacts extends BesideFacts {
  readonly lane: CallLane;
}

type LookUp = Extract<HostSource, { kind: 'lookup' }>;

const maxHostLength = 253;

const timeoutMs = 30_000;

/**
 * The address that a template makes. The values of its names, which stand in its host, are each checked against their
 * pattern: the definition's file fixes the host's end, so no credential leads to another service. Throws
 * `UpstreamFailure` unauthorized; its text names the fields and repeats no value.
 */
export async function addressOf(template: Template, facts: HostFacts, signal: AbortSignal): Promise<URL> {
  const variables = new Map<string, string>();
  for (const [name, { from, pattern }] of facts.upstream.host) {
    if (!template.some((part) => part.kind === 'name' && part.name === name)) continue;
    const found = await firstValue(from, facts, signal);
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
 * Scheme, host and port of each place that gets these credentials, known without a call; the service itself is the
 * first. A name of a host that only an answer tells stays a name. Null: the credentials cannot be used, so nothing is
 * sent. Throws `TypeError` for a definition without `upstream`.
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
  const lookUps: string[] = [];
  for (const [name, { from }] of upstream.host) {
    const source = from.find((one) =>
      one.kind === 'lookup'
        ? hasValues(one.auth, credentials)
        : credentialValue(one, credentials.values) !== null,
    );
    if (source?.kind === 'lookup') lookUps.push(originIn(source.url));
    else if (source !== undefined) {
      names.set(name, hostIn(source, credentialValue(source, credentials.values) ?? '') ?? '');
    }
  }
  const origins = [upstream.baseUrl, ...urls].map((template) =>
    originIn(fillTemplate(template, (name) => names.get(name) ?? `{${name}}`)),
  );
  const [first = '', ...others] = [...origins, ...lookUps];
  return [first, ...[...new Set(others)].filter((one) => one !== first).toSorted()].join(', ');
}

function originIn(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : (/^[^/]*\/\/[^/?#]*/.exec(url)?.[0] ?? url).toLowerCase();
}

async function firstValue(sources: readonly HostSource[], facts: HostFacts, signal: AbortSignal) {
  for (const source of sources) {
    const value =
      source.kind === 'lookup'
        ? hasValues(source.auth, facts.credentials)
          ? await facts.lane.remembered(source.url, () => lookUpHost(source, facts, signal))
          : null
        : credentialValue(source, facts.credentials.values);
    if (value !== null) return { value: hostIn(source, value), source };
  }
  return null;
}

/** Of an origin its host; null for an address with more than a host in it. */
function hostIn(source: HostSource, value: string): string | null {
  if (source.kind === 'lookup' || !source.isOrigin || !value.includes('/')) return value;
  return /^https:\/\/([^/]+)\/?$/i.exec(value)?.[1] ?? null;
}

function hasValues(auth: PlainAuthentication, { values }: OpenCredentials): boolean {
  const has = (value: CredentialValue): boolean => credentialValue(value, values) !== null;
  switch (auth.kind) {
    case 'basic':
      return has(auth.user) && has(auth.password);
    case 'bearer':
      return has(auth.token);
    case 'header':
    case 'query':
      return has(auth.value);
  }
}

/** Some token endpoints answer 200 to a bad token: an answer without the host is unauthorized. */
async function lookUpHost(
  { url: text, auth, path, separator }: LookUp,
  facts: HostFacts,
  signal: AbortSignal,
): Promise<string> {
  const url = new URL(text);
  const { query, headers, secrets } = signRequest(auth, facts.credentials);
  for (const [name, value] of query) url.searchParams.set(name, value);
  const request = { url, method: 'GET', headers, body: null, timeoutMs } as const;
  const read = (answer: WireAnswer): string | null => {
    if (!isSuccess(answer.status)) return null;
    const found = valueAt(readJsonAnswer(answer, [...facts.credentials.secrets, ...secrets]), path);
    const named =
      typeof found === 'string' ? (separator === null ? found : afterLast(found, separator)) : null;
    if (named !== null && named !== '') return named;
    const why = `${url.host} does not take the credentials: it names no address for them`;
    throw new UpstreamFailure('unauthorized', why, { reason: 'answer', status: answer.status });
  };
  return await askBeside(facts, request, secrets, read, signal);
}

function nameOf(source: HostSource): string {
  switch (source.kind) {
    case 'text':
      return 'the definition';
    case 'lookup':
      return `the answer of ${new URL(source.url).host}`;
    case 'afterLast':
      return `what follows the last "${source.separator}" of ${source.field}`;
    case 'field':
    case 'suffix':
      return source.field;
  }
}
