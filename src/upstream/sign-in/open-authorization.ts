import type { Clock } from '../../core/clock.ts';
import type { JsonObject } from '../../core/json.ts';
import { usage } from '../../core/usage-error.ts';
import type { Definition } from '../../definitions/definition.ts';
import { isSuccess } from '../../http/exchange.ts';
import type { SignInTokens } from '../../sign-ins/sign-in.ts';
import { addressOf } from '../address-of.ts';
import { askBeside } from '../ask-beside.ts';
import type { CallGate } from '../call-gate.ts';
import { readCredentials } from '../credentials.ts';
import { clientForm } from '../request-tokens.ts';
import { isOfApp } from '../signed-in.ts';
import type { UpstreamTransport } from '../upstream-transport.ts';
import { beginCode } from './authorization-code.ts';
import { beginDevice } from './device-code.ts';
import type { AuthorizationFacts } from './trade.ts';

export interface AuthorizationOptions {
  readonly definition: Definition;
  /** Of the connector: the app's. */
  readonly credentials: JsonObject;
  readonly connector: string;
  readonly gate: CallGate;
  readonly transport: UpstreamTransport;
  readonly clock: Clock;
}

export type Authorization = ReturnType<typeof openAuthorization>;

/**
 * The ways in which a person signs in through the app of a connector. Asks nothing by itself. Throws `SyncError` USAGE
 * for a connector that needs no person; its calls reject with `UpstreamFailure`, and with the signal's reason.
 */
export function openAuthorization(options: AuthorizationOptions) {
  const { definition, connector, gate, transport, clock } = options;
  const { upstream, title } = definition;
  const credentials = upstream && readCredentials(definition, upstream, options.credentials, connector);
  if (upstream === null || credentials === null || !isOfApp(credentials)) {
    throw usage(`${connector} (${title}) needs no sign-in: its credentials are all that it is read with.`);
  }
  const lane = gate.lane(credentials.account, upstream.limits);
  const of: AuthorizationFacts = { credentials, facts: { upstream, credentials, lane, transport, clock } };
  const { auth } = credentials;

  return {
    /** Null: the service has no such way. */
    device: auth.deviceUrl === undefined ? null : (signal: AbortSignal) => beginDevice(of, signal),
    code: async (redirect: string, signal: AbortSignal) => await beginCode(of, redirect, signal),
    /** Gives tokens back; false where the service has no address for that. */
    revoke: async ({ refreshToken, accessToken }: SignInTokens, signal: AbortSignal): Promise<boolean> => {
      if (auth.revokeUrl === undefined) return false;
      const url = await addressOf(auth.revokeUrl, of.facts, signal);
      const token = refreshToken ?? accessToken;
      const { headers, body, secrets } = clientForm(auth, { token }, credentials);
      const request = { url, method: 'POST', headers, body, timeoutMs: 30_000 } as const;
      return await askBeside(
        of.facts,
        request,
        [...secrets, token],
        ({ status }) => (isSuccess(status) ? true : null),
        signal,
      );
    },
  };
}
