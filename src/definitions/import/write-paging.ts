import type { JsonObject, JsonValue } from '../../core/json.ts';
import type { Operation } from './operation.ts';
import type { Paging, Told } from './paging.ts';

/** Paging as a definition says it. */
export interface WrittenPaging {
  readonly pagination: JsonObject;
  /** Parameters that it needs, as they must be declared. */
  readonly params: Readonly<Record<string, JsonObject>>;
  /** Keys of `connector_metadata` that direct calls fill; empty for hosted ones. */
  readonly metadata: Readonly<Record<string, JsonValue>>;
  /** How the service itself pages; null: as the definition does. */
  readonly paging: JsonObject | null;
  readonly notes: readonly string[];
}

/** Names of keys that are written by this program alone. */
const nextKey = 'next_page';
const moreKey = 'has_more';
const totalKey = 'total';

/** Of a mode that refuses everything else. */
export function hostedPagination(paging: Paging): WrittenPaging {
  const { size, total, evidence } = paging;
  const totals = total === null || total.key === null ? {} : { totalKeys: [total.key] };
  const sized = sizeParts(paging);
  const shared = { metadata: {}, paging: null, notes: [`paging: ${evidence}`, ...sized.notes] };
  switch (paging.kind) {
    case 'single':
      return {
        ...shared,
        notes: [`paging: ${evidence}`],
        params: {},
        pagination: { kind: 'single', ...totals },
      };
    case 'offset':
      return {
        ...shared,
        params: { [paging.param.name]: { type: 'integer' }, ...sized.params },
        pagination: { kind: 'offset', offsetParam: paging.param.name, ...sized.parts, ...totals },
      };
    case 'token': {
      const { param, token, more } = paging;
      const flags = more === null || more.key === null ? {} : { flagKeys: [more.key] };
      return {
        ...shared,
        params: { [param.name]: { type: 'string' }, ...sized.params },
        pagination: {
          kind: 'pageToken',
          tokenParam: param.name,
          tokenKeys: [token.key ?? ''],
          ...flags,
          ...sized.parts,
          ...totals,
        },
      };
    }
    case 'address':
    case 'page':
    case 'lastRecord':
      throw new TypeError(
        `expected a paging that hosted connectors have, got ${paging.kind} by ${size?.param.name}`,
      );
  }
}

/** For calls to the service itself: `paging` translates its pages into those of `pagination`. */
export function directPagination(paging: Paging, list: Operation): WrittenPaging {
  const { total, evidence } = paging;
  const sized = sizeParts(paging);
  const totals = total === null ? {} : { totalKeys: [totalKey] };
  const notes = [`paging: ${evidence}`, ...sized.notes];
  const byToken = (param: string, hasFlag: boolean) => ({
    notes,
    metadata: metadataOf(total),
    params: { [param]: { type: 'string' }, ...sized.params },
    pagination: {
      kind: 'pageToken',
      tokenParam: param,
      tokenKeys: [nextKey],
      ...(hasFlag ? { flagKeys: [moreKey] } : {}),
      ...sized.parts,
      ...totals,
    },
  });
  switch (paging.kind) {
    case 'single':
      return {
        notes: [`paging: ${evidence}`],
        metadata: metadataOf(total),
        params: {},
        pagination: { kind: 'single', ...totals },
        paging: null,
      };
    case 'token': {
      const more = paging.more === null ? {} : { more: placeOf(paging.more) };
      return {
        ...byToken(paging.param.name, paging.more !== null),
        paging: { kind: 'cursor', token: placeOf(paging.token), ...more },
      };
    }
    case 'address': {
      const name = paging.param?.name ?? freeName(list, ['next_page', 'next_page_of_listing']);
      const { path } = paging.address.place;
      const keep = [paging.param?.sent ?? name];
      return {
        ...byToken(name, false),
        paging: path === undefined ? { kind: 'linkHeader', keep } : { kind: 'nextUrl', path, keep },
      };
    }
    case 'lastRecord':
      return {
        ...byToken(paging.param.name, true),
        paging: { kind: 'lastRecord', field: 'id', more: placeOf(paging.more) },
      };
    case 'offset':
      return {
        notes,
        metadata: {},
        params: { [paging.param.name]: { type: 'integer' }, ...sized.params },
        pagination: { kind: 'offset', offsetParam: paging.param.name, ...sized.parts, ...totals },
        paging: { kind: 'offset', ...(total === null ? {} : { total: placeOf(total) }) },
      };
    case 'page': {
      const offset = freeName(list, ['offset', 'record_offset']);
      const size = paging.size?.param.name ?? freeName(list, ['page_size', 'page_size_of_listing']);
      const isFixed = paging.size === null;
      return {
        notes: [
          ...notes,
          ...(paging.isFirstGuessed ? [`first: ${paging.first} # guessed`] : []),
          ...(isFixed ? ['maxSize: 100 # guessed; the file has no parameter for it'] : []),
        ],
        metadata: {},
        params: {
          [offset]: { type: 'integer' },
          ...(isFixed ? { [size]: { type: 'integer' } } : sized.params),
        },
        pagination: {
          kind: 'offset',
          offsetParam: offset,
          ...(isFixed ? { sizeParam: size, maxSize: 100 } : sized.parts),
          ...totals,
        },
        paging: {
          kind: 'page',
          param: paging.param.sent,
          first: paging.first,
          ...(total === null ? {} : { total: placeOf(total) }),
          ...(isFixed ? { fixed: true } : {}),
        },
      };
    }
  }
}

/** A token needs no size: where nothing says how large a page may be, the service decides. */
function sizeParts({ kind, size }: Paging) {
  if (size === null || (size.evidence === 'guessed' && kind !== 'page' && kind !== 'offset')) {
    return { params: {}, parts: {}, notes: [] };
  }
  const { param, max, evidence } = size;
  const isProven = evidence === 'maximum';
  return {
    params: { [param.name]: { type: 'integer', min: 1, max } },
    parts: { sizeParam: param.name, maxSize: max },
    notes: [
      `maxSize: ${evidence === 'guessed' ? '100' : evidence} of ${param.name}${isProven ? '' : ' # guessed'}`,
    ],
  };
}

function metadataOf(total: Told | null): Readonly<Record<string, JsonValue>> {
  return total === null ? {} : { [totalKey]: placeOf(total) };
}

function placeOf({ place }: Told): JsonValue {
  return place.header === undefined ? (place.path ?? '') : { header: place.header };
}

function freeName({ params }: Operation, names: readonly string[]): string {
  return names.find((name) => !params.some((param) => param.name === name)) ?? 'walk_position';
}
