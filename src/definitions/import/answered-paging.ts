import type { EntityAnswers } from './answers.ts';
import { answerValues } from './answer-values.ts';
import { suggestName } from '../suggest-name.ts';
import type { ModeName } from './modes.ts';
import type { Operation } from './operation.ts';
import { declarable, type Parameter } from './parameter.ts';
import { oneLine } from './parts.ts';
import { pageSize } from './page-size.ts';
import { inferPaging, placeText, signOf, type Paging, type PagingFound, type Told } from './paging.ts';
import type { Schemas } from './schemas.ts';

/** How a listing pages by what a person says, or else by what the file proves. */
export function pagingOf(
  operation: Operation,
  schemas: Schemas,
  answered: EntityAnswers['paging'],
): PagingFound {
  if (answered === undefined) return inferPaging(operation, schemas);
  if (answered === 'single') return answeredSingle(operation, schemas);
  const { by, param: name, from } = answered;
  const param = operation.params.find((one) => one.name === name || one.sent === name);
  if (param === undefined) {
    const names = operation.params.map((one) => one.name);
    const known = oneLine(names.join(', ') || 'none', 200);
    const why = `the answer names the parameter ${name}; the file declares ${known}${suggestName(name, names)}`;
    return { kind: 'asked', why, isWrong: true };
  }
  const values = answerValues(operation, schemas);
  const total = values.find(({ role }) => role === 'total') ?? null;
  const more = values.find(({ role }) => role === 'flag') ?? null;
  const evidence = `answered: by ${by}${param.isAnswered === true ? `; the file has no parameter ${name}` : ''}`;
  const shared = { size: pageSize(operation), total, evidence };
  const found = (paging: Paging): PagingFound => ({ kind: 'found', paging });
  switch (by) {
    case 'page':
      return found({
        ...shared,
        kind: 'page',
        param,
        first: answered.first ?? 1,
        isFirstGuessed: false,
        more,
      });
    case 'offset':
      return found({ ...shared, kind: 'offset', param });
    case 'lastRecord':
      return found({ ...shared, kind: 'lastRecord', param, more });
    case 'token':
    case 'address': {
      if (from === undefined) {
        return { kind: 'asked', why: `the answer lacks from: where an answer has the ${by}`, isWrong: true };
      }
      const told = toldAt(operation, from);
      return found(
        by === 'token'
          ? { ...shared, kind: 'token', param, token: told, more }
          : { ...shared, kind: 'address', param, address: told },
      );
    }
  }
}

/**
 * One answer has everything, by the word of a person. Where the file proves how the listing pages, that is a mistake;
 * where it has only a sign of more, the sync watches for it.
 */
function answeredSingle(operation: Operation, schemas: Schemas): PagingFound {
  const proven = inferPaging(operation, schemas);
  if (proven.kind === 'found' && proven.paging.kind !== 'single') {
    const why = `the answer says single, and by the file it pages (${proven.paging.evidence})`;
    return {
      kind: 'asked',
      why: `${why}: leave the answer out, or say how it pages`,
      choices: [],
      isWrong: true,
    };
  }
  const values = answerValues(operation, schemas);
  const total = values.find(({ role }) => role === 'total') ?? null;
  const evidence = 'answered: one answer has everything';
  const paging: Paging = {
    kind: 'single',
    size: pageSize(operation),
    total,
    more: signOf(values),
    isAnswered: true,
    evidence,
  };
  return { kind: 'found', paging };
}

/**
 * With the parameter that a person says asks for the next page, where the file declares none. One that is called almost
 * like a declared one is a slip. An API sends what its file declares, and nothing else.
 */
export function withAnsweredParam(
  list: Operation,
  answered: EntityAnswers['paging'],
  mode: ModeName,
): Operation {
  if (answered === undefined || answered === 'single') return list;
  if (mode === 'hosted' || list.body.isGraphql) return list;
  const { by, param: name } = answered;
  const names = list.params.flatMap((one) => [one.name, one.sent]);
  if (names.includes(name) || declarable(name) !== name || suggestName(name, names) !== '') return list;
  const type = by === 'page' || by === 'offset' ? 'integer' : 'string';
  const param: Parameter = {
    name,
    sent: name,
    place: list.method === 'POST' ? 'body' : 'query',
    type,
    isRequired: false,
    schema: { type },
    description: '',
    fallback: undefined,
    at: null,
    list: 'repeat',
    isSpread: false,
    isFilled: false,
    isAnswered: true,
  };
  return { ...list, params: [...list.params, param] };
}

/** `from`: a dotted place in the answer, or `header Link`. */
function toldAt({ metadata }: Operation, from: string): Told {
  const header = /^header ([A-Za-z0-9-]+)$/.exec(from)?.[1];
  const place = header === undefined ? { path: from } : { header };
  const [key = null] =
    [...metadata].find(([, one]) => placeText({ place: one }) === placeText({ place })) ?? [];
  return { key, place };
}
