import { SyncError } from '../core/errors.ts';
import type { EntityName } from '../core/names.ts';
import type { StartedRun } from '../sinks/sink.ts';
import { isFiltered } from './chosen-entities.ts';
import type { GroupCommits } from './group-commits.ts';
import type { PageLengths } from './pagination/page-lengths.ts';
import { compilePreparePage } from './prepare/prepare-page.ts';
import type { SchemaPolicies } from './prepare/schema-policy.ts';
import type { RunTally } from './run-tally.ts';
import type { SyncOptions } from './sync-connector.ts';
import type { InFlight, WalkContext } from './walk-partition.ts';
import { withWindow } from './window-params.ts';
import type { Silence } from './watch-silence.ts';
import type { Wake } from './work-partitions.ts';

/** Received and not yet stored, over all walks: beyond it a walk stores its page before it asks for the next. */
const maxInFlightBytes = 64 * 1024 * 1024;

/** One context per entity: what its walks share, made when its first walk starts. */
export function walkContexts(
  options: SyncOptions,
  shared: {
    readonly started: StartedRun;
    readonly policies: SchemaPolicies;
    readonly tally: RunTally;
    readonly commits: GroupCommits;
    readonly signal: AbortSignal;
    readonly wake: Wake;
    readonly silence: Silence;
    /** The run's start by the service's clock, in milliseconds. */
    readonly capMs: number;
  },
): (entity: EntityName) => WalkContext {
  const contexts = new Map<EntityName, WalkContext>();
  const window = options.run?.window ?? null;
  const chosen =
    window === null ? options.entities : withWindow(options.definition, options.entities, window);
  const inFlight: InFlight = { bytes: 0, maxBytes: maxInFlightBytes };

  return (name) => {
    const known = contexts.get(name);
    if (known !== undefined) return known;
    const entity = options.definition.entities.get(name);
    if (entity === undefined) {
      throw new SyncError(
        `the ledger knows an entity ${name} that the definition ${options.definition.name} does not`,
        { code: 'INTERNAL', recovery: 'stop' },
      );
    }
    const pageLengths: PageLengths = new Map();
    const context: WalkContext = {
      run: shared.started.run,
      source: options.source,
      commits: shared.commits,
      tally: shared.tally,
      entity,
      pageLengths,
      preparePage: compilePreparePage(
        options.definition,
        chosen,
        entity,
        { capMs: shared.capMs, isBackfill: window !== null },
        shared.policies,
      ),
      inFlight,
      capMs: shared.capMs,
      isBackfill: window !== null,
      isFiltered: isFiltered(chosen.get(name)),
      clock: options.clock,
      onEvent: (event) => {
        if (event.kind === 'page-committed') {
          shared.silence.pageStored(event.entity);
          if (event.newlyDue > 0) shared.wake.wake();
        }
        options.onEvent(event);
      },
      signal: shared.signal,
    };
    contexts.set(name, context);
    return context;
  };
}
