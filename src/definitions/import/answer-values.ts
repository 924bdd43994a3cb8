import type { PlaceFile } from '../upstream/upstream-file.ts';
import type { Operation } from './operation.ts';
import { wordsOf } from './parts.ts';
import type { Schemas } from './schemas.ts';

/** A value of an answer beside its records, and what it is for. */
export interface AnswerValue {
  /** Key of `connector_metadata`, dotted where an object holds it; null: the file copies it to no key. */
  readonly key: string | null;
  readonly place: PlaceFile;
  readonly role: 'token' | 'flag' | 'address' | 'total';
  /** Of the last name on the way to it. */
  readonly words: readonly string[];
}

const roles: readonly (readonly [AnswerValue['role'], RegExp, readonly string[]])[] = [
  [
    'flag',
    /^(?:has )?(?:more|next)(?: (?:page|records|items|results|data available))?$|^has next page$/,
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
    /^(?:total|row)(?: (?:count|items|records|results|number|entries|size|elements))?$/,
    ['integer', 'number'],
  ],
];

/** What the file copies to `connector_metadata` comes first, then the rest of the answer. */
export function answerValues(operation: Operation, schemas: Schemas): readonly AnswerValue[] {
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
  if (found === undefined || (found[0] === 'total' && words.length === 1 && words[0] === 'row')) return null;
  return { key, place, role: found[0], words };
}
