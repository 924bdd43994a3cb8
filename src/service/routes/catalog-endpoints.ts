import * as z from 'zod';
import type { CredentialShape, Definition } from '../../definitions/definition.ts';
import { notFound, textUpTo } from '../api-error.ts';
import { ensureWorkspace } from '../local-connectors.ts';
import { unauthorized } from '../open-server.ts';
import { type ApiParts, endpoint, givenName, json, jsonObject, shownAs } from './endpoint.ts';

const summaryFields = {
  sourceDefinitionId: [z.guid(), ({ id }: Definition) => id],
  name: [z.string(), ({ title }: Definition) => title],
  iconUrl: [z.url(), ({ name }: Definition) => `https://icons.example.test/${name}.svg`],
  supportLevel: [z.literal('certified'), 'certified'],
} as const;
const summary = shownAs<Definition>()('SourceDefinition', summaryFields);
const specified = shownAs<Definition>()('SourceDefinitionWithSpec', {
  ...summaryFields,
  spec: [
    z.object({ connectionSpecification: jsonObject }),
    (definition) => ({ connectionSpecification: credentialsSchema(definition) }),
  ],
});

export const listDefinitions = endpoint({
  summary: 'List the connector types',
  description: 'What connectors can be made of. Not paginated.',
  access: 'workspace',
  request: {
    query: z.object({
      name: z
        .string()
        .optional()
        .describe('Words, in any case: each a part of the name, the short name or another name of the type.'),
    }),
  },
  success: {
    description: 'The types that have all of the words in their names.',
    body: z.object({ definitions: z.array(summary.shape) }).meta({ id: 'SourceDefinitionList' }),
  },
  example: { query: { name: 'email' } },
  handle({ query }, _call, { definitions }) {
    const words = (query.name ?? '').toLowerCase().split(/\s+/);
    const found = [...definitions.values()].filter(({ title, name, aliases }) => {
      const names = [title, name, ...aliases].join('\n').toLowerCase();
      return words.every((word) => names.includes(word));
    });
    return json({ definitions: found.map(summary.show) });
  },
});

export const showDefinition = endpoint({
  summary: 'Show a connector type',
  description:
    'With `spec`, whose `connectionSpecification` is the JSON schema of the credentials that a connector of this type takes.',
  access: 'workspace',
  request: { path: z.object({ id: z.string().describe('The `sourceDefinitionId`.') }) },
  success: {
    description: 'The type.',
    body: z.object({ id: z.guid(), definition: specified.shape }).meta({ id: 'SourceDefinitionAnswer' }),
  },
  refusals: { 404: 'There is no connector type with this id.' },
  example: { path: { id: 'b03a9f3e-22a5-11eb-adc1-0242ac120002' } },
  handle({ path }, _call, { definitions }) {
    const definition = definitionById(definitions, path.id);
    if (definition === undefined) throw notFound('There is no definition with this id.');
    return json({ id: definition.id, definition: specified.show(definition) });
  },
});

/** Finds a definition by its id, in any case. */
export function definitionById(definitions: ApiParts['definitions'], id: string): Definition | undefined {
  return [...definitions.values()].find((one) => one.id.toLowerCase() === id.toLowerCase());
}

/**
 * The JSON schema (draft 2020-12) of the credentials that a connector of this definition takes. Where there are several
 * ways to sign in, one of `oneOf`; secret fields are `writeOnly`: they are in no answer.
 */
function credentialsSchema({ title, credentials }: Definition): Record<string, unknown> {
  const [first, ...others] = credentials.map(shapeSchema);
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title,
    type: 'object',
    ...(others.length > 0 ? { oneOf: [first, ...others] } : first),
  };
}

function shapeSchema({ title, fields }: CredentialShape): Record<string, unknown> {
  const declared = [...fields];
  return {
    title,
    required: declared.filter(([, { isRequired }]) => isRequired).map(([name]) => name),
    properties: Object.fromEntries(
      declared.map(([name, { isSecret }]) => [
        name,
        { type: 'string', minLength: 1, ...(isSecret ? { writeOnly: true, format: 'password' } : {}) },
      ]),
    ),
    additionalProperties: false,
  };
}

const noStore = { 'cache-control': 'no-store' };

export const createToken = endpoint({
  summary: 'Get an application token',
  description:
    'Client credentials for a bearer token, which says what organization its requests are for. There is no refresh: ask again ' +
    'before `expires_in` seconds have passed.',
  access: 'public',
  request: {
    body: z.object({ client_id: textUpTo(1024), client_secret: textUpTo(1024) }).meta({ id: 'TokenRequest' }),
  },
  success: {
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

export const createScopedToken = endpoint({
  summary: 'Get a token for one workspace',
  description:
    'A token that is safe to hand on: it works in one workspace and nowhere else, for 20 minutes. The workspace is made where ' +
    'there is none of this name.',
  access: 'application',
  request: {
    body: z.object({ workspace_name: givenName() }).meta({ id: 'ScopedTokenRequest' }),
  },
  success: {
    description: 'The token.',
    body: z.object({ token: z.string() }).meta({ id: 'ScopedTokenResponse' }),
  },
  refusals: { 409: 'The organization has as many workspaces as it may have.' },
  example: { body: { workspace_name: 'default' } },
  handle({ body }, { principal }, { state }) {
    const workspace = ensureWorkspace(state, principal, body.workspace_name);
    const { token } = state.tokens.issueScoped(principal, workspace.id);
    return json({ token }, noStore);
  },
});
