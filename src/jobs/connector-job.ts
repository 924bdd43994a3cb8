import * as z from 'zod';
import { SyncError } from '../core/errors.ts';
import { isConnectorName, type ConnectorName } from '../core/names.ts';

/**
 * What a job of a sink's queue carries through Redis, where it lies in clear text: names, and nothing else. Where to
 * read, with which credentials and how far the last run came are known to the worker from its settings and the ledger.
 */
export type ConnectorJob =
  | {
      readonly connector: ConnectorName;
      readonly kind: 'sync';
      readonly reason: 'schedule' | 'manual' | 'catch-up';
      /** When it was meant to start, in milliseconds since the epoch; null: as soon as somebody asked. */
      readonly due: number | null;
    }
  | { readonly connector: ConnectorName; readonly kind: 'backfill'; readonly backfill: string };

/** What a scheduler produces: it only leads to a job in the sink's queue. */
export interface TickJob {
  readonly sink: string;
  readonly connector: ConnectorName;
}

const connector = z.custom<ConnectorName>((value) => typeof value === 'string' && isConnectorName(value));
const connectorJob = z.discriminatedUnion('kind', [
  z.strictObject({
    connector,
    kind: z.literal('sync'),
    reason: z.enum(['schedule', 'manual', 'catch-up']),
    due: z.number().nullable(),
  }),
  z.strictObject({ connector, kind: z.literal('backfill'), backfill: z.string().min(1) }),
]);
const tickJob = z.strictObject({ sink: z.string().min(1), connector });

/** Throws `SyncError` INTERNAL for anything that this program did not put there. */
export function parseConnectorJob(data: unknown): ConnectorJob {
  return parse(connectorJob, data, "a connector's name and what to do with it");
}

/** Throws `SyncError` INTERNAL for anything that this program did not put there. */
export function parseTickJob(data: unknown): TickJob {
  return parse(tickJob, data, "a sink's id and a connector's name");
}

function parse<Data>(schema: z.ZodType<Data>, data: unknown, expected: string): Data {
  const parsed = schema.safeParse(data);
  if (parsed.success) return parsed.data;
  throw new SyncError(
    `A job should carry ${expected}, and nothing else; something foreign was found. Remove the job.`,
    { code: 'INTERNAL', recovery: 'stop' },
  );
}
