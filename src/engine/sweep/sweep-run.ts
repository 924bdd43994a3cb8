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
import { guardDeletes, type DeleteVerdict } from './guard-deletes.ts';

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

/** Of rows that turn up only while the sweep is under way: what lay below vanished records. */
const nothingWithheld: DeleteVerdict = { withheldBecause: null, passing: [] };

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
  const withheld = new Set(
    judged.filter(({ verdict }) => verdict.withheldBecause !== null).map(({ missing }) => missing.entity),
  );
  const asked = (found: readonly EntityMissing[]): readonly Entity[] =>
    found
      .filter(({ entity, toConfirm }) => toConfirm > 0 && !withheld.has(entity))
      .flatMap(({ entity }): readonly Entity[] | Entity => definition.entities.get(entity) ?? []);
  const getsLeft = await confirmMissing(context, asked(judged.map(({ missing }) => missing)), mostGetsPerRun);
  for (const { missing, verdict } of judged) {
    for (const which of verdict.passing) await tombstoneAll(context, missing.entity, which);
  }
  await tombstoneOrphans(context);
  await confirmOrphans(
    context,
    asked((await sink.deletes.missing(lease, run)).filter(({ orphans }) => orphans > 0)),
    getsLeft,
  );
  tally.endedBelow(await sink.deletes.endedBelow(lease, run));

  const after = new Map((await sink.deletes.missing(lease, run)).map((left) => [left.entity, left]));
  for (const entity of new Set([...judged.map(({ missing }) => missing.entity), ...after.keys()])) {
    const verdict = judged.find(({ missing }) => missing.entity === entity)?.verdict ?? nothingWithheld;
    tally.missing(entity, standingOf(after.get(entity) ?? null, verdict));
  }
}

/** A 404 of a child is no proof by itself; where the parent can be asked for, its own answer is. */
function confirmable({ entities }: Definition): readonly EntityName[] {
  return [...entities.values()]
    .filter(({ actions, deletes }) => actions.has('get') && deletes !== 'never')
    .map(({ name }) => name);
}

/** What may have moved away from below vanished records is asked for, and may have had something below itself. */
async function confirmOrphans(
  context: SweepContext,
  entities: readonly Entity[],
  gets: number,
): Promise<void> {
  if (entities.length === 0 || gets === 0) return;
  await confirmMissing(context, entities, gets);
  await tombstoneOrphans(context);
}

async function judgeEntities(context: SweepContext): Promise<readonly JudgedEntity[]> {
  const { sink, lease, run, options, tally, onEvent, signal } = context;
  const judged: JudgedEntity[] = [];
  for (const found of await sink.deletes.missing(lease, run)) {
    signal.throwIfAborted();
    if (options.allowDeletes) await sink.deletes.allow(lease, run, found.entity);
    const missing = options.allowDeletes ? { ...found, allowed: found.missing, vouchedFor: 0 } : found;
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
  const withheld = withheldBecause === null ? 0 : all - (missing?.allowed ?? 0) - (missing?.vouchedFor ?? 0);
  const pending = all - withheld + (missing?.orphans ?? 0);
  return { withheld, pending, withheldBecause: withheld > 0 ? withheldBecause : null };
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
