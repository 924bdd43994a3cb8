import { isJsonObject, memberOf } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import { fixedParamsAt } from '../definitions/clock-value.ts';
import type { Entity } from '../definitions/definition.ts';
import { paginationOf, sortParams } from '../pagination/pagination-of.ts';
import type { ListRequest, Source, SourcePage } from '../source/source.ts';
import type { ChosenEntity } from './chosen-entities.ts';
import { compileChangeSpan, countUndated, undatedText } from './prepare/change-span.ts';

const fromTheStart = { mode: 'full', watermark: null, storedRows: 0 } as const;

/**
 * Asks for the page that a first sync of a root entity would begin with, and holds it against what its definition says.
 * `expectsTotal`: the answer must name a total where the definition says that it does. Rejects as `list` does.
 */
export async function probePage(
  source: Pick<Source, 'list'>,
  entity: Entity,
  { variants }: Pick<ChosenEntity, 'variants'>,
  {
    expectsTotal,
    nowMs,
    signal,
  }: { readonly expectsTotal: boolean; readonly nowMs: number; readonly signal: AbortSignal },
) {
  const request = firstRequest(entity, variants[0] ?? {}, nowMs);
  const page = await source.list(request, signal);
  return {
    records: page.records.length,
    /** What the page shows to be wrong with how the entity is asked for; empty: nothing. */
    problems: pageProblems(entity, request, page, expectsTotal),
  };
}

/** Of the first page of a listing; empty: none. */
export function pageProblems(
  entity: Entity,
  request: ListRequest,
  page: SourcePage,
  expectsTotal: boolean,
): readonly string[] {
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
  return {
    entity: entity.name,
    params: {
      ...fixedParamsAt(entity, nowMs),
      ...sortParams(entity, fromTheStart),
      ...variant,
      ...pagination.request(pagination.begin()),
    },
    isRoot: true,
  };
}

/** A page by token may be short wherever it likes: its token says what follows. */
function lengthProblems(
  { pagination }: Entity,
  { params }: ListRequest,
  page: SourcePage,
): readonly string[] {
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

function totalProblems(
  { pagination }: Entity,
  { total, records }: SourcePage,
  expectsTotal: boolean,
): readonly string[] {
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
