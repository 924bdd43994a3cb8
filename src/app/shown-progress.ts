import * as z from 'zod';
import type { Clock } from '../core/clock.ts';
import { readJson, writeJson } from '../core/json.ts';
import type { ConnectorName } from '../core/names.ts';
import { openProgress } from '../telemetry/progress.ts';

const shape = z.object({
  entities: z.array(
    z.object({
      entity: z.string(),
      /** Number of records that it will have read, as the service counts them; null: unknown. */
      expected: z.number().nullable(),
      /** Read by the runs that this one resumes. */
      earlierRows: z.number(),
    }),
  ),
  recordsPerSecond: z.number(),
});

/** Progress of a run as a terminal shows it, for readers of the ledger. */
type ShownProgress = Readonly<z.output<typeof shape>>;

/** Pages poll at this interval. */
const leastBetweenMs = 2_000;

/** Follows a run for readers of its ledger, with the same snapshot as the terminal that shows it. */
export function openShownProgress(connector: ConnectorName, clock: Clock) {
  const { onEvent, snapshot } = openProgress(connector, clock);
  let shownMs = clock.now();
  return {
    onEvent,
    /** Text for the ledger; null: not due yet. */
    text: (): string | null => {
      const nowMs = clock.now();
      if (nowMs - shownMs < leastBetweenMs) return null;
      shownMs = nowMs;
      return writeJson(shape.parse(snapshot()));
    },
  };
}

/** Null where it is not in this form: another version has written it. */
export function readShownProgress(text: string | null): ShownProgress | null {
  return text === null ? null : (shape.safeParse(readJson(text)).data ?? null);
}
