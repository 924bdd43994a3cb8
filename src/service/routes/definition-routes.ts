import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import type { Definition } from '../../definitions/definition.ts';
import { parseRequest } from '../answer-errors.ts';

const query = z.object({ name: z.string().optional() });

/** `GET /api/v1/integrations/definitions/sources?name=`: the catalog; `name` is a part of the title, in any case. */
export function definitionRoutes(server: FastifyInstance, definitions: readonly Definition[]): void {
  server.get('/api/v1/integrations/definitions/sources', (request, reply) => {
    const name = (parseRequest(query, request.query, 'query').name ?? '').toLowerCase();
    const found = definitions.filter((definition) => definition.title.toLowerCase().includes(name));
    return reply.send({ definitions: found.map(toSourceDefinition) });
  });
}

function toSourceDefinition(definition: Definition): unknown {
  return {
    sourceDefinitionId: definition.id,
    destinationDefinitionId: null,
    name: definition.title,
    dockerRepository: null,
    iconUrl: iconUrl(definition),
    custom: false,
    supportLevel: 'certified',
  };
}

export function iconUrl(definition: Definition): string {
  return `https://icons.example.test/${definition.name}.svg`;
}
