import * as z from 'zod';
import { SyncError } from '../../core/errors.ts';
import { unauthorized } from '../guard-requests.ts';
import type { Application } from '../state/applications.ts';
import type { ServiceState } from '../state/open-service-state.ts';
import { type Endpoint, endpoint, json, givenName, textUpTo } from './endpoint.ts';
import { ensureWorkspace } from '../local-connectors.ts';

const noStore = { 'cache-control': 'no-store' };

const createToken = endpoint({
  method: 'POST',
  path: '/api/v1/account/applications/token',
  operationId: 'createApplicationToken',
  tag: 'Authentication',
  summary: 'Get an application token',
  description:
    'Client credentials for a bearer token, which says what organization its requests are for. There is no refresh: ask again ' +
    'before `expires_in` seconds have passed.',
  access: 'public',
  request: {
    body: z.object({ client_id: textUpTo(1024), client_secret: textUpTo(1024) }).meta({ id: 'TokenRequest' }),
  },
  success: {
    status: 200,
    description: 'The token. It cannot be shown a second time: only a hash of it is kept.',
    body: z
      .object({
        access_token: z.string(),
        token_type: z.literal('bearer'),
        expires_in: z.int().describe('Seconds.'),
        organization_id: z.guid(),
      })
      .meta({ id: 'TokenResponse' }),
  },
  refusals: { 401: 'The client id or the client secret is wrong.' },
  example: { body: { client_id: 'local', client_secret: '…' } },
  async handle({ body }, _caller, { state }) {
    const { client_id: clientId, client_secret: clientSecret } = body;
    const application = state.applications.authenticate(clientId, clientSecret);
    if (application === null) throw unauthorized('The client id or the client secret is wrong.');
    const { token, expiresInSeconds } = state.tokens.issueApplication(application);
    noteSignIn(state, application);
    return json(
      {
        access_token: token,
        token_type: 'bearer',
        expires_in: expiresInSeconds,
        organization_id: application.organizationId,
      },
      noStore,
    );
  },
});

const createScopedToken = endpoint({
  method: 'POST',
  path: '/api/v1/account/applications/scoped-token',
  operationId: 'createScopedToken',
  tag: 'Authentication',
  summary: 'Get a token for one workspace',
  description:
    'A token that is safe to hand on: it works in one workspace and nowhere else, for 20 minutes unless the service is configured ' +
    'otherwise. The workspace is made where there is none of this name.',
  access: 'application',
  request: {
    body: z
      .object({
        workspace_name: givenName(),
        region_id: z.guid().nullish().describe('Accepted and not used: there is one region, this machine.'),
      })
      .meta({ id: 'ScopedTokenRequest' }),
  },
  success: {
    status: 200,
    description: 'The token.',
    body: z.object({ token: z.string() }).meta({ id: 'ScopedTokenResponse' }),
  },
  refusals: { 409: 'The organization has as many workspaces as it may have.' },
  example: { body: { workspace_name: 'default' } },
  handle({ body }, { principal }, { state }) {
    const workspace = ensureWorkspace(state, principal, body.workspace_name);
    const { token } = state.tokens.issueScoped(principal, workspace.id);
    state.audit.note(principal, 'scoped_token.issued', workspace.id);
    return json({ token }, noStore);
  },
});

const showScopedToken = endpoint({
  method: 'GET',
  path: '/api/v1/account/applications/scoped-token/info',
  operationId: 'getScopedTokenInfo',
  tag: 'Authentication',
  summary: 'Ask what a scoped token is for',
  description: 'The workspace and the organization of the scoped token that the request comes with.',
  access: 'scoped',
  success: {
    status: 200,
    description: 'Where the token works.',
    body: z
      .object({ organization_id: z.guid(), workspace_id: z.guid(), workspace_name: z.string() })
      .meta({ id: 'ScopedTokenInfo' }),
  },
  handle(_request, { principal }, { state }) {
    const workspace = state.workspaces.byId(principal.organizationId, principal.workspaceId ?? '');
    // A scoped token does not outlive its workspace; one that is deleted at this very moment is too late.
    if (workspace === null) throw unauthorized('The workspace of the access token was deleted.');
    return json({
      organization_id: workspace.organizationId,
      workspace_id: workspace.id,
      workspace_name: workspace.name,
    });
  },
});

export const tokenEndpoints: readonly Endpoint[] = [createToken, createScopedToken, showScopedToken];

/** A full disk takes no note and must not keep clients out; the request log has the sign-in all the same. */
function noteSignIn(state: ServiceState, { organizationId, clientId }: Application): void {
  try {
    state.audit.note({ organizationId, clientId }, 'token.issued', clientId);
  } catch (error) {
    if (!(error instanceof SyncError && error.code === 'SINK_FULL')) throw error;
  }
}
