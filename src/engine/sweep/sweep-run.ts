import type { EntityName } from '../../core/names.ts';
import type { Definition, Entity } from '../../definitions/definition.ts';
import type { EntityMissing, TombstoneChoice } from '../../sinks/deletes.ts';
import type { MissingStanding } from '../run-tally.ts';
import type { Run } from '../run.ts';
import { confirmMissing, mostGetsPerRun } from './confirm-missing.ts';
import { judgeDeletes, type DeleteVerdict } from './judge-deletes.ts';

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
export async function sweepRun(run: Run): Promise<void> {
  const { sink, lease, id, definition, asked, tally, onEvent, signal } = run;
  onEvent({ kind: 'sweep-started' });
  for (let isDone = false; !isDone;) {
    signal.throwIfAborted();
    ({ isDone } = await sink.deletes.sweep(lease, id, batchRows));
  }
  await sink.deletes.suspectParents(lease, id, confirmable(definition));
  if (asked.allowDeletes) {
    for (const { entity } of await sink.deletes.missing(lease, id)) {
      await sink.deletes.allow(lease, id, entity);
    }
  }

  const suspected = await judgeMissing(run);
  // In the report from now on: the run may end before the rest is done.
  for (const one of suspected) tally.missing(one.missing.entity, standingOf(one, asked));
  const toAsk = worthAsking(definition, suspected);
  const answered = await confirmMissing(run, toAsk, mostGetsPerRun);
  // Judging counts all that would go along: again only where there is something new.
  const judged = toAsk.length === 0 ? suspected : await judgeMissing(run);
  for (const { missing } of suspected) tally.missing(missing.entity, nothingMissing);
  let isChanged = false;
  for (const { missing, verdict } of judged) {
    const standing = standingOf({ missing, verdict }, asked);
    const { withheld: rows, withheldBecause: because } = standing;
    tally.missing(missing.entity, standing);
    if (because !== null) {
      onEvent({ kind: 'deletes-withheld', entity: missing.entity, rows, live: missing.live, because });
    }
    for (const which of verdict.passing) {
      if (await deleteAll(run, missing.entity, which)) isChanged = true;
    }
  }
  if (await deleteOrphans(run)) isChanged = true;
  // What was answered until the asking came to an early end has been judged and deleted: it need not be asked again.
  if (answered.error !== null) throw answered.error;

  const orphans = (isChanged ? await judgeMissing(run) : judged).filter(({ missing }) => missing.orphans > 0);
  if (orphans.length > 0) {
    const { error } = await confirmMissing(run, worthAsking(definition, orphans), answered.getsLeft);
    await deleteOrphans(run);
    if (error !== null) throw error;
  }
  tally.endedBelow(await sink.deletes.endedBelow(lease, id));
  if (!isChanged && orphans.length === 0) return;
  for (const { missing } of judged) tally.missing(missing.entity, nothingMissing);
  await tellMissing(run);
}

/** Says in the run's report what is withheld and what waits, as it is stored. Also of a run that ended before it could sweep. */
export async function tellMissing(run: Run): Promise<void> {
  for (const { missing, verdict } of await judgeMissing(run)) {
    run.tally.missing(missing.entity, standingOf({ missing, verdict }, run.asked));
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

async function judgeMissing({ sink, lease, id, asked }: Run): Promise<readonly JudgedEntity[]> {
  const found = await sink.deletes.missing(lease, id);
  const verdicts = judgeDeletes(found, asked.guards);
  return found.flatMap((missing) => {
    const verdict = verdicts.get(missing.entity);
    return verdict === undefined || missing.missing + missing.orphans === 0 ? [] : [{ missing, verdict }];
  });
}

function standingOf(
  { missing, verdict: { withheldBecause } }: JudgedEntity,
  { guards }: Run['asked'],
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
  { sink, lease, id, tally, onEvent, signal }: Run,
  entity: EntityName,
  which: TombstoneChoice,
): Promise<boolean> {
  for (let isChanged = false; ; isChanged = true) {
    signal.throwIfAborted();
    const rows = await sink.deletes.tombstone(lease, id, entity, which, batchRows);
    if (rows === 0) return isChanged;
    tally.deleted(entity, rows);
    onEvent({ kind: 'rows-deleted', entity, rows });
  }
}

/** What lies below deleted records was judged with them, and goes as well. True when there was any. */
async function deleteOrphans({ sink, lease, id, tally, onEvent, signal }: Run): Promise<boolean> {
  for (let isChanged = false; ; isChanged = true) {
    signal.throwIfAborted();
    const batch = await sink.deletes.tombstoneOrphans(lease, id, batchRows);
    if (batch.length === 0) return isChanged;
    for (const { entity, rows } of batch) {
      if (rows === 0) continue;
      tally.deleted(entity, rows);
      onEvent({ kind: 'rows-deleted', entity, rows });
    }
  }
}
