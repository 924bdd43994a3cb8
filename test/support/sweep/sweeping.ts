import { SyncError, type Recovery } from '../../../src/core/errors.ts';
import type { RunEvent } from '../../../src/core/events.ts';
import type { JsonValue } from '../../../src/core/json.ts';
import type { EntityName, RunId } from '../../../src/core/names.ts';
import type { Definition } from '../../../src/definitions/definition.ts';
import { ordinaryRun, type RunOptions } from '../../../src/engine/plan-run.ts';
import type { Run } from '../../../src/engine/run.ts';
import { runTally } from '../../../src/engine/run-tally.ts';
import { sweepRun } from '../../../src/engine/sweep/sweep-run.ts';
import type { EntityReport } from '../../../src/sinks/run-report.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import type { Source } from '../../../src/source/source.ts';
import { builtInDefinition } from '../sample-service.ts';
import type { FakeDeletes, FakeRow } from './fake-deletes.ts';

export const mailing = builtInDefinition('email-marketing');
export const members = 'list_members' as EntityName;
export const lists = 'lists' as EntityName;
export const campaigns = 'campaigns' as EntityName;

/** Missing rows of `list_members`, `lists` or `campaigns`, numbered from `from`. */
export function missingRows(entity: EntityName, number: number, more: Partial<FakeRow> = {}): FakeRow[] {
  return Array.from({ length: number }, (_, index) => ({
    entity,
    row: index + 1,
    keyText: entity === members ? `["a1","m${index + 1}"]` : `["x${index + 1}"]`,
    needs: 'nothing' as const,
    missed: 1,
    isAllowed: false,
    wasVouchedFor: false,
    ...more,
  }));
}

/** What the service answers for the id of a record: null for one that is gone. */
export type Answers = (id: string) => JsonValue;

let runs = 0;

/** The sweep of one run; each call is a run of its own. */
export async function sweep(
  deletes: FakeDeletes,
  more: Partial<RunOptions> & {
    readonly answers?: Answers;
    readonly signal?: AbortSignal;
    readonly definition?: Definition;
    readonly requestsPerSecond?: number;
  } = {},
) {
  const {
    answers = () => null,
    signal = new AbortController().signal,
    definition = mailing,
    requestsPerSecond = 0.1,
    ...options
  } = more;
  /** Ids that were asked for, in order. */
  const asked: string[] = [];
  const events: RunEvent[] = [];
  const tally = runTally([...definition.entities.keys()]);
  const get: Source['get'] = ({ params }) => {
    const { subscriber_hash: member, campaign_id: campaign, list_id: list, block_id: block } = params;
    const id = [member, campaign, list, block].find((part) => typeof part === 'string') ?? '';
    asked.push(id);
    return new Promise((resolve) => resolve(answers(id)));
  };
  const run = {
    sink: { deletes },
    lease: { connector: 'test', epoch: 1 } as unknown as Lease,
    id: `r${(runs += 1)}` as RunId,
    source: { get },
    definition,
    policies: new Map(),
    entities: new Map(),
    asked: { ...ordinaryRun, ...options },
    concurrency: 3,
    requestsPerSecond,
    tally,
    onEvent: (event: RunEvent) => events.push(event),
    signal,
  };
  /** What ended the sweep early; null where nothing did. */
  const error: unknown = await sweepRun(run as unknown as Run).then(
    () => null,
    (reason: unknown) => reason,
  );
  return { events, asked, tally, error, report: (entity: EntityName) => reportOf(tally, entity) };
}

export function fails(
  code: 'UPSTREAM' | 'NOT_FOUND' | 'AUTH_FAILED' | 'BUDGET_SPENT',
  recovery: Recovery,
): never {
  throw new SyncError(`fails with ${code}`, { code, recovery });
}

function reportOf(tally: ReturnType<typeof runTally>, entity: EntityName): EntityReport {
  const found = tally.entities().find((report) => report.entity === entity);
  if (found === undefined) throw new Error(`no report of ${entity}`);
  return found;
}
