import { z } from 'zod';
import { SyncError } from '../core/errors.ts';
import { isConnectorName, type ConnectorName } from '../core/names.ts';

/** One queue for the program; its name is part of every Redis key. */
export const queueName = 'connector-sync';

/**
 * What a job carries through Redis, where it lies in clear text: a name, and nothing else. Where to read, with which
 * credentials and how far the last run came are known to the worker from its settings and the ledger.
 */
export interface ConnectorJob {
  readonly connector: ConnectorName;
}

const payload = z.strictObject({ connector: z.string().refine(isConnectorName) });

/** Throws `SyncError` INTERNAL for anything that this program did not put there. */
export function parseConnectorJob(data: unknown): ConnectorJob {
  const parsed = payload.safeParse(data);
  if (!parsed.success || !isConnectorName(parsed.data.connector)) {
    throw new SyncError(
      `A job of queue ${queueName} should carry a connector's name and nothing else; something foreign was found. Remove the job.`,
      { code: 'INTERNAL', recovery: 'stop' },
    );
  }
  return { connector: parsed.data.connector };
}
