import * as z from 'zod';
import type { JsonObject, JsonValue } from '../../core/json.ts';
import type { Definition } from '../../definitions/definition.ts';
import { ApiError } from '../api-error.ts';

const maxConfigDepth = 32;
const maxConfigBytes = 64 * 1024;

/** An object that is kept and shown as it came. */
export const config = z
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

type RequestedEntities = z.output<typeof requestedEntities>;

/** What a connector was made with besides its credentials. */
interface ConnectorConfig {
  readonly replication: JsonObject;
  readonly environment: JsonObject;
  readonly entities: RequestedEntities | null;
}

const kept = z.object({
  replication: z.record(z.string(), z.custom<JsonValue>()).default({}),
  environment: z.record(z.string(), z.custom<JsonValue>()).default({}),
  entities: requestedEntities.nullable().default(null),
});

/** As one object for the service's state. */
export function toStoredConfig({ replication, environment, entities }: ConnectorConfig): JsonObject {
  return {
    replication,
    environment,
    entities: entities?.map(({ entity, modes }) => ({ entity, modes: modes ?? null })) ?? null,
  };
}

export function readStoredConfig(stored: JsonObject): ConnectorConfig {
  return kept.parse(stored);
}

/**
 * Throws `ApiError` 422 for an entity that the definition does not have, and for writing, which no connector offers.
 */
export function checkRequestedEntities(
  { entities: known }: Definition,
  entities: RequestedEntities | null | undefined,
): void {
  const names: ReadonlySet<string> = new Set(known.keys());
  for (const [index, { entity, modes }] of (entities ?? []).entries()) {
    if (!names.has(entity)) {
      throw wrong(`body.entities.${index}.entity`, `Expected one of ${[...names].join(', ')}.`);
    }
    if (modes?.includes('write') === true) {
      throw wrong(
        `body.entities.${index}.modes`,
        'Expected read: the connectors of this service do not write.',
      );
    }
  }
}

function wrong(field: string, message: string): ApiError {
  return new ApiError(422, message, { field, errorCode: 'value_error' });
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
