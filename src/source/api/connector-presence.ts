import { SyncError, ThrottledError } from '../../core/errors.ts';
import type { ConnectorId } from '../../core/names.ts';
import type { Definition } from '../../definitions/definition.ts';
import type { ApiClient } from './open-api-client.ts';

/** Tells "this entity is refused" from "there is no such connector". */
interface ConnectorPresence {
  /** Checks the connector and the credentials, by an answer of a while ago where there is one. Throws with recovery `stop` (a long throttle: `ThrottledError`). */
  connect(signal: AbortSignal): Promise<void>;
  /** An execute was answered with success: the connector is there. */
  answered(): void;
  /**
   * Judges a refusal (403, 404, 410). Returns the error that stands: `refusal` itself while the connector is there,
   * else CONNECTOR_UNKNOWN (stop). An answer of the last minute counts as there, unless `isSuspect`.
   */
  judge(refusal: SyncError, isSuspect: boolean, signal: AbortSignal): Promise<SyncError>;
}

const freshMs = 60_000;

/**
 * `GET connectors/{id}` is not part of the published specification: a 404 or 405 there that does not speak of a
 * connector may mean that the service has no such endpoint. Then only a refusal of the first execute that is 404 too
 * makes the connector unknown.
 */
export function openConnectorPresence(
  client: ApiClient,
  id: ConnectorId,
  definition: Definition,
): ConnectorPresence {
  const { clock } = client;
  let hasDetail = false;
  let answeredAt: number | null = null;

  const probe = async (signal: AbortSignal, isFresh: boolean): Promise<SyncError | null> => {
    try {
      const { definitionId } = await client.connector(id, signal, { isFresh });
      hasDetail = true;
      answeredAt = clock.now();
      if (definitionId === null || definitionId.toLowerCase() === definition.id.toLowerCase()) return null;
      return new SyncError(
        `connector ${id} is of the type ${definitionId}, but ${definition.name} is ${definition.id}; correct its definition or id`,
        { code: 'CONFIG_INVALID', recovery: 'stop' },
      );
    } catch (error) {
      if (error instanceof SyncError) return error;
      throw error;
    }
  };

  const mayLackEndpoint = (error: SyncError): boolean =>
    !hasDetail && error.context['namesConnector'] !== true && isAbsent(error);

  return {
    async connect(signal) {
      const error = await probe(signal, false);
      if (error === null || mayLackEndpoint(error)) return;
      throw stopping(error);
    },
    answered() {
      answeredAt = clock.now();
    },
    async judge(refusal, isSuspect, signal) {
      const isFresh = answeredAt !== null && clock.now() - answeredAt < freshMs;
      if (isFresh && !isSuspect) return refusal;
      const error = await probe(signal, true);
      if (error === null) return refusal;
      if (mayLackEndpoint(error)) {
        return answeredAt !== null || refusal.code !== 'NOT_FOUND' ? refusal : unknown(id, refusal);
      }
      // Only what the probe says about the connector or the account outweighs the refusal.
      return error.recovery === 'stop' ? error : refusal;
    },
  };
}

function isAbsent(error: SyncError): boolean {
  const status = error.context['status'];
  return status === 404 || status === 405;
}

function stopping(error: SyncError): SyncError {
  if (error.recovery === 'stop' || error instanceof ThrottledError) return error;
  return new SyncError(error.message, {
    code: error.code,
    recovery: 'stop',
    context: error.context,
    cause: error,
  });
}

function unknown(id: ConnectorId, refusal: SyncError): SyncError {
  return new SyncError(`no connector has the id ${id}: check it and the organization`, {
    code: 'CONNECTOR_UNKNOWN',
    recovery: 'stop',
    context: refusal.context,
    cause: refusal,
  });
}
