import type { EntityName } from '../../core/names.ts';
import { replacesRows, type Definition, type Entity, type Recursive } from '../../definitions/definition.ts';
import { isNoFault, type TombstoneChoice, type Candidate, type Judgement } from '../../sinks/deletes.ts';
import type { EntityMissing } from '../../sinks/sink-access.ts';
import type { RowsOf, WithheldBecause } from '../../sinks/run-report.ts';
import type { Guards } from '../plan-run.ts';
import type { MissingTally } from '../run-tally.ts';
import type { Run } from '../run.ts';
import { wholeJson } from '../../core/canonical-json.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import { isUnlisted, whereInTree } from '../prepare/find-children.ts';
import { isOfKind, isPartial, compilePrepare, recordShape } from '../prepare/prepare-record.ts';
import { acceptEverything, refusing } from '../prepare/schema-policy.ts';
import { eachOf, knownOrMade } from '../../core/grouped.ts';
import { findGetParams, meaningOfGet } from '../complete-page.ts';

type JudgedEntity = ReturnType<typeof judgeDeletes>[number];

/**
 * Finds deleted rows after the walks of a run (`syncConnector`). A backfill only adds records: rows that it does not
 * meet prove nothing. After an early end, rows are still reported as withheld.
 */
export async function sweepPhase(run: Run): Promise<void> {
  const { plan, ending } = run;
  if (plan.kind !== 'sync') return;
  if (ending.isOver) await judgeMissing(run).catch(ending.note);
  else {
    await sweepRun(run).catch(async (error: unknown) => {
      ending.end(error);
      await judgeMissing(run).catch(ending.note);
    });
  }
}

/**
 * Handles missing rows after the walks: finds rows that full walks did not meet, asks by `get` in rounds where that
 * must confirm it, has the guards judge them with all rows that would be deleted along, and deletes those that pass.
 * Each step is stored by itself; a later run resumes. Throws errors that must end the run.
 */
export async function sweepRun(run: Run): Promise<void> {
  const { sink, lease, id, definition, asked, tally, onEvent, signal } = run;
  onEvent({ kind: 'sweep-started' });
  for (let isDone = false; !isDone;) {
    signal.throwIfAborted();
    ({ isDone } = await sink.deletes.sweep(lease, id, sink.deletes.batchRows));
  }
  await sink.deletes.suspectParents(lease, id, confirmable(definition));
  if (asked.allowDeletes) {
    for (const { entity } of await sink.deletes.missing(lease, id)) {
      await sink.deletes.allow(lease, id, entity);
    }
  }

  const confirm = openConfirmation(run);
  let judged = await judgeMissing(run);
  for (let round = 1; ; round += 1) {
    const { rows, error } = await confirm(worthAsking(definition, judged));
    if (rows === 0 && round > 1) break;
    // Judging counts all that would go along: again only where there is something new.
    if (rows > 0) judged = await judgeMissing(run);
    if (round === 1) noteWithheld(run, judged);
    if (await deletePassing(run, judged)) judged = await judgeMissing(run);
    // Rows answered before the confirmation ended early have been judged and deleted: they need not be asked again.
    if (error !== null) throw error;
  }
  tally.endedBelow(await sink.deletes.endedBelow(lease, id));
}

function noteWithheld({ asked, onEvent }: Run, judged: readonly JudgedEntity[]): void {
  for (const one of judged) {
    const { entity, live } = one.missing;
    const { withheld: rows, withheldBecause: because } = tallyOf(one, asked);
    if (because !== null) onEvent({ kind: 'deletes-withheld', entity, rows, live, because });
  }
}

/** A 404 of a child is no proof by itself; where the parent can be asked for, its own answer is. */
function confirmable({ entities }: Definition): readonly EntityName[] {
  return [...entities.values()]
    .filter(({ actions, deletes }) => actions.has('get') && deletes !== 'never')
    .map(({ name }) => name);
}

/** Entities to ask for; those whose rows are withheld whatever the answers are left out. */
function worthAsking({ entities }: Definition, judged: readonly JudgedEntity[]): readonly Entity[] {
  return judged
    .filter((one) => isWorthAsking(one.missing, one.withheldBecause))
    .flatMap(({ missing }): readonly Entity[] | Entity => entities.get(missing.entity) ?? []);
}

function isWorthAsking({ toConfirm, isAdopted }: EntityMissing, because: WithheldBecause | null): boolean {
  return toConfirm > 0 && !isAdopted && because === null;
}

/** Enters the missing rows into the run's report at once: the run may end before the rest is done. */
async function judgeMissing({ sink, lease, id, asked, tally, definition }: Run) {
  const replaced = [...definition.entities.values()].filter(replacesRows).map(({ name }) => name);
  const found = await sink.deletes.missing(lease, id);
  const judged = judgeDeletes(found, asked.guards, new Set(replaced)).filter(
    ({ missing: { missing, orphans } }) => missing + orphans > 0,
  );
  tally.missing(new Map(judged.map((one) => [one.missing.entity, tallyOf(one, asked)])));
  return judged;
}

function tallyOf({ missing, withheldBecause, below }: JudgedEntity, { guards }: Run['asked']): MissingTally {
  const vouchedFor = withheldBecause === 'adopted' ? 0 : missing.vouchedFor;
  const withheld = withheldBecause === null ? 0 : missing.missing - missing.allowed - vouchedFor;
  const pending = missing.missing - withheld + missing.orphans;
  const toConfirm = isWorthAsking(missing, withheldBecause) ? Math.min(pending, missing.toConfirm) : 0;
  if (withheld === 0) return { withheld, pending, toConfirm, withheldBecause: null, withholding: null };
  const { dayAgo, deletedInDay, along } = missing;
  const withholding = { dayAgo, deletedInDay, below, along, ...guards };
  return { withheld, pending, toConfirm, withheldBecause, withholding };
}

/** True when there was any. Of a run that must end at once a first batch goes all the same: it has been asked for. */
async function deletePassing(run: Run, judged: readonly JudgedEntity[]): Promise<boolean> {
  const { sink, lease, id, signal } = run;
  const { batchRows } = sink.deletes;
  let isChanged = false;
  for (const { missing, passing } of judged) {
    const { entity } = missing;
    for (const which of passing) {
      const next = async (): Promise<readonly RowsOf[]> => {
        const rows = await sink.deletes.tombstone(lease, id, entity, which, batchRows);
        return rows === 0 ? [] : [{ entity, rows }];
      };
      if (await deleteBatches(run, next)) isChanged = true;
    }
  }
  signal.throwIfAborted();
  // Rows below deleted records were judged with them, and are deleted as well; orphans, which may have moved, wait for
  // a `get`.
  const isBelowChanged = await deleteBatches(run, () => sink.deletes.tombstoneBelow(lease, id, batchRows));
  return isChanged || isBelowChanged;
}

/** True when there was any. */
async function deleteBatches({ tally, onEvent, signal }: Run, next: () => Promise<readonly RowsOf[]>) {
  for (let isChanged = false; ; isChanged = true) {
    const batch = await next();
    if (batch.length === 0) return isChanged;
    for (const { entity, rows } of batch) {
      if (rows === 0) continue;
      tally.deleted(entity, rows);
      onEvent({ kind: 'rows-deleted', entity, rows });
    }
    signal.throwIfAborted();
  }
}

/**
 * Whether the rows that seem to be deleted may be believed to be. An entity has too many of them when those that would
 * go now, missing ones and those that would go along with others' together, and those that went in the last 24 hours
 * are more than the guards' share of its rows of 24 hours ago **and** more than their least number. Then its own
 * missing rows are withheld, and so is every record that would take rows of it along. Nothing that was stored is still
 * there: withheld too, until another chain of runs agrees where the entity came back empty, until a person lets it pass
 * where other records stand in its place. What a person has allowed passes and does not count; nor does what `get`
 * returned when it was asked last. Of a `replaced` entity, whose rows are others with each change, only the number of
 * rows that it would lose in 24 hours counts.
 */
export function judgeDeletes(
  found: readonly EntityMissing[],
  guards: Guards,
  replaced: ReadonlySet<EntityName> = new Set(),
) {
  const isOver = (one: EntityMissing): boolean => {
    const going = goingOf(one, found);
    const { dayAgo, deletedInDay, live } = one;
    const lost = replaced.has(one.entity) ? dayAgo - (live - going) : going + deletedInDay;
    return going > 0 && exceedsGuards(lost, dayAgo, guards);
  };
  const over = new Set(found.filter(isOver).map(({ entity }) => entity));
  const adopted = new Set(found.filter(({ isAdopted }) => isAdopted).map(({ entity }) => entity));
  return found.map((missing) => ({
    missing,
    /** Rows of the entity that would go along with others' records. */
    below: goingOf(missing, found) - countOpen(missing),
    ...judgeEntity(missing, { over, adopted, replaced }),
  }));
}

function judgeEntity(
  missing: EntityMissing,
  { over, adopted, replaced }: Readonly<Record<'over' | 'adopted' | 'replaced', ReadonlySet<EntityName>>>,
): {
  readonly withheldBecause: WithheldBecause | null;
  /** The rows that may be deleted all the same, where they need nothing more. */
  readonly passing: readonly TombstoneChoice[];
} {
  // Rows that a new address leaves out do not settle whether it serves the same records.
  const isAdopted = missing.isAdopted || missing.along.some(({ entity }) => adopted.has(entity));
  if (isAdopted && missing.missing > missing.allowed) {
    return { withheldBecause: 'adopted', passing: ['allowed'] };
  }
  const open = countOpen(missing);
  if (open <= 0) return { withheldBecause: null, passing: ['all'] };
  const isTooMuch = over.has(missing.entity) || missing.along.some(({ entity }) => over.has(entity));
  if (!missing.hasSurvivor) {
    const isReplaced = missing.live > missing.missing;
    if (isReplaced && !replaced.has(missing.entity) && (missing.missing > 1 || missing.along.length > 0)) {
      return { withheldBecause: 'replaced', passing: ['allowed'] };
    }
    if (!isReplaced && missing.missedTwice < missing.missing) {
      return { withheldBecause: 'empty', passing: isTooMuch ? ['allowed'] : ['allowed', 'missed-twice'] };
    }
  }
  if (!isTooMuch) return { withheldBecause: null, passing: ['all'] };
  return { withheldBecause: over.has(missing.entity) ? 'share' : 'along', passing: ['allowed'] };
}

/** Missing rows that `get` has not returned and no person has approved. */
function countOpen({ missing, allowed, vouchedFor }: EntityMissing): number {
  return missing - allowed - vouchedFor;
}

/** Own rows and those that would go along with others' records. */
function goingOf(missing: EntityMissing, found: readonly EntityMissing[]): number {
  return found
    .flatMap(({ along }) => along)
    .filter(({ entity }) => entity === missing.entity)
    .reduce((sum, { rows }) => sum + rows, countOpen(missing));
}

/** Whether so many are more than the guards let go of so many. */
export function exceedsGuards(going: number, of: number, guards: Guards): boolean {
  if (guards.maxDeleteShare >= 1) return false;
  // Divided, because 0.57 * 100 is less than 57.
  return going / of > guards.maxDeleteShare && going > guards.minDeleteRows;
}

/**
 * A run without limits spends so many seconds of its rate on asking for rows that seem deleted; the rest waits for the
 * next.
 */
const mostSecondsPerRun = 600;
/** Seconds after which the answers so far are judged and deleted. */
const secondsPerRound = 60;
/** The fewest calls of a run without limits, and of a round. */
const fewestGets = 200;
/** Rows that are requested and then judged in one transaction; entities take turns. */
const batchRows = 20;
/** Questions of one entity in a row without an answer: its others would get none either. */
const mostUnanswered = 5;

interface Asking {
  readonly entity: Entity;
  readonly read: ReturnType<typeof compileReadConfirmed>;
  unansweredInARow: number;
  /** Partitions whose walk missed a record that is there. */
  readonly withdrawn: Set<string>;
}

interface Answer {
  readonly candidate: Candidate;
  readonly judgement: Judgement;
}

/** Calls of a run that was given no limits. */
export function getsWithoutLimits(requestsPerSecond: number): number {
  return Math.max(fewestGets, Math.ceil(requestsPerSecond * mostSecondsPerRun));
}

/**
 * Asks for missing rows by `get` in rounds, entities in turns, and stores the answers: no row twice in a run. The
 * source gives null only where the API says that this record does not exist (404, 410) and still answers for the
 * connector: the record is deleted. All other failures throw, and say nothing about the record.
 */
export function openConfirmation(run: Run) {
  const { asked, requestsPerSecond } = run;
  const askingByEntity = new Map<Entity, Asking>();
  // Other limits than its own end the calls of a run that was given some.
  const isLimited = asked.maxCalls !== null || asked.budgetMs !== null;
  let getsLeft = isLimited ? Number.POSITIVE_INFINITY : getsWithoutLimits(requestsPerSecond);

  const askingOf = (entity: Entity): Asking =>
    knownOrMade(askingByEntity, entity, () => {
      const read = compileReadConfirmed(run, entity);
      return { entity, read, unansweredInARow: 0, withdrawn: new Set() };
    });

  /**
   * `rows` that were asked for, with or without an answer; 0: there are no more of them in this run. `error`: an error
   * that must end the run; null: none. Every answer before it is stored.
   */
  return async (entities: readonly Entity[]): Promise<{ readonly rows: number; readonly error: unknown }> => {
    let asking = entities.map(askingOf).filter((one) => one.unansweredInARow < mostUnanswered);
    let rows = 0;
    let ofRound = Math.max(fewestGets, Math.ceil(requestsPerSecond * secondsPerRound));
    while (asking.length > 0) {
      const again: Asking[] = [];
      for (const one of asking) {
        if (run.signal.aborted) return { rows, error: run.signal.reason };
        // Each row is handed out once a run, whether it gets an answer or not: all of the batch must be asked for.
        const limit = Math.min(batchRows, getsLeft, ofRound);
        if (limit <= 0) return { rows, error: null };
        const batch = await run.sink.deletes.toConfirm(run.lease, run.id, one.entity.name, limit);
        if (batch.length === 0) continue;
        rows += batch.length;
        const { gets, endings } = await askBatch(run, one, batch);
        getsLeft -= gets;
        ofRound -= gets;
        if (endings.length > 0) return { rows, error: endings[0] };
        if (one.unansweredInARow < mostUnanswered) again.push(one);
      }
      asking = again;
    }
    return { rows, error: run.signal.aborted ? run.signal.reason : null };
  };
}

/** Returns the number of calls, and an error that must end the run. */
async function askBatch(run: Run, asking: Asking, batch: readonly Candidate[]) {
  const { concurrency, signal } = run;
  const answers: Answer[] = [];
  const endings: unknown[] = [];
  let gets = 0;

  await eachOf(batch, concurrency, async (candidate) => {
    if (endings.length > 0 || signal.aborted || asking.unansweredInARow >= mostUnanswered) return;
    const params = findGetParams(asking.entity, candidate);
    if (params === null) return noteUnanswered(run, asking);
    gets += 1;
    try {
      const answer = await run.source.get({ entity: asking.entity.name, params }, signal);
      asking.unansweredInARow = 0;
      answers.push({ candidate, judgement: asking.read(candidate, answer) });
    } catch (error) {
      const meaning = meaningOfGet(error);
      if (meaning === 'ends-run' || meaning === 'later') endings.push(error);
      else noteUnanswered(run, asking);
    }
  });
  await storeAnswers(run, asking, answers);
  return { gets, endings };
}

function noteUnanswered({ onEvent }: Run, asking: Asking): void {
  asking.unansweredInARow += 1;
  onEvent({ kind: 'record-confirmed', entity: asking.entity.name, verdict: 'unanswered' });
}

async function storeAnswers(
  { sink, lease, id, tally, onEvent }: Run,
  { entity, withdrawn }: Asking,
  answers: readonly Answer[],
): Promise<void> {
  if (answers.length === 0) return;
  const judgements = answers.map(({ judgement }) => judgement);
  const counts = await sink.deletes.judge(lease, id, entity.name, judgements);
  const stored = judgements.filter((one) => one.verdict === 'there' && one.record !== null).length;
  tally.confirmed(entity.name, stored, counts);
  for (const { candidate, judgement } of answers) {
    onEvent({ kind: 'record-confirmed', entity: entity.name, verdict: judgement.verdict });
    if (judgement.verdict === 'gone' || isNoFault(judgement) || candidate.wasVouchedFor) continue;
    const walk = wholeJson(candidate.params);
    if (!withdrawn.has(walk)) tally.withdrawn(entity.name);
    withdrawn.add(walk);
  }
}

/**
 * Reads the answer of a `get` for a row that no listing showed. A record that is another one, that came in part, that
 * its listing alone can place, or that a policy refuses, proves only that something is there.
 */
function compileReadConfirmed({ policies, entities }: Run, entity: Entity) {
  const policy = refusing(policies.get(entity.name) ?? acceptEverything);
  const prepare = compilePrepare(recordShape(entity, policy));
  /** Parameters by which the settings choose records. */
  const variants = entities.get(entity.name)?.variants ?? [];
  const filters = new Set(variants.flatMap((variant) => Object.keys(variant)));

  function placed(candidate: Candidate, answer: JsonValue) {
    const nothing = { record: null, isRefused: false };
    if (!isOfKind(entity, answer)) return nothing;
    const prepared = prepare(answer, candidate.inject);
    if (prepared.kind === 'refused') {
      return { record: null, isRefused: prepared.refused.keyText === candidate.keyText };
    }
    return prepared.record.keyText === candidate.keyText ? { ...nothing, record: prepared.record } : nothing;
  }

  return (candidate: Candidate, answer: JsonValue): Judgement => {
    const { row } = candidate;
    if (!isJsonObject(answer) || isPartial(entity, answer)) {
      return answer === null
        ? { row, verdict: 'gone' }
        : { row, verdict: 'there', record: null, isUnlisted: false, isRefused: false };
    }
    const isLeftOut = isUnlisted(entity, answer);
    if (entity.recursive !== null) return judgeInTree(entity.recursive, candidate, answer, isLeftOut);
    const { record, isRefused } = placed(candidate, answer);
    return {
      row,
      verdict: 'there',
      record,
      isUnlisted: isLeftOut || isHidden(filters, candidate, answer),
      isRefused,
    };
  };
}

/**
 * A record that has left its tree, or lies in the trash, no longer has a place; a moved one is met at its new place.
 */
function judgeInTree(
  rules: Recursive,
  { row, params }: Candidate,
  answer: JsonObject,
  isUnlisted: boolean,
): Judgement {
  const place = isUnlisted ? 'in-none' : whereInTree(rules, answer, params[rules.param] ?? null);
  if (place === 'in-none') return { row, verdict: 'gone' };
  return { row, verdict: 'there', record: null, isUnlisted: place === 'elsewhere', isRefused: false };
}

/** The record lacks, or contradicts, a value that its partition's listing is filtered by. */
function isHidden(filters: ReadonlySet<string>, { params }: Candidate, answer: JsonObject): boolean {
  return Object.entries(params).some(
    ([name, value]) => filters.has(name) && (!Object.hasOwn(answer, name) || answer[name] !== value),
  );
}
