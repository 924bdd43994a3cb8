import type { OnRunEvent } from '../../core/events.ts';
import type { EntityName, RunId } from '../../core/names.ts';
import type { Definition, Entity } from '../../definitions/definition.ts';
import type { EntityMissing, TombstoneChoice } from '../../sinks/deletes.ts';
import type { Lease, Sink } from '../../sinks/sink.ts';
import type { Source } from '../../source/source.ts';
import type { ChosenEntities } from '../chosen-entities.ts';
import type { SchemaPolicies } from '../prepare/schema-policy.ts';
import type { RunOptions } from '../run-options.ts';
import type { MissingStanding, RunTally } from '../run-tally.ts';
import { confirmMissing, mostGetsPerRun } from './confirm-missing.ts';
import { judgeDeletes, type DeleteVerdict } from './judge-deletes.ts';

export interface SweepContext {
  readonly sink: Pick<Sink, 'deletes'>;
  readonly lease: Lease;
  readonly run: RunId;
  readonly source: Pick<Source, 'get'>;
  readonly definition: Definition;
  readonly policies: SchemaPolicies;
  readonly entities: ChosenEntities;
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
 * What comes after a run's walks: finds out what full walks did not meet, asks by `get` where that must confirm it, has the guards judge
 * what is left together with all that would go along, and deletes what passes. Each step is stored by itself;
 * a later run goes on. Throws what must end the run.
 */
export async function sweepRun(context: SweepContext): Promise<void> {
  const { sink, lease, run, definition, options, tally, onEvent, signal } = context;
  onEvent({ kind: 'sweep-started' });
  for (let isDone = false; !isDone;) {
    signal.throwIfAborted();
    ({ isDone } = await sink.deletes.sweep(lease, run, batchRows));
  }
  await sink.deletes.suspectParents(lease, run, confirmable(definition));
  if (options.allowDeletes) {
    for (const { entity } of await sink.deletes.missing(lease, run)) {
      await sink.deletes.allow(lease, run, entity);
    }
  }

  const suspected = await judgeMissing(context);
  // In the report from now on: the run may end before the rest is done.
  for (const one of suspected) tally.missing(one.missing.entity, standingOf(one, options));
  const toAsk = worthAsking(definition, suspected);
  const asked = await confirmMissing(context, toAsk, mostGetsPerRun);
  // Judging counts all that would go along: again only where there is something new.
  const judged = toAsk.length === 0 ? suspected : await judgeMissing(context);
  for (const { missing } of suspected) tally.missing(missing.entity, nothingMissing);
  let isChanged = false;
  for (const { missing, verdict } of judged) {
    const standing = standingOf({ missing, verdict }, options);
    const { withheld: rows, withheldBecause: because } = standing;
    tally.missing(missing.entity, standing);
    if (because !== null) {
      onEvent({ kind: 'deletes-withheld', entity: missing.entity, rows, live: missing.live, because });
    }
    for (const which of verdict.passing) {
      if (await deleteAll(context, missing.entity, which)) isChanged = true;
    }
  }
  if (await deleteOrphans(context)) isChanged = true;
  // What was answered until the asking came to an early end has been judged and deleted: it need not be asked again.
  if (asked.error !== null) throw asked.error;

  const orphans = (isChanged ? await judgeMissing(context) : judged).filter(
    ({ missing }) => missing.orphans > 0,
  );
  if (orphans.length > 0) {
    const { error } = await confirmMissing(context, worthAsking(definition, orphans), asked.getsLeft);
    await deleteOrphans(context);
    if (error !== null) throw error;
  }
  tally.endedBelow(await sink.deletes.endedBelow(lease, run));
  if (!isChanged && orphans.length === 0) return;
  for (const { missing } of judged) tally.missing(missing.entity, nothingMissing);
  await tellMissing(context);
}

/** Says in the run's report what is withheld and what waits, as it is stored. Also of a run that ended before it could sweep. */
export async function tellMissing(context: SweepContext): Promise<void> {
  for (const { missing, verdict } of await judgeMissing(context)) {
    context.tally.missing(missing.entity, standingOf({ missing, verdict }, context.options));
  }
}

const nothingMissing: MissingStanding = { withheld: 0, pending: 0, withheldBecause: null, withholding: null };

/** A 404 of a child is no proof by itself; where the parent can be asked for, its own answer is. */
function confirmable({ entities }: Definition): readonly EntityName[] {
  return [...entities.values()]
    .filter(({ actions, deletes }) => actions.has('get') && deletes !== 'never')
    .map(({ name }) => name);
}

/** Not what is withheld whatever the answers are. */
function worthAsking({ entities }: Definition, judged: readonly JudgedEntity[]): readonly Entity[] {
  return judged
    .filter(
      ({ missing, verdict }) =>
        missing.toConfirm > 0 && !missing.isAdopted && verdict.withheldBecause === null,
    )
    .flatMap(({ missing }): readonly Entity[] | Entity => entities.get(missing.entity) ?? []);
}

async function judgeMissing({ sink, lease, run, options }: SweepContext): Promise<readonly JudgedEntity[]> {
  const found = await sink.deletes.missing(lease, run);
  const verdicts = judgeDeletes(found, options.guards);
  return found.flatMap((missing) => {
    const verdict = verdicts.get(missing.entity);
    return verdict === undefined || missing.missing + missing.orphans === 0 ? [] : [{ missing, verdict }];
  });
}

function standingOf(
  { missing, verdict: { withheldBecause } }: JudgedEntity,
  { guards }: SweepContext['options'],
): MissingStanding {
  const vouchedFor = withheldBecause === 'adopted' ? 0 : missing.vouchedFor;
  const withheld = withheldBecause === null ? 0 : missing.missing - missing.allowed - vouchedFor;
  const pending = missing.missing - withheld + missing.orphans;
  if (withheld === 0) return { withheld, pending, withheldBecause: null, withholding: null };
  const { dayAgo, deletedInDay, along } = missing;
  return { withheld, pending, withheldBecause, withholding: { dayAgo, deletedInDay, along, ...guards } };
}

/** True when there were any. */
async function deleteAll(
  { sink, lease, run, tally, onEvent, signal }: SweepContext,
  entity: EntityName,
  which: TombstoneChoice,
): Promise<boolean> {
  for (let isChanged = false; ; isChanged = true) {
    signal.throwIfAborted();
    const rows = await sink.deletes.tombstone(lease, run, entity, which, batchRows);
    if (rows === 0) return isChanged;
    tally.deleted(entity, rows);
    onEvent({ kind: 'rows-deleted', entity, rows });
  }
}

/** What lies below deleted records was judged with them, and goes as well. True when there was any. */
async function deleteOrphans({ sink, lease, run, tally, onEvent, signal }: SweepContext): Promise<boolean> {
  for (let isChanged = false; ; isChanged = true) {
    signal.throwIfAborted();
    const batch = await sink.deletes.tombstoneOrphans(lease, run, batchRows);
    if (batch.length === 0) return isChanged;
    for (const { entity, rows } of batch) {
      if (rows === 0) continue;
      tally.deleted(entity, rows);
      onEvent({ kind: 'rows-deleted', entity, rows });
    }
  }
}
