import type { PlaceFile } from '../upstream/upstream-file.ts';
import type { Operation, Parameter } from './operation.ts';
import { oneLine, textIn, wordsOf, type Schemas } from './schemas.ts';

/**
 * The place of a value in an answer, and the key of `connector_metadata` with the same value, dotted where an object
 * holds it; null: only the answer has it.
 */
export interface Told {
  readonly key: string | null;
  readonly place: PlaceFile;
}

/** How a listing pages, as far as the file proves it. */
export type Paging = {
  readonly size: ReturnType<typeof pageSize>;
  readonly total: Told | null;
} & (
  | {
      readonly kind: 'token';
      readonly param: Parameter;
      readonly token: Told;
      readonly more: AnswerValue | null;
    }
  /** `param`: the parameter of the address that is the token; null: the file declares none. */
  | { readonly kind: 'address'; readonly param: Parameter | null; readonly address: Told }
  | {
      readonly kind: 'page';
      readonly param: Parameter;
      readonly first: 0 | 1;
      readonly isFirstGuessed: boolean;
      readonly more: AnswerValue | null;
    }
  | { readonly kind: 'offset'; readonly param: Parameter }
  | { readonly kind: 'lastRecord'; readonly param: Parameter; readonly more: AnswerValue | null }
  /** `more`: the value that would contradict it, by saying that more follows. */
  | { readonly kind: 'single'; readonly more: AnswerValue | null }
);

/**
 * `open`: a text that tells a person what to write instead, where the paging is a guess; null: the file proves it. A
 * text says why the listing cannot be read.
 */
type PagingFound = { readonly paging: Paging; readonly open: string | null } | string;

const tokenParam =
  /^(?:(?:page|next|start|next page|continuation) )?(?:cursor|token|bookmark|marker|iterator)$|^(?:after|starting after|offset|start id)$/;
const pageParam = /^page(?: (?:number|no|num|index))?$/;
const offsetParam = /^(?:offset|start(?: at| row| index)?|skip)$/;

/** Infers how a listing pages, as far as the file proves it. */
export function inferPaging(operation: Operation, schemas: Schemas): PagingFound {
  const values = answerValues(operation, schemas);
  const size = pageSize(operation);
  const total = values.find(({ role }) => role === 'total') ?? null;
  const shared = { size, total };
  const found = (paging: Paging): PagingFound => ({ paging, open: null });
  const counted = byNumber(operation, values, shared);
  if (operation.onePage !== null) {
    const reason = oneLine(operation.onePage);
    const limit = counted?.param ?? size?.param;
    const isDoubtful = saysThatItPages.test(operation.onePage) || (limit !== undefined && total === null);
    if (isDoubtful) {
      const declared = limit === undefined ? '' : `, and declares ${limit.name}`;
      const why = `the file says that the listing has one page ("${reason}")${declared}`;
      return guessedSingle(values, shared, `${why}: does one answer hold everything?`);
    }
    return found({ ...shared, kind: 'single', more: signOf(values) });
  }
  const token = byToken(operation, values, shared);
  if (token !== null) return token;
  const address = values.find(({ role }) => role === 'address');
  const cursor = operation.params.filter((param) => isTokenParam(param));
  if (address !== undefined && cursor.length === 1 && counted === null) {
    const [param = null] = cursor;
    return found({ ...shared, kind: 'address', param, address });
  }
  if (counted !== null) return found(counted);
  const last = afterRecord(operation, values, shared);
  if (last !== null) return last;
  if (address !== undefined) return found({ ...shared, kind: 'address', param: null, address });
  return withoutEvidence(operation, values, shared);
}

/**
 * Finds the value of an answer that is present only if more pages follow. The last page has an `end_cursor` too, so
 * such values do not count.
 */
function signOf(values: readonly AnswerValue[]): AnswerValue | null {
  const byRole = (role: AnswerValue['role']): AnswerValue | undefined =>
    values.find((one) => one.role === role && !one.words.includes('end'));
  return byRole('flag') ?? byRole('address') ?? byRole('token') ?? null;
}

/** Phrases in the stated reason for one page which show that the listing has several. */
const saysThatItPages =
  /client[- ]side|driven (?:entirely )?by the caller|exhaustion|paginates? via|accepts? page|not modell?ed/i;

type Shared = Pick<Paging, 'size' | 'total'>;

/** Pairs a token in the answer with the parameter that takes it. */
function byToken(operation: Operation, values: readonly AnswerValue[], shared: Shared): PagingFound | null {
  const tokens = values.filter(({ role }) => role === 'token');
  const params = operation.params.filter((param) => isTokenParam(param));
  const pairs = params.flatMap((param) =>
    tokens.filter((token) => isPair(param.name, token)).map((token) => ({ param, token })),
  );
  const [pair] = pairs;
  if (pair === undefined) return null;
  const more = flagIn(values) ?? null;
  if (pairs.length > 1) {
    const names = pairs.map(({ param, token }) => `${param.name} from ${placeText(token)}`).join(', ');
    const why = `more than one parameter could take the next page's token (${names})`;
    return asGuess({ ...shared, kind: 'token', ...pair, more }, why);
  }
  const { param, token } = pair;
  if (/\bget ?start ?page ?token\b/i.test(param.description)) {
    return `its first page needs a ${param.name} that another request gives: "${oneLine(param.description, 120)}"`;
  }
  return { paging: { ...shared, kind: 'token', param, token, more }, open: null };
}

/** A time, a choice or a credential is no position in a listing, whatever its name. */
function isTokenParam({ name, type, place, schema, description }: Parameter): boolean {
  return (
    type === 'string' &&
    (place === 'query' || place === 'body') &&
    schema['format'] === undefined &&
    schema['enum'] === undefined &&
    !/\b(?:iso[- ]?8601|rfc ?3339|timestamp|date|(?:access|api|auth\w*|security) (?:token|key))\b/i.test(
      description,
    ) &&
    tokenParam.test(wordsOf(name).join(' '))
  );
}

/** `cursor` takes `next_cursor`, `after` takes `end_cursor`; a bookmark takes no offset. */
function isPair(param: string, { words }: AnswerValue): boolean {
  const kinds = ['cursor', 'token', 'bookmark', 'marker', 'iterator', 'after', 'offset', 'id'];
  const kindOf = (list: readonly string[]): string | undefined => {
    const kind = kinds.find((one) => list.includes(one));
    return kind === 'after' ? 'cursor' : kind;
  };
  return kindOf(wordsOf(param)) === kindOf(words);
}

/** Finds a number of pages or of records, counted by the caller. */
function byNumber(operation: Operation, values: readonly AnswerValue[], shared: Shared) {
  const integers = operation.params.filter(
    ({ type, place, description }) =>
      type === 'integer' &&
      (place === 'query' || place === 'body') &&
      !/\b(?:utc|time ?zone|ids? of|identifier)\b/i.test(description),
  );
  const named = (form: RegExp): Parameter | undefined => {
    const found = integers.filter(({ name }) => form.test(wordsOf(name).join(' ')));
    return found.length === 1 ? found[0] : undefined;
  };
  const page = named(pageParam);
  const { size } = shared;
  // A parameter named page, without other signs of paging, may be the number of a web page.
  if (page !== undefined && (size !== null || values.length > 0)) {
    const stated = [page.fallback, page.schema['minimum']].find((value) => value === 0 || value === 1);
    const address = values.find(({ role }) => role === 'address') ?? null;
    return {
      ...shared,
      kind: 'page',
      param: page,
      first: stated === 0 ? 0 : 1,
      isFirstGuessed: stated === undefined,
      more: flagIn(values) ?? address,
    } as const;
  }
  const offset = named(offsetParam);
  if (offset === undefined || size === null) return null;
  return { ...shared, kind: 'offset', param: offset } as const;
}

const afterParam = /^(?:starting )?after(?: id)?$|^(?:last|since|start|from|min) id$/;

/** The parameter takes a record's id, and a flag says whether there is more. */
function afterRecord(operation: Operation, values: readonly AnswerValue[], shared: Shared) {
  const params = operation.params.filter(({ name, type, schema }) => {
    const isValue = type === 'string' || type === 'integer';
    return (
      isValue && !/date|time/.test(textIn(schema, 'format') ?? '') && afterParam.test(wordsOf(name).join(' '))
    );
  });
  const isStarting = ({ name }: Parameter): boolean => wordsOf(name)[0] === 'starting';
  const param = params.find(isStarting) ?? params[0];
  const more = flagIn(values);
  if (param === undefined || more === undefined) return null;
  const { type, schema, description } = param;
  const isId = type === 'string' && schema['format'] === undefined && /\b(?:id|object)\b/i.test(description);
  const paging = { ...shared, kind: 'lastRecord', param, more } as const;
  if (isId && isStarting(param)) return { paging, open: null };
  const why = `${param.name} could take the last record's id, but the file does not say so, and ${placeText(more)} says whether more follows`;
  return asGuess(paging, why);
}

function withoutEvidence(operation: Operation, values: readonly AnswerValue[], shared: Shared): PagingFound {
  const token = values.find(({ role }) => role === 'token') ?? flagIn(values);
  if (token !== undefined) {
    return `page 1 only: its answers have ${placeText(token)}, and no parameter of the file asks for the next page`;
  }
  const hints = operation.params.filter((param) => isTokenParam(param)).map(({ name }) => name);
  const { size } = shared;
  const names = [...hints, ...(size === null ? [] : [size.param.name])];
  const declared = names.length === 0 ? '' : `, and ${names.join(', ')} is declared`;
  const why = `nothing says how it pages${declared}: does one answer hold everything?`;
  return guessedSingle(values, shared, why);
}

/** Takes one answer as everything, until a person says how the listing pages. */
function guessedSingle(values: readonly AnswerValue[], shared: Shared, open: string): PagingFound {
  return asGuess({ ...shared, kind: 'single', more: signOf(values) }, open);
}

function asGuess(paging: Paging, why: string): PagingFound {
  return { paging, open: `write how it pages (docs/definition-format.md, Pagination), or keep it: ${why}` };
}

export function placeText({ place }: Pick<Told, 'place'>): string {
  return place.header === undefined ? (place.path ?? '') : `header ${place.header}`;
}

const names = [
  'per page',
  'page size',
  'limit',
  'max results',
  'max results per page',
  'results per page',
  'page limit',
  'row limit',
  'size',
  'first',
  'count',
];

/**
 * The parameter for the size of a page, and the largest that may be requested; null: the file has none. `isGuessed`: it
 * states no maximum in a schema; `isUnknown`: it says nothing about it at all.
 */
function pageSize({ params }: Operation) {
  const found = params
    .filter(({ type, place }) => type === 'integer' && (place === 'query' || place === 'body'))
    .map((param) => ({ param, rank: names.indexOf(wordsOf(param.name).join(' ')) }))
    .filter(({ rank }) => rank >= 0)
    .toSorted((left, right) => left.rank - right.rank);
  const param = found[0]?.param;
  if (param === undefined) return null;
  const { maximum } = param.schema;
  const inText = /\bmax(?:imum)?(?:imum)?(?: of| is| value)?:? *(\d{1,6})\b/i.exec(param.description)?.[1];
  const [stated] = [maximum, Number(inText), param.fallback].filter((one) => Number.isFinite(one));
  const max = Math.min(10_000, Math.max(1, Math.trunc(Number(stated ?? 100))));
  return { param, max, isGuessed: typeof maximum !== 'number', isUnknown: stated === undefined };
}

/** A value of an answer outside its records, and its role. */
interface AnswerValue extends Told {
  /** `done`: a flag that is true on the last page. */
  readonly role: 'token' | 'flag' | 'done' | 'address' | 'total';
  /** Words of the last name on the path to it. */
  readonly words: readonly string[];
}

const roles: readonly (readonly [AnswerValue['role'], RegExp, readonly string[]])[] = [
  [
    'flag',
    /^(?:has )?(?:more|next)(?: (?:page|records|items|results|data available))?$|^has next page$/,
    ['boolean'],
  ],
  [
    'done',
    /^(?:is )?(?:done|last|finished|completed?|exhausted)(?: page)?$|^(?:is )?end(?: of (?:list|results|data))?$/,
    ['boolean'],
  ],
  [
    'token',
    /^(?:next |end )?(?:page )?(?:cursor|token|offset|bookmark|marker|iterator)$|^(?:next )?(?:after|starting after)$|^next id$/,
    ['string'],
  ],
  ['address', /^next(?: (?:page|link|url|uri|href|page ur[il]|records url))?$/, ['string']],
  [
    'total',
    /^total$|^(?:total|row) (?:count|items|records|results|number|entries|size|elements)$/,
    ['integer', 'number'],
  ],
];

/** The value that says whether a page is the last one. */
function flagIn(values: readonly AnswerValue[]): AnswerValue | undefined {
  return values.find(({ role }) => role === 'flag') ?? values.find(({ role }) => role === 'done');
}

/** Lists the values that the file copies to `connector_metadata`, then those of the rest of the answer. */
function answerValues(operation: Operation, schemas: Schemas): readonly AnswerValue[] {
  const copied = [...operation.metadata].flatMap(([key, place]): readonly (AnswerValue | null)[] => {
    if (place.header === 'Link') return [{ key, place, role: 'address', words: ['next'] }];
    if (place.path === undefined) return [valueOf(key, place, wordsOf(place.header ?? ''), 'string')];
    const path = place.path.split('.');
    const end = path.slice(path.at(-1) === 'href' || path.at(-1) === 'url' ? -2 : -1).join('_');
    const schema = schemas.at(operation.answer, path);
    const members = schema === null ? [] : [...schemas.properties(schema)];
    if (members.length > 0) {
      return members.map(([name, member]) =>
        valueOf(`${key}.${name}`, { path: `${place.path}.${name}` }, wordsOf(name), schemas.typeOf(member)),
      );
    }
    const type = schema === null ? 'any' : schemas.typeOf(schema);
    return [valueOf(key, place, wordsOf(end), type)];
  });
  const known = new Set([...operation.metadata.values()].map(({ path }) => path));
  const others = [...schemas.properties(operation.answer)].map(([name, schema]) =>
    known.has(name) ? null : valueOf(null, { path: name }, wordsOf(name), schemas.typeOf(schema)),
  );
  return [...copied, ...others].filter((value) => value !== null);
}

function valueOf(
  key: string | null,
  place: PlaceFile,
  words: readonly string[],
  type: string,
): AnswerValue | null {
  const name = words.join(' ');
  const found = roles.find(([, form, types]) => form.test(name) && (types.includes(type) || type === 'any'));
  return found === undefined ? null : { key, place, role: found[0], words };
}
