import type { Entity, Recursive } from '../../definitions/definition.ts';
import type { Candidate, Judgement } from '../../sinks/deletes.ts';
import type { Run } from '../run.ts';
import { wholeJson } from '../prepare/canonical-json.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { PreparedRecord } from '../../core/records.ts';
import { isUnlisted } from '../prepare/find-children.ts';
import { whereInTree } from '../prepare/listing-tree.ts';
import { isOfKind, isPartial } from '../prepare/partial-record.ts';
import { compilePrepare } from '../prepare/prepare-record.ts';
import { recordShape } from '../prepare/record-shape.ts';
import { acceptEverything, refusing } from '../prepare/schema-policy.ts';
import { eachOf } from '../work-pool.ts';
import { findGetParams, meaningOfGet } from './find-get-params.ts';
import { knownOrMade } from '../../core/known-or-made.ts';

/**
 * A run without limits spends so many seconds of its rate on asking for rows that seem deleted; the rest waits for the
 * next.
 */
const mostSecondsPerRun = 600;
/** After so many seconds of it, what was answered is judged and deleted. */
const secondsPerRound = 60;
/** The fewest calls of a run without limits, and of a round. */
const fewestGets = 200;
/** So many at a time are asked for and then judged in one transaction; entities take turns. */
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
   * `rows` that were asked for, with or without an answer; 0: there are no more of them in this run. `error`: what must
   * end the run; null: nothing. All that was answered before is stored.
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

/** Gives the number of calls it took, and what was thrown that must end the run. */
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
    if (judgement.verdict === 'gone' || judgement.isUnlisted || candidate.wasVouchedFor) continue;
    const walk = wholeJson(candidate.params);
    if (!withdrawn.has(walk)) tally.withdrawn(entity.name);
    withdrawn.add(walk);
  }
}

/**
 * Reads what a `get` answered for a row that no listing showed. A record that is another one, that came in part, that
 * its listing alone can place, or that a policy refuses, says only that something is there.
 */
function compileReadConfirmed(
  { policies, entities }: Run,
  entity: Entity,
): (candidate: Candidate, answer: JsonValue) => Judgement {
  const policy = refusing(policies.get(entity.name) ?? acceptEverything);
  const prepare = compilePrepare(recordShape(entity, policy));
  /** Parameters by which the settings choose records. */
  const variants = entities.get(entity.name)?.variants ?? [];
  const filters = new Set(variants.flatMap((variant) => Object.keys(variant)));

  function placed(candidate: Candidate, answer: JsonValue): PreparedRecord | null {
    if (!isOfKind(entity, answer)) return null;
    const prepared = prepare(answer, candidate.inject);
    return prepared.kind === 'record' && prepared.record.keyText === candidate.keyText
      ? prepared.record
      : null;
  }

  return (candidate, answer) => {
    const { row } = candidate;
    if (!isJsonObject(answer) || isPartial(entity, answer)) {
      return answer === null
        ? { row, verdict: 'gone' }
        : { row, verdict: 'there', record: null, isUnlisted: false };
    }
    const isLeftOut = isUnlisted(entity, answer);
    if (entity.recursive !== null) return judgeInTree(entity.recursive, candidate, answer, isLeftOut);
    return {
      row,
      verdict: 'there',
      record: placed(candidate, answer),
      isUnlisted: isLeftOut || isHidden(filters, candidate, answer),
    };
  };
}

/** What has left its tree, or lies in the trash, no longer has a place; what has moved is met where it is now. */
function judgeInTree(
  rules: Recursive,
  { row, params }: Candidate,
  answer: JsonObject,
  isUnlisted: boolean,
): Judgement {
  const place = isUnlisted ? 'in-none' : whereInTree(rules, answer, params[rules.param] ?? null);
  if (place === 'in-none') return { row, verdict: 'gone' };
  return { row, verdict: 'there', record: null, isUnlisted: place === 'elsewhere' };
}

/** It does not have, or does not show, what its partition's listing is filtered by. */
function isHidden(filters: ReadonlySet<string>, { params }: Candidate, answer: JsonObject): boolean {
  return Object.entries(params).some(
    ([name, value]) => filters.has(name) && (!Object.hasOwn(answer, name) || answer[name] !== value),
  );
}
