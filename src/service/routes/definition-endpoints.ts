import { hash } from 'node:crypto';
import * as z from 'zod';
import type { CredentialShape, Definition } from '../../definitions/definition.ts';
import { notFound } from '../api-error.ts';
import { type ApiParts, type Endpoint, endpoint, json, jsonObject, shownAs } from './endpoint.ts';

const summaryFields = {
  sourceDefinitionId: [z.guid(), ({ id }: Definition) => id],
  destinationDefinitionId: [z.null(), null],
  name: [z.string(), ({ title }: Definition) => title],
  dockerRepository: [z.null(), null],
  iconUrl: [z.url(), iconUrl],
  custom: [z.boolean(), false],
  supportLevel: [z.enum(['archived', 'certified', 'community', 'none']), 'certified'],
} as const;
const summary = shownAs<Definition>()('SourceDefinition', summaryFields);
const specified = shownAs<Definition>()('SourceDefinitionWithSpec', {
  ...summaryFields,
  spec: [
    z.object({ connectionSpecification: jsonObject }),
    (definition) => ({ connectionSpecification: credentialsSchema(definition) }),
  ],
});

const listDefinitions = endpoint({
  method: 'GET',
  path: '/api/v1/integrations/definitions/sources',
  operationId: 'listSourceDefinitions',
  tag: 'Definitions',
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
    status: 200,
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

const showDefinition = endpoint({
  method: 'GET',
  path: '/api/v1/integrations/definitions/sources/{id}',
  operationId: 'getSourceDefinition',
  tag: 'Definitions',
  summary: 'Show a connector type',
  description:
    'With `spec`, whose `connectionSpecification` is the JSON schema of the credentials that a connector of this type takes.',
  access: 'workspace',
  request: { path: z.object({ id: z.string().describe('The `sourceDefinitionId`.') }) },
  success: {
    status: 200,
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

export const definitionEndpoints: readonly Endpoint[] = [listDefinitions, showDefinition];

/** In any case. */
export function definitionById(definitions: ApiParts['definitions'], id: string): Definition | undefined {
  return [...definitions.values()].find((one) => one.id.toLowerCase() === id.toLowerCase());
}

/** There is one template for each definition. */
export function templateId(definition: Definition): string {
  const hex = hash('md5', JSON.stringify(['template', definition.name]));
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`;
}

export function iconUrl(definition: Definition): string {
  return `https://icons.example.test/${definition.name}.svg`;
}

/**
 * The JSON schema (draft 2020-12) of the credentials that a connector of this definition takes. Where there are several
 * ways to sign in, one of `oneOf`; secret fields are `writeOnly`: they are in no answer.
 */
export function credentialsSchema({ title, credentials }: Definition): Record<string, unknown> {
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
