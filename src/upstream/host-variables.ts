import type { Clock } from '../core/clock.ts';
import { linearPattern } from '../definitions/linear-pattern.ts';
import type { Template } from '../definitions/upstream/answer-place.ts';
import type {
  CredentialValue,
  HostSource,
  PlainAuthentication,
} from '../definitions/upstream/authentication.ts';
import type { Upstream } from '../definitions/upstream/upstream.ts';
import { isSuccess } from '../http/exchange.ts';
import { withoutNames } from './call-address.ts';
import type { CallLane } from './call-gate.ts';
import { afterLast, credentialValue, signRequest, unusable, type OpenCredentials } from './credentials.ts';
import { failureOfError, readFailure } from './read-failure.ts';
import { readJsonAnswer, valueAt } from './read-json.ts';
import { UpstreamFailure } from './upstream-failure.ts';
import type { UpstreamTransport } from './upstream-transport.ts';

interface HostFacts {
  readonly upstream: Upstream;
  readonly credentials: OpenCredentials;
  readonly lane: CallLane;
  readonly transport: UpstreamTransport;
  readonly clock: Clock;
}

type LookUp = Extract<HostSource, { kind: 'lookup' }>;

const maxHostLength = 253;
const timeoutMs = 30_000;
const maxBodyBytes = 1024 * 1024;

/**
 * The values of a template's names, which stand in its host, each checked against its pattern: the definition's file
 * fixes the host's end, so no credential leads to another service. Throws `UpstreamFailure` unauthorized; its text
 * names the fields and repeats no value.
 */
export async function hostVariables(
  template: Template,
  facts: HostFacts,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, string>> {
  const variables = new Map<string, string>();
  for (const [name, { from, pattern }] of facts.upstream.host) {
    if (!template.some((part) => part.kind === 'name' && part.name === name)) continue;
    const found = await firstValue(from, facts, signal);
    if (found === null) {
      throw unusable(`the ${name} of the address is missing; it is read from ${listOf(from)}`);
    }
    if (found.value.length > maxHostLength || !linearPattern(pattern).test(found.value)) {
      throw unusable(
        `the ${name} of the address, from ${nameOf(found.source)}, does not have the form ${pattern}`,
      );
    }
    variables.set(name, found.value);
  }
  return variables;
}

async function firstValue(
  sources: readonly HostSource[],
  facts: HostFacts,
  signal: AbortSignal,
): Promise<{ readonly value: string; readonly source: HostSource } | null> {
  for (const source of sources) {
    const value =
      source.kind === 'lookup'
        ? hasValues(source.auth, facts.credentials)
          ? await facts.lane.remembered(source.url, () => lookUpHost(source, facts, signal))
          : null
        : credentialValue(source, facts.credentials.values);
    if (value !== null) return { value, source };
  }
  return null;
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
  { upstream, credentials, transport, clock }: HostFacts,
  signal: AbortSignal,
): Promise<string> {
  const url = new URL(text);
  const signature = signRequest(auth, credentials);
  for (const [name, value] of signature.query) url.searchParams.set(name, value);
  const headers = { accept: 'application/json', 'user-agent': 'connector-sync', ...signature.headers };
  try {
    const answer = await transport.send(
      {
        url,
        base: withoutNames(upstream.baseUrl),
        namedBy: 'definition',
        method: 'GET',
        headers,
        body: null,
        timeoutMs,
        maxBodyBytes,
      },
      signal,
    );
    if (!isSuccess(answer.status)) {
      const secrets = [...credentials.secrets, ...signature.secrets];
      throw readFailure(upstream, answer, { entity: null, host: url.host, secrets, now: clock.now() });
    }
    const found = valueAt(readJsonAnswer(answer), path);
    const named =
      typeof found === 'string' ? (separator === null ? found : afterLast(found, separator)) : null;
    if (named === null || named === '') {
      const why = `${url.host} does not take the credentials: it names no address for them`;
      throw new UpstreamFailure('unauthorized', why, { reason: 'answer', status: answer.status });
    }
    return named;
  } catch (error) {
    signal.throwIfAborted();
    throw failureOfError(error, url.host) ?? error;
  }
}

function listOf(sources: readonly HostSource[]): string {
  return sources.map(nameOf).join(' or ');
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
