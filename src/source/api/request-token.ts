import * as z from 'zod';
import type { ApiCall } from './api-caller.ts';
import type { ApiSettings } from './api-settings.ts';
import { callFacts } from './call-failure.ts';
import { parseJsonText } from '../../http/lossless-json.ts';
import { catalogFacts, readAnswer } from './catalog-calls.ts';
import { invalidBody } from './classify-failure.ts';
import type { IssuedToken } from './token-cache.ts';

/** RFC 6750's b64token: what may stand behind "Bearer " in a header. */
const bearerToken = z.string().regex(/^[A-Za-z0-9._~+/=-]{1,16384}$/);

const tokenAnswer = z.object({
  access_token: bearerToken,
  // Seconds. Absent: as the hosted service has it.
  expires_in: z.number().positive().default(900),
});

const facts = callFacts('token', 'get an application token');

/**
 * `POST account/applications/token` with the client credentials; there is no refresh token, so this is also the
 * renewal.
 */
export function tokenCall(api: ApiSettings): ApiCall<IssuedToken> {
  return {
    request: {
      method: 'POST',
      path: '/api/v1/account/applications/token',
      query: {},
      body: JSON.stringify({ client_id: api.clientId, client_secret: api.clientSecret.reveal() }),
    },
    facts,
    read(answer) {
      const parsed = tokenAnswer.safeParse(readJson(answer.text));
      if (!parsed.success) {
        throw invalidBody(
          facts,
          'expected {access_token, expires_in} with a token that fits a header; where this is no token endpoint, check the path in api.baseUrl',
        );
      }
      return { token: parsed.data.access_token, lifetimeMs: parsed.data.expires_in * 1_000 };
    },
  };
}

function readJson(text: string): unknown {
  try {
    return parseJsonText(text);
  } catch {
    return null;
  }
}

/** The service says 20 minutes in its documentation and nothing in its answer. */
const lifetimeMs = 15 * 60_000;

const scopedTokenAnswer = z.object({ token: bearerToken });

/**
 * `POST account/applications/scoped-token`, with the application token: a token that sees one workspace alone. The
 * service may make a workspace that it does not know.
 */
export function scopedTokenCall(workspace: string): ApiCall<IssuedToken> {
  const facts = catalogFacts('get a token for the workspace of api.scopedToWorkspace');
  return {
    request: {
      method: 'POST',
      path: '/api/v1/account/applications/scoped-token',
      query: {},
      body: JSON.stringify({ workspace_name: workspace }),
    },
    facts,
    read: ({ text }) => ({ token: readAnswer(text, scopedTokenAnswer, facts).token, lifetimeMs }),
  };
}
