import * as z from 'zod';
import type { ApiCall } from './api-caller.ts';
import { catalogFacts } from './catalog-facts.ts';
import { readAnswer } from './read-answer.ts';
import type { IssuedToken } from './token-cache.ts';

/** The service says 20 minutes in its documentation and nothing in its answer. */
const lifetimeMs = 15 * 60_000;

// RFC 6750's b64token: what may stand behind "Bearer " in a header.
const scopedTokenAnswer = z.object({ token: z.string().regex(/^[A-Za-z0-9._~+/=-]{1,16384}$/) });

/**
 * `POST account/applications/scoped-token`, with the application token: a token that sees one workspace alone. The service may make
 * a workspace that it does not know.
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
