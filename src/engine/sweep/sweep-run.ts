import type { OnRunEvent } from '../../core/events.ts';
import type { EntityName, RunId } from '../../core/names.ts';
import type { Definition, Entity } from '../../definitions/definition.ts';
import type { EntityMissing, TombstoneChoice } from '../../sinks/deletes.ts';
import type { Lease, Sink } from '../../sinks/sink.ts';
import type { Source } from '../../source/source.ts';
import type { SchemaPolicies } from '../prepare/schema-policy.ts';
import type { RunOptions } from '../run-options.ts';
import type { MissingStanding, RunTally } from '../run-tally.ts';
import { confirmMissing } from './confirm-missing.ts';
import { guardDeletes, type DeleteVerdict } from './guard-deletes.ts';

export interface SweepContext {
  readonly sink: Pick<Sink, 'deletes'>;
  readonly lease: Lease;
  readonly run: RunId;
  readonly source: Pick<Source, 'get'>;
  readonly definition: Definition;
  readonly policies: SchemaPolicies;
  readonly options: Pick<RunOptions, 'guards' | 'allowDeletes'>;
  /** Questions asked at a time. */
  readonly concurrency: number;
  readonly tally: RunTally;
  readonly onEvent: OnRunEvent;
  readonly signal: AbortSignal;
}

/** Rows of one transaction: some tens of milliseconds. */
const batchRows = 1000;

interface JudgedEntity {
  readonly missing: EntityMissing;
  readonly verdict: DeleteVerdict;
}

/**
 * What comes after a run's walks: finds out what full walks did not meet, holds back what a guard does not believe, asks
 * for what a `get` must confirm, and marks the rest as deleted, with what was found below it. Each step is stored by itself;
 * a later run goes on. Throws what must end the run.
 */
export async function sweepRun(context: SweepContext): Promise<void> {
  const { sink, lease, run, definition, tally, onEvent, signal } = context;
  onEvent({ kind: 'sweep-started' });
  for (let isDone = false; !isDone;) {
    signal.throwIfAborted();
    ({ isDone } = await sink.deletes.sweep(lease, run, batchRows));
  }

  await sink.deletes.suspectParents(lease, run, confirmable(definition));
  const judged = await judgeEntities(context);
  const toConfirm = judged
    .filter(({ missing, verdict }) => verdict.withheldBecause === null && missing.toConfirm > 0)
    .flatMap(({ missing }): readonly Entity[] | Entity => definition.entities.get(missing.entity) ?? []);
  await confirmMissing(context, toConfirm);
  for (const { missing, verdict } of judged) {
    for (const which of verdict.passing) await tombstoneAll(context, missing.entity, which);
  }
  await tombstoneOrphans(context);
  tally.endedBelow(await sink.deletes.endedBelow(lease, run));

  const after = await sink.deletes.missing(lease, run);
  for (const { missing, verdict } of judged) {
    const { entity } = missing;
    tally.missing(entity, standingOf(after.find((left) => left.entity === entity) ?? null, verdict));
  }
}

/** A 404 of a child is no proof by itself; where the parent can be asked for, its own answer is. */
function confirmable({ entities }: Definition): readonly EntityName[] {
  return [...entities.values()]
    .filter(({ actions, deletes }) => actions.has('get') && deletes !== 'never')
    .map(({ name }) => name);
}

async function judgeEntities(context: SweepContext): Promise<readonly JudgedEntity[]> {
  const { sink, lease, run, options, tally, onEvent, signal } = context;
  const judged: JudgedEntity[] = [];
  for (const found of await sink.deletes.missing(lease, run)) {
    signal.throwIfAborted();
    if (options.allowDeletes) await sink.deletes.allow(lease, run, found.entity);
    const missing = options.allowDeletes ? { ...found, allowed: found.missing } : found;
    const verdict = guardDeletes(missing, options.guards);
    const standing = standingOf(missing, verdict);
    // Also where the run ends before the rest is done.
    tally.missing(missing.entity, standing);
    if (standing.withheldBecause !== null) {
      onEvent({
        kind: 'deletes-withheld',
        entity: missing.entity,
        rows: standing.withheld,
        live: missing.live,
        because: standing.withheldBecause,
      });
    }
    judged.push({ missing, verdict });
  }
  return judged;
}

function standingOf(missing: EntityMissing | null, { withheldBecause }: DeleteVerdict): MissingStanding {
  const all = missing?.missing ?? 0;
  const withheld = withheldBecause === null ? 0 : all - (missing?.allowed ?? 0);
  return { withheld, pending: all - withheld, withheldBecause: withheld > 0 ? withheldBecause : null };
}

async function tombstoneAll(
  { sink, lease, run, tally, onEvent, signal }: SweepContext,
  entity: EntityName,
  which: TombstoneChoice,
): Promise<void> {
  for (;;) {
    signal.throwIfAborted();
    const rows = await sink.deletes.tombstone(lease, run, entity, which, batchRows);
    if (rows === 0) return;
    tally.deleted(entity, rows);
    onEvent({ kind: 'rows-deleted', entity, rows });
  }
}

/** What was found below a tombstoned record goes with it: without a guard, which has let the record itself pass. */
async function tombstoneOrphans({ sink, lease, run, tally, onEvent, signal }: SweepContext): Promise<void> {
  for (;;) {
    signal.throwIfAborted();
    const batch = await sink.deletes.tombstoneOrphans(lease, run, batchRows);
    if (batch.length === 0) return;
    for (const { entity, rows } of batch) {
      if (rows === 0) continue;
      tally.deleted(entity, rows);
      onEvent({ kind: 'rows-deleted', entity, rows });
    }
  }
}
