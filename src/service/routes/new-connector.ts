import * as z from 'zod';
import type { JsonObject, JsonValue } from '../../core/json.ts';
import { credentialProblems } from '../../definitions/params.ts';
import type { Definition } from '../../definitions/definition.ts';
import { ApiError } from '../api-error.ts';
import { templateId } from './catalog-endpoints.ts';
import { givenName } from './endpoint.ts';

const maxConfigDepth = 32;
const maxConfigBytes = 64 * 1024;

/** An object that is kept and shown as it came. */
const config = z
  .record(z.string(), z.custom<JsonValue>())
  .refine(
    (value) => isKept(value),
    `Expected at most ${maxConfigBytes} bytes, ${maxConfigDepth} levels deep.`,
  );

export const requestedEntities = z
  .array(
    z.object({
      entity: z.string(),
      modes: z.array(z.enum(['read', 'write'])).nullish(),
    }),
  )
  .max(256);

/** What a connector was made with besides its credentials, as one object for the service's state. */
export const connectorConfig = z.object({
  replication: keptObject(),
  environment: keptObject(),
  entities: requestedEntities
    .transform((entities) => entities.map(({ entity, modes }) => ({ entity, modes: modes ?? null })))
    .nullish()
    .transform((entities) => entities ?? null),
});

function keptObject() {
  return z
    .record(z.string(), z.custom<JsonValue>())
    .nullish()
    .transform((given) => given ?? {});
}

/** Shape is one thing, values another: see `checkCredentials`. */
const givenCredentials = z
  .record(z.string(), z.custom<JsonValue>())
  .describe("As the connector type's `connectionSpecification` has it.");

/** What a connector is made of, or checked before it is made. */
export const newConnector = z
  .object({
    workspace_name: givenName().describe('Made where there is none of this name.'),
    definition_id: z.guid().nullish().describe('One of these three says of what type the connector is.'),
    connector_type: z
      .string()
      .nullish()
      .describe("The type's name, short name or another name of it, in any case."),
    source_template_id: z.guid().nullish(),
    name: givenName().nullish().describe('Made of the type and the workspace where none is given.'),
    credentials: givenCredentials.nullish(),
    replication_config: config.nullish().describe('Kept and shown. It is no place for secrets.'),
    environment: config.nullish().describe('As replication_config.'),
    entities: requestedEntities.nullish().describe('Kept and shown; the indexed store holds all entities.'),
    server_side_oauth_secret_id: z.null().optional().describe('Not offered: expected null.'),
    selected_connection_template_tags: z
      .array(z.string())
      .max(256)
      .nullish()
      .describe('Accepted and not used.'),
    selected_connection_template_tags_mode: z.enum(['all', 'any']).nullish(),
  })
  .meta({ id: 'NewConnector' });

type NewConnectorBody = z.output<typeof newConnector>;

/** The type that a body names, with the rest of the body checked against it. Throws `ApiError` 404 or 422. */
export function definitionFor(
  definitions: ReadonlyMap<string, Definition>,
  body: NewConnectorBody,
): Definition {
  const definition = namedDefinition([...definitions.values()], body);
  checkCredentials(definition, body.credentials ?? null);
  checkRequestedEntities(definition, body.entities);
  return definition;
}

function namedDefinition(all: readonly Definition[], body: NewConnectorBody): Definition {
  const { definition_id, connector_type, source_template_id } = body;
  const named = [
    ['definition_id', definition_id, (one: Definition) => [one.id]],
    ['connector_type', connector_type, (one: Definition) => [one.name, one.title, ...one.aliases]],
    ['source_template_id', source_template_id, (one: Definition) => [templateId(one)]],
  ] as const;
  const found = new Set<Definition>();
  for (const [field, value, namesOf] of named) {
    if (value === null || value === undefined) continue;
    const wanted = value.toLowerCase();
    const definition = all.find((one) => namesOf(one).some((name) => name.toLowerCase() === wanted));
    if (definition === undefined) {
      throw new ApiError(404, 'There is no connector type of this name or id.', {
        field: `body.${field}`,
        errorCode: 'not_found',
      });
    }
    found.add(definition);
  }
  const [definition, another] = found;
  if (definition === undefined || another !== undefined) {
    throw new ApiError(
      422,
      definition === undefined
        ? 'One of connector_type, definition_id, or source_template_id must be provided.'
        : 'connector_type, definition_id and source_template_id name different connector types.',
      { field: 'body', errorCode: 'value_error' },
    );
  }
  return definition;
}

/** Whether a change names anything: null, like absent, leaves what it stands for. */
export function givesSomething(change: object): boolean {
  return Object.values(change).some((value) => value !== null && value !== undefined);
}

/** What may be changed of a connector, or checked before it is. Null, like absent, leaves it as it is. */
export const connectorChange = z
  .object({
    name: givenName().nullish(),
    credentials: givenCredentials.nullish(),
    replication_config: config.nullish(),
    environment: config.nullish(),
    entities: requestedEntities.nullish().describe('An empty array takes the selection back.'),
  })
  .meta({ id: 'ConnectorChange' });

/**
 * Holds credentials (null: none are given) against the definition's ways to sign in. Whether the third party takes them
 * is another question. Throws `ApiError` 422 with the path of each wrong field.
 */
export function checkCredentials(definition: Definition, credentials: JsonObject | null): void {
  const problems = credentialProblems(definition, credentials);
  if (problems.length === 0) return;
  throw new ApiError(
    422,
    `The credentials are not of a shape that the connector type '${definition.title}' takes.`,
    {
      errors: problems.map(({ field, code, message }) => ({
        field: field === null ? 'body.credentials' : `body.credentials.${field}`,
        message,
        error_code: code,
        details: null,
      })),
    },
  );
}

/**
 * Throws `ApiError` 422 for an entity that the definition does not have, and for writing, which no connector offers.
 */
export function checkRequestedEntities(
  { entities: known }: Definition,
  entities: z.output<typeof requestedEntities> | null | undefined,
): void {
  const names: ReadonlySet<string> = new Set(known.keys());
  for (const [index, { entity, modes }] of (entities ?? []).entries()) {
    if (!names.has(entity)) {
      throw wrong(`${index}.entity`, `Expected one of ${[...names].join(', ')}.`);
    }
    if (modes?.includes('write') === true) {
      throw wrong(`${index}.modes`, 'Expected read: the connectors of this service do not write.');
    }
  }
}

function wrong(place: string, message: string): ApiError {
  return new ApiError(422, message, { field: `body.entities.${place}`, errorCode: 'value_error' });
}

/** Without recursion: what came may be nested as deep as a body allows. */
function isKept(value: Readonly<Record<string, JsonValue>>): boolean {
  let level: readonly JsonValue[] = [value];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > maxConfigDepth) return false;
    level = level.flatMap((one) =>
      typeof one === 'object' && one !== null ? Object.values<JsonValue>(one) : [],
    );
  }
  return Buffer.byteLength(JSON.stringify(value)) <= maxConfigBytes;
}
