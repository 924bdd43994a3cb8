import { SyncError } from '../../core/errors.ts';
import type { Entity } from '../../definitions/definition.ts';
import type { Candidate, Judgement } from '../../sinks/deletes.ts';
import type { Run } from '../run.ts';
import { wholeJson } from '../prepare/canonical-json.ts';
import { findGetParams } from './find-get-params.ts';
import { compileReadConfirmed } from './read-confirmed.ts';

/** Calls that one run spends on asking for rows that seem to be gone; the rest waits for the next. */
export const mostGetsPerRun = 200;
/** So many at a time are asked for and then judged in one transaction; entities take turns. */
const batchRows = 20;
/** Questions of one entity in a row without an answer: its others would get none either. */
const mostUnanswered = 5;

/** The questions that one entity still has. */
interface Asking {
  readonly entity: Entity;
  readonly read: ReturnType<typeof compileReadConfirmed>;
  /** Rows that were asked for in this run without an answer. */
  readonly unanswered: Set<number>;
  unansweredInARow: number;
  /** Partitions whose walk missed a record that is there. */
  readonly withdrawn: Set<string>;
}

interface Answer {
  readonly candidate: Candidate;
  readonly judgement: Judgement;
}

/**
 * Asks for missing rows by `get`, entity by entity in turns, and stores what that said. A question without an answer
 * leaves its row as it is. Gives the calls that are left, and what must end the run: what was answered until then has been stored.
 */
export async function confirmMissing(
  run: Run,
  entities: readonly Entity[],
  gets: number,
): Promise<{ readonly getsLeft: number; readonly error: unknown }> {
  let asking = entities.map((entity): Asking => ({
    entity,
    read: compileReadConfirmed(entity, run.policies.get(entity.name), filtersOf(run, entity)),
    unanswered: new Set(),
    unansweredInARow: 0,
    withdrawn: new Set(),
  }));
  let getsLeft = gets;
  while (asking.length > 0 && getsLeft > 0) {
    const again: Asking[] = [];
    for (const one of asking) {
      const batch = await nextBatch(run, one, Math.min(batchRows, getsLeft));
      if (batch.length === 0) continue;
      const { gets: spent, endings } = await askBatch(run, one, batch);
      getsLeft -= spent;
      const [ending] = endings;
      if (ending !== undefined) return { getsLeft, error: ending };
      run.signal.throwIfAborted();
      if (one.unansweredInARow < mostUnanswered) again.push(one);
    }
    asking = again;
  }
  return { getsLeft, error: null };
}

function filtersOf({ entities }: Run, { name }: Entity): ReadonlySet<string> {
  return new Set(entities.get(name)?.variants.flatMap((variant) => Object.keys(variant)));
}

/** Those without an answer would come first again. */
async function nextBatch(
  { sink, lease, id, signal }: Run,
  { entity, unanswered }: Asking,
  limit: number,
): Promise<readonly Candidate[]> {
  signal.throwIfAborted();
  if (limit === 0) return [];
  const found = await sink.deletes.toConfirm(lease, id, entity.name, limit + unanswered.size);
  return found.filter(({ row }) => !unanswered.has(row)).slice(0, limit);
}

/** Gives the number of calls it took, and what was thrown that must end the run. */
async function askBatch(
  run: Run,
  asking: Asking,
  batch: readonly Candidate[],
): Promise<{ readonly gets: number; readonly endings: readonly unknown[] }> {
  const { concurrency, signal } = run;
  const answers: Answer[] = [];
  const endings: unknown[] = [];
  const waiting = batch.values();
  let gets = 0;

  async function askOneAfterAnother(): Promise<void> {
    for (const candidate of waiting) {
      const isOver = endings.length > 0 || signal.aborted || asking.unansweredInARow >= mostUnanswered;
      if (isOver) return;
      const params = findGetParams(asking.entity, candidate);
      if (params !== null) gets += 1;
      try {
        const answer =
          params === null ? undefined : await run.source.get({ entity: asking.entity.name, params }, signal);
        if (answer === undefined) noteUnanswered(run, asking, candidate);
        else {
          asking.unansweredInARow = 0;
          answers.push({ candidate, judgement: asking.read(candidate, answer) });
        }
      } catch (error) {
        if (endsRun(error)) endings.push(error);
        else noteUnanswered(run, asking, candidate);
      }
    }
  }

  await Promise.all(Array.from({ length: Math.min(concurrency, batch.length) }, askOneAfterAnother));
  await storeAnswers(run, asking, answers);
  return { gets, endings };
}

function noteUnanswered({ onEvent }: Run, asking: Asking, { row }: Candidate): void {
  asking.unanswered.add(row);
  asking.unansweredInARow += 1;
  onEvent({ kind: 'record-confirmed', entity: asking.entity.name, verdict: 'unanswered' });
}

/** What one question may come to nothing with; anything else ends the run. */
function endsRun(error: unknown): boolean {
  if (!(error instanceof SyncError)) return true;
  switch (error.recovery) {
    case 'stop':
    case 'throttle':
      return true;
    case 'retry':
    case 'smaller-page':
    case 'restart-walk':
    case 'skip-partition':
    case 'skip-entity':
      return false;
  }
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
