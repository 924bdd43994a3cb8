import * as z from 'zod';
import { SyncError } from '../core/errors.ts';
import { type ConnectorName, isConnectorName } from '../core/names.ts';

const connector = z.custom<ConnectorName>((value) => typeof value === 'string' && isConnectorName(value));
const connectorJob = z.discriminatedUnion('kind', [
  z.strictObject({
    connector,
    kind: z.literal('sync'),
    reason: z.enum(['schedule', 'manual', 'catch-up']),
    // The due time, in milliseconds since the epoch; null: at once.
    due: z.number().nullable(),
    /** Of a manual one: who asked for it, for the ledger, and whether this run may delete beyond the guards. */
    by: z.string().max(200).optional(),
    allowDeletes: z.boolean().optional(),
  }),
  z.strictObject({ connector, kind: z.literal('backfill'), backfill: z.string().min(1) }),
]);
const connectorTick = z.strictObject({ sink: z.string().min(1), connector });
const tickJob = z.union([
  connectorTick,
  z.strictObject({ sink: z.string().min(1), target: z.string().min(1) }),
]);
const publicationJob = z.strictObject({
  target: z.string().min(1),
  /** A person who asked for it. */
  by: z.string().max(200).optional(),
});

/**
 * The payload of a job in a sink's queue. Redis stores it in plain text, so it holds names only. The worker takes the
 * API address and credentials from its settings, and the saved progress from the ledger.
 */
export type ConnectorJob = z.output<typeof connectorJob>;
/** The payload of a scheduler's job, which only adds a job to one of the sink's queues. */
export type TickJob = z.output<typeof tickJob>;
export type ConnectorTick = z.output<typeof connectorTick>;

// Each throws `SyncError` INTERNAL for a payload that this program did not write.
export const parseConnectorJob = payloadParser(connectorJob, "a connector's name and what to do with it");
export const parseTickJob = payloadParser(tickJob, "a sink's id and the name of a connector or a target");
/** What is to be published, the target itself says. */
export const parsePublicationJob = payloadParser(publicationJob, "a target's name");

/** `expected`: the payload in words. */
function payloadParser<Data>(schema: z.ZodType<Data>, expected: string): (data: unknown) => Data {
  return (data) => {
    const parsed = schema.safeParse(data);
    if (parsed.success) return parsed.data;
    throw new SyncError(`Expected a job with only ${expected}; found an unknown payload. Remove the job.`, {
      code: 'INTERNAL',
      recovery: 'stop',
    });
  };
}

const subject = z.union([z.object({ connector }), z.object({ target: z.string() })]);

/** The connector or target that a job of any queue is about; null: it names neither. */
export function subjectOf(data: unknown): z.output<typeof subject> | null {
  return subject.safeParse(data).data ?? null;
}
