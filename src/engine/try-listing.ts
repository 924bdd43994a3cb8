import type { Clock } from '../core/clock.ts';
import { hasCode, SyncError } from '../core/errors.ts';
import type { Params } from '../core/records.ts';
import type { Definition, Entity, Parent } from '../definitions/definition.ts';
import type { Partition, Seal, WalkFailure } from '../sinks/partition.ts';
import type { PageCommit } from '../sinks/sink.ts';
import type { ListRequest, Source, SourcePage } from '../source/source.ts';
import {
  dividedListings,
  injectedFrom,
  ordinaryChoice,
  rankOf,
  type ChosenEntity,
} from './chosen-entities.ts';
import { compileChangeSpan, countUndated, undatedText } from './prepare/change-span.ts';
import { newRunId } from './plan-run.ts';
import { windowParams } from './windows.ts';
import { runTally } from './run-tally.ts';
import { pageRequest, walkContext, walkPartition, type GroupCommits, type WalkContext } from './walk.ts';
import type { RunEvent } from '../core/events.ts';
import { isJsonObject, memberOf } from '../core/json.ts';
import { paginationOf } from '../pagination/pagination-of.ts';

/** A call for a page, as a sync would make it, and a sync's result for its answer. */
export interface TriedCall {
  readonly request: ListRequest;
  /** The page as it came, before its incomplete records were requested; null: the call failed. */
  readonly page: SourcePage | null;
  /** Commit that a sync would store; null where the page was not taken. */
  readonly commit: PageCommit | null;
  /** Errors in the definition of the entity that the page reveals. */
  readonly problems: readonly string[];
  readonly error: SyncError | null;
  readonly next: TriedStep;
}

/** Step after a call. */
export type TriedStep =
  /** `restartedBecause`: the listing begins again. */
  | { readonly kind: 'call'; readonly request: ListRequest; readonly restartedBecause: string | null }
  | { readonly kind: 'end'; readonly seal: Seal }
  /** A sync would leave this listing and read the others. */
  | { readonly kind: 'set-aside'; readonly failure: WalkFailure }
  /** A sync would end. */
  | { readonly kind: 'stop'; readonly error: SyncError };

export interface TryOptions {
  readonly definition: Definition;
  readonly entity: Entity;
  /**
   * Parameters of the listing: those that parents would fill, and those that the settings might choose. Checked and
   * converted.
   */
  readonly params: Params;
  /** Connected. Its limit of calls ends the trial. */
  readonly source: Source;
  /** The answers must name a total where the definition says that they do. */
  readonly expectsTotal: boolean;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Called with each call once the next step is known. */
  readonly onCall: (call: TriedCall) => void;
}

/** The parent whose records would fill these parameters; null: none would, or too few of them are given. */
export function fillingParent({ parents }: Entity, params: Params): Parent | null {
  return parents.find((one) => [...one.params.keys()].every((name) => Object.hasOwn(params, name))) ?? null;
}

/**
 * Reads one listing from its start as a first sync would, with the same code, until it ends or the calls are used up.
 * Stores nothing. Rejects with the signal's reason, and with errors other than `SyncError`.
 */
export async function tryListing(options: TryOptions): Promise<void> {
  const { definition, entity, source, expectsTotal, signal, onCall } = options;
  const at: At = { open: null, restartedBecause: null, isFirst: true };
  const close = (next: TriedStep): void => {
    if (at.open !== null) onCall({ ...at.open, next });
    at.open = null;
  };

  const list: Source['list'] = async (request, within) => {
    close({ kind: 'call', request, restartedBecause: at.restartedBecause });
    at.restartedBecause = null;
    const before = source.stats().calls;
    const call = { request, page: null, commit: null, problems: [], error: null };
    try {
      const page = await source.list(request, within);
      const problems = at.isFirst ? pageProblems(entity, request, page, expectsTotal) : [];
      at.open = { ...call, page, problems };
      at.isFirst = false;
      return page;
    } catch (error) {
      // One that the limit of calls refused was not made.
      const isMade = source.stats().calls > before;
      if (isMade && error instanceof SyncError) at.open = { ...call, error: shownError(error) };
      throw error;
    }
  };
  const context = contextOf(options, { ...source, list }, at);
  try {
    const end = await walkPartition(context, partitionOf(definition, entity, options.params));
    close(end.kind === 'sealed' ? { kind: 'end', seal: end.seal } : end);
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof SyncError)) throw error;
    if (at.open === null && !hasCode(error, 'BUDGET_SPENT')) throw error;
    close({ kind: 'stop', error });
  }
}

/** No call remains for another attempt: the error of the last one. */
function shownError(error: SyncError): SyncError {
  return error.code === 'BUDGET_SPENT' && error.cause instanceof SyncError ? error.cause : error;
}

/** Where a trial stands. */
interface At {
  /** The newest call, while the next step is not known. */
  open: Omit<TriedCall, 'next'> | null;
  restartedBecause: string | null;
  isFirst: boolean;
}

/** Context of a run that reads everything, fetches no page ahead, and whose sink stores nothing. */
function contextOf(options: TryOptions, source: Source, at: At): WalkContext {
  const { definition, entity, clock, signal } = options;
  const { serverTime } = source.stats();
  const capMs = serverTime === null ? clock.now() : Date.parse(serverTime);
  const run = {
    id: newRunId(clock.now()),
    source,
    tally: runTally([entity.name]),
    capMs,
    clock,
    signal,
    onEvent: (event: RunEvent): void => {
      if (event.kind === 'walk-restarted') at.restartedBecause = event.why;
    },
    definition,
    entities: new Map([...definition.entities].map(([name, one]) => [name, ordinaryChoice(one)])),
    policies: new Map(),
    concurrency: 1,
    asked: { window: null },
  };
  const commits: GroupCommits = {
    submit: (commit) => {
      if (at.open !== null) at.open = { ...at.open, commit };
      return Promise.resolve({ counts: [], newlyDue: 0 });
    },
    waitFor: (stored) => stored,
    walkOpened: () => undefined,
    walkClosed: () => undefined,
  };
  return walkContext(run, entity, { commits });
}

function partitionOf(definition: Definition, entity: Entity, params: Params): Partition {
  const parent = fillingParent(entity, params);
  const [listing = params] = dividedListings(entity, [params]);
  return {
    id: 1,
    entity: entity.name,
    params: listing,
    inject: {
      ...injectedFrom(entity, entity.inject, listing),
      ...(parent === null ? {} : injectedFrom(entity, parent.inject, params)),
    },
    rank: rankOf(definition, entity.name),
    treeDepth: entity.recursive === null ? null : 0,
    tree: null,
    position: null,
    mode: 'full',
    watermark: null,
    storedRows: 0,
    clockDifferences: [],
  };
}

const fromTheStart = { mode: 'full', watermark: null, storedRows: 0 } as const;

/**
 * Requests the page that a first sync of a root entity would begin with, and compares it with the definition.
 * `expectsTotal`: the answer must name a total where the definition says that it does. Rejects as `list` does.
 */
export async function probePage(
  source: Pick<Source, 'list'>,
  entity: Entity,
  { variants }: Pick<ChosenEntity, 'variants'>,
  { expectsTotal, nowMs, signal }: Pick<TryOptions, 'expectsTotal' | 'signal'> & { readonly nowMs: number },
) {
  const listing = { ...dividedListings(entity, variants)[0], ...windowParams(entity, nowMs) };
  const request = firstRequest(entity, listing, nowMs);
  const page = await source.list(request, signal);
  return {
    records: page.records.length,
    /** Errors in the definition of the entity that the page reveals; empty: none. */
    problems: pageProblems(entity, request, page, expectsTotal),
  };
}

/** Errors that the first page of a listing reveals; empty: none. */
export function pageProblems(entity: Entity, request: ListRequest, page: SourcePage, expectsTotal: boolean) {
  return [
    ...lengthProblems(entity, request, page),
    ...totalProblems(entity, page, expectsTotal),
    ...keyProblems(entity, page),
    ...changeProblems(entity, page),
  ];
}

function changeProblems({ incremental }: Entity, page: SourcePage): readonly string[] {
  if (incremental === null) return [];
  const records = [...page.records];
  const undated = countUndated(incremental, records, records.map(compileChangeSpan(incremental)));
  return undated === 0 ? [] : [`${undated} of ${records.length} records ${undatedText}`];
}

function firstRequest(entity: Entity, variant: Params, nowMs: number): ListRequest {
  const pagination = paginationOf(entity, fromTheStart, {
    pageLengths: new Map(),
    trustsTotal: entity.trustsTotal,
  });
  return pageRequest(entity, { ...fromTheStart, params: variant }, pagination, pagination.begin(), nowMs);
}

/**
 * Only pages by number or offset are judged by length: a page by token may be short, because its token names the next
 * page.
 */
function lengthProblems({ pagination }: Entity, { params }: ListRequest, page: SourcePage) {
  if (pagination.kind === 'single' || pagination.sizeParam === null) return [];
  const asked = memberOf(params, pagination.sizeParam);
  if (typeof asked !== 'number') return [];
  const { total, records } = page;
  const shown = `asked for ${asked} records by ${pagination.sizeParam}, got ${records.length}`;
  if (records.length > asked) return [`${shown}: the service does not take that parameter`];
  const isCut = isNumbered(pagination) && total !== undefined && records.length < Math.min(asked, total);
  return isCut
    ? [`${shown} of ${total}: the service gives shorter pages, or does not take that parameter`]
    : [];
}

function isNumbered({ kind }: Entity['pagination']): boolean {
  return kind === 'offset' || kind === 'page';
}

function totalProblems({ pagination }: Entity, { total, records }: SourcePage, expectsTotal: boolean) {
  if (!isNumbered(pagination) || pagination.totalKeys.length === 0) return [];
  if (total === undefined) {
    return expectsTotal ? ['the answer names no total where the definition says that it is'] : [];
  }
  return total < records.length
    ? [`the answer names a total of ${total}, and has ${records.length} records`]
    : [];
}

/** An array of something else than the records. */
function keyProblems({ key, isKeyless }: Entity, { records }: SourcePage): readonly string[] {
  if (isKeyless === true) return [];
  const keyNames = new Set(key);
  const isKeyed = Array.from({ length: records.length }, (_, index) => records.glance(index, keyNames)).some(
    (record) => isJsonObject(record) && key.some((field) => memberOf(record, field) !== undefined),
  );
  return records.length === 0 || isKeyed
    ? []
    : [`none of the records has ${key.join(' or ')}, which is their key`];
}
