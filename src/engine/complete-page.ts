import type { JsonValue } from '../core/json.ts';
import type { Entity } from '../definitions/definition.ts';
import type { Partition } from '../sinks/partition.ts';
import { withRecords, type SourcePage } from '../source/source.ts';
import { atPath } from './prepare/prepare-page.ts';
import { isOfKind, isPartial, compilePrepare, recordShape } from './prepare/prepare-record.ts';
import type { SyncOptions } from './run.ts';
import { eachOf } from '../core/grouped.ts';
import { SyncError } from '../core/errors.ts';
import { keyPartsOf, type ColumnValue, type Params } from '../core/records.ts';
import { missingParams, convertValue } from '../definitions/params.ts';
import type { Candidate } from '../sinks/deletes.ts';

/** Calls of one entity in a row without an answer: its others would get none either. */
const mostSilent = 5;
/** Records of one entity in a row that `get` does not give whole either: its others are not asked for in this run. */
const mostRefused = 100;

type AskedRow = Pick<Candidate, 'keyText' | 'inject' | 'params'>;
type AskingRun = Pick<SyncOptions, 'source' | 'concurrency' | 'signal'>;
type Listing = Pick<Partition, 'inject' | 'params'>;

export interface CompletedPage {
  readonly page: SourcePage;
  /** Records that came in part and might have been got whole, had there been an answer: a later walk must ask again. */
  readonly unanswered: number;
}

/**
 * Asks by `get` for the incomplete records of a page, and puts the answers in their places; a record that `get` does
 * not bring whole stays as it came. Where the calls are used up, or the service asks for a pause, no more are
 * requested: the next call of the walk reports it. Throws other errors that must end the run.
 */
export function compileCompletePage(entity: Entity, { source, concurrency, signal }: AskingRun) {
  const prepare = compilePrepare(recordShape(entity, undefined));
  const tellingNames = new Set([...entity.whole, ...entity.only.flatMap(({ field }) => atPath(field))]);
  const isAskable = entity.whole.length > 0 && entity.actions.has('get');
  let silentInARow = 0;
  let refusedInARow = 0;

  function keyOf(raw: JsonValue, { inject }: Listing): string | null {
    const prepared = prepare(raw, inject);
    return prepared.kind === 'record' ? prepared.record.keyText : null;
  }

  return async (partition: Listing, page: SourcePage): Promise<CompletedPage> => {
    if (!isAskable) return { page, unanswered: 0 };
    const partial = Array.from({ length: page.records.length }, (_, index) => index).flatMap((index) => {
      const glance = page.records.glance(index, tellingNames);
      if (!isPartial(entity, glance) || !isOfKind(entity, glance)) return [];
      const keyText = keyOf(page.records.value(index), partition);
      const params = keyText === null ? null : findGetParams(entity, { ...partition, keyText });
      return params === null ? [] : [{ index, keyText, params }];
    });
    if (partial.length === 0 || refusedInARow >= mostRefused) return { page, unanswered: 0 };
    const whole = new Map<number, JsonValue>();
    let answered = 0;
    let isOver = false;
    const endings: unknown[] = [];

    await eachOf(partial, concurrency, async ({ index, keyText, params }) => {
      if (isOver || silentInARow >= mostSilent || refusedInARow >= mostRefused) return;
      let isWhole = false;
      try {
        const answer = await source.get({ entity: entity.name, params }, signal);
        isWhole =
          !isPartial(entity, answer) && isOfKind(entity, answer) && keyOf(answer, partition) === keyText;
        if (isWhole) whole.set(index, answer);
      } catch (error) {
        const meaning = meaningOfGet(error);
        if (meaning === 'ends-run') endings.push(error);
        isOver ||= meaning === 'ends-run' || meaning === 'later';
        if (meaning === 'entity-refused') refusedInARow = mostRefused;
        if (meaning === 'unanswered') silentInARow += 1;
        if (meaning !== 'refused') return;
      }
      answered += 1;
      silentInARow = 0;
      refusedInARow = isWhole ? 0 : refusedInARow + 1;
    });
    if (endings.length > 0) throw endings[0];
    const isNoUse = refusedInARow >= mostRefused;
    return {
      page: { ...page, records: withRecords(page.records, whole) },
      unanswered: isNoUse ? 0 : partial.length - answered,
    };
  };
}

/**
 * Parameters of the `get` for a record: from its key and its partition. Null where there is no `get`, or one of them
 * cannot be had.
 */
export function findGetParams(entity: Entity, { keyText, inject, params }: AskedRow): Params | null {
  const get = entity.actions.get('get');
  if (get === undefined) return null;
  const parts = keyPartsOf(keyText, entity.key.length);
  if (parts === null) return null;
  const fields = new Map<string, JsonValue>([
    ...Object.entries(inject),
    ...entity.key.map((name, index) => [name, wholeDigits(parts[index] ?? null)] as const),
  ]);
  const found: Record<string, JsonValue> = {};
  for (const [name, param] of get.params) {
    const field = get.key.get(name);
    const own = field === undefined ? null : (fields.get(field) ?? null);
    const value = convertValue(param.type, own ?? params[name] ?? null);
    if (value !== null && (field !== undefined || param.required)) found[name] = value;
    else if (field !== undefined) return null;
  }
  return missingParams(get, found).length === 0 ? found : null;
}

/** An integer beyond what doubles hold exactly, as a bigint: `convertValue` trusts no such number. */
function wholeDigits(part: ColumnValue): ColumnValue {
  const isLong = typeof part === 'number' && Number.isInteger(part) && !Number.isSafeInteger(part);
  return isLong ? BigInt(part) : part;
}

type Meaning = 'ends-run' | 'later' | 'unanswered' | 'refused' | 'entity-refused';

/**
 * Classifies a failed `get`. `later`: the calls are used up, or the service asks for a pause. `refused`: this record is
 * not given to this caller.
 */
export function meaningOfGet(error: unknown): Meaning {
  if (!(error instanceof SyncError)) return 'ends-run';
  switch (error.recovery) {
    case 'stop':
      return error.code === 'BUDGET_SPENT' ? 'later' : 'ends-run';
    case 'throttle':
      return 'later';
    case 'retry':
    case 'smaller-page':
    case 'restart-walk':
      return 'unanswered';
    case 'skip-partition':
      return 'refused';
    case 'skip-entity':
      return 'entity-refused';
  }
}
