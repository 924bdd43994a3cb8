import { isJsonObject, memberOf, type JsonValue } from '../../core/json.ts';
import { type WireAnswer, isSuccess } from '../../http/exchange.ts';
import type { IssuedTokens } from '../../sign-ins/sign-in.ts';
import { addressOf } from '../address-of.ts';
import { askBeside } from '../ask-beside.ts';
import { control } from '../call-address.ts';
import { readJsonAnswer } from '../read-json.ts';
import { clientForm, RefusedGrantError } from '../request-tokens.ts';
import { UpstreamFailure } from '../upstream-failure.ts';
import { trade, type AuthorizationFacts } from './trade.ts';

/** One attempt of a person to sign in on another device (RFC 8628). */
export interface DeviceAttempt {
  /** What the person enters there. */
  readonly userCode: string;
  /** The address to open; it may have the code in it. */
  readonly url: string;
  readonly endsInMs: number;
  /** Asks until the person has agreed or refused, or the time is over. */
  finish(signal: AbortSignal): Promise<IssuedTokens>;
}

const longestMs = 1_800_000;
const slowerMs = 5_000;

export async function beginDevice(of: AuthorizationFacts, signal: AbortSignal): Promise<DeviceAttempt> {
  const { facts, credentials } = of;
  const { auth } = credentials;
  const { clock } = facts;
  const address = await addressOf(auth.deviceUrl ?? [], facts, signal);
  const scope: Record<string, string> = auth.scope === undefined ? {} : { scope: auth.scope };
  const { headers, body, secrets } = clientForm(auth, scope, credentials);
  const request = { url: address, method: 'POST', headers, body, timeoutMs: 30_000 } as const;
  const read = (answer: WireAnswer) =>
    isSuccess(answer.status)
      ? readDevice(readJsonAnswer(answer, [...credentials.secrets, ...secrets]), address)
      : null;
  const { deviceCode, ...shown } = await askBeside(facts, request, secrets, read, signal);
  const endsAt = clock.now() + shown.endsInMs;
  return {
    ...shown,
    finish: async (within) => {
      for (let pauseMs = shown.pauseMs; clock.now() < endsAt;) {
        await clock.sleep(pauseMs, within);
        try {
          return await trade(
            of,
            { grant_type: 'urn:ietf:params:oauth:grant-type:device_code', device_code: deviceCode },
            within,
          );
        } catch (error) {
          if (!isPending(error)) throw error;
          if (!(error instanceof RefusedGrantError) || error.error === 'slow_down') pauseMs += slowerMs;
        }
      }
      throw new UpstreamFailure('unauthorized', `no person entered the code at ${shown.url} in time`, {
        reason: 'answer',
      });
    },
  };
}

/** The person has not decided yet, or the service could not say. */
function isPending(error: unknown): boolean {
  if (error instanceof RefusedGrantError) return ['authorization_pending', 'slow_down'].includes(error.error);
  return error instanceof UpstreamFailure && (error.class === 'unavailable' || error.class === 'throttled');
}

function readDevice(value: JsonValue, asked: URL) {
  const textOf = (...names: readonly string[]): string => {
    const found = names
      .map((name) => (isJsonObject(value) ? memberOf(value, name) : undefined))
      .find((one) => typeof one === 'string' && one !== '' && one.length <= 2_000 && !control.test(one));
    if (typeof found === 'string') return found;
    throw broken(asked, names[0] ?? '');
  };
  const secondsOf = (name: string, standard: number): number => {
    const found = isJsonObject(value) ? memberOf(value, name) : undefined;
    return typeof found === 'number' && found > 0 ? found : standard;
  };
  // `verification_url` is Google's word.
  const url = textOf('verification_uri_complete', 'verification_uri', 'verification_url');
  if (!URL.canParse(url) || !['https:', asked.protocol].includes(new URL(url).protocol)) {
    throw broken(asked, 'verification_uri');
  }
  return {
    deviceCode: textOf('device_code'),
    userCode: textOf('user_code'),
    url,
    pauseMs: Math.min(secondsOf('interval', 5) * 1_000, 60_000),
    endsInMs: Math.min(secondsOf('expires_in', 600) * 1_000, longestMs),
  };
}

function broken(asked: URL, name: string): UpstreamFailure {
  return new UpstreamFailure('refused', `the answer of ${asked.host} has no usable ${name}`, {
    reason: 'brokenBody',
    status: 200,
  });
}
