import type { JsonObject, JsonValue } from '../../core/json.ts';
import type { ModeName } from './modes.ts';
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

/** Names of keys that direct calls fill. */
const directKeys = { token: 'next_page', more: 'has_more', total: 'total' } as const;

/** For a mode that takes it. Hosted connectors have the keys of the file, direct ones those that are filled. */
export function writePaging(paging: Paging, list: Operation, mode: ModeName): WrittenPaging {
  const sized = sizeParts(paging);
  const metadata: Record<string, JsonValue> = {};
  /** The key of what an answer says, for a list of keys; empty where there is none. */
  const keyOf = (role: keyof typeof directKeys, told: Told | null): readonly string[] => {
    if (told === null) return [];
    if (mode === 'hosted') return told.key === null ? [] : [told.key];
    // On the last page the header still has the addresses of pages before.
    if (told.place.header === 'Link') return [];
    metadata[directKeys[role]] = placeOf(told);
    return [directKeys[role]];
  };
  const written = (more: Pick<WrittenPaging, 'pagination'> & Partial<WrittenPaging>): WrittenPaging => {
    const totals = keyOf('total', paging.total);
    return {
      paging: null,
      notes: [`paging: ${paging.evidence}`, ...sized.notes],
      params: sized.params,
      ...more,
      metadata,
      pagination: { ...more.pagination, ...listed('totalKeys', totals) },
    };
  };
  switch (paging.kind) {
    case 'single': {
      const flagKeys = listed('flagKeys', keyOf('more', paging.more));
      const notes = [`paging: ${paging.evidence}`];
      return written({ params: {}, notes, pagination: { kind: 'single', ...flagKeys } });
    }
    case 'offset':
      return written({
        params: { [paging.param.name]: { type: 'integer' }, ...sized.params },
        pagination: { kind: 'offset', offsetParam: paging.param.name, ...sized.parts },
      });
    case 'page': {
      const guessed = paging.isFirstGuessed ? [`first: ${paging.first} # guessed`] : [];
      const unsized =
        paging.size === null ? ['maxSize: 100 # guessed; no parameter for the size of a page'] : [];
      return written({
        notes: [`paging: ${paging.evidence}`, ...sized.notes, ...guessed, ...unsized],
        params: { [paging.param.name]: { type: 'integer' }, ...sized.params },
        pagination: {
          kind: 'page',
          pageParam: paging.param.name,
          first: paging.first,
          ...(paging.size === null ? { maxSize: 100 } : sized.parts),
          ...listed('flagKeys', keyOf('more', paging.more)),
        },
      });
    }
    case 'lastRecord':
      return written({
        params: { [paging.param.name]: { type: 'string' }, ...sized.params },
        pagination: {
          kind: 'lastRecord',
          tokenParam: paging.param.name,
          field: 'id',
          ...listed('flagKeys', keyOf('more', paging.more)),
          ...sized.parts,
        },
      });
    case 'token': {
      const params = { [paging.param.name]: { type: 'string' }, ...sized.params };
      const pagination = { kind: 'pageToken', tokenParam: paging.param.name, ...sized.parts };
      if (mode === 'hosted') {
        const keys = {
          tokenKeys: keyOf('token', paging.token),
          ...listed('flagKeys', keyOf('more', paging.more)),
        };
        return written({ params, pagination: { ...pagination, ...keys } });
      }
      const more = paging.more === null ? {} : { more: placeOf(paging.more) };
      const keys = {
        tokenKeys: [directKeys.token],
        ...(paging.more === null ? {} : { flagKeys: [directKeys.more] }),
      };
      return written({
        params,
        pagination: { ...pagination, ...keys },
        paging: { kind: 'cursor', token: placeOf(paging.token), ...more },
      });
    }
    case 'address':
      return written(addressParts(paging, list, mode, sized));
  }
}

/** Hosted: the token is a parameter of the address. Direct: the parameters of the address are sent. */
function addressParts(
  { param, address }: Extract<Paging, { kind: 'address' }>,
  list: Operation,
  mode: ModeName,
  sized: ReturnType<typeof sizeParts>,
) {
  const name = param?.name ?? freeName(list, ['next_page', 'next_page_of_listing']);
  const sent = param?.sent ?? name;
  const params = { [name]: { type: 'string' }, ...sized.params };
  const pagination = { kind: 'pageToken', tokenParam: name, ...sized.parts };
  if (mode === 'hosted') {
    return { params, pagination: { ...pagination, tokenKeys: [{ key: address.key ?? '', param: sent }] } };
  }
  const { path } = address.place;
  // Which of its parameters is the token, the file does not say.
  const keep = param === null ? 'any' : [sent];
  return {
    params,
    pagination: { ...pagination, tokenKeys: [directKeys.token] },
    paging: path === undefined ? { kind: 'linkHeader', keep } : { kind: 'nextUrl', path, keep },
  };
}

function listed(name: string, keys: readonly string[]): JsonObject {
  return keys.length === 0 ? {} : { [name]: keys };
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

function placeOf({ place }: Told): JsonValue {
  return place.header === undefined ? (place.path ?? '') : { header: place.header };
}

function freeName({ params }: Operation, names: readonly string[]): string {
  return names.find((name) => !params.some((param) => param.name === name)) ?? 'walk_position';
}
