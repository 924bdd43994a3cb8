import type { EntityAnswers } from './answers.ts';
import { answerValues } from './answer-values.ts';
import type { Operation } from './operation.ts';
import { pageSize } from './page-size.ts';
import {
  answeredSingle,
  inferPaging,
  placeText,
  type Paging,
  type PagingFound,
  type Told,
} from './paging.ts';
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
    const names = operation.params.map((one) => one.name).join(', ') || 'none';
    return { kind: 'asked', why: `the answer names the parameter ${name}; the file declares ${names}` };
  }
  const values = answerValues(operation, schemas);
  const total = values.find(({ role }) => role === 'total') ?? null;
  const more = values.find(({ role }) => role === 'flag') ?? null;
  const shared = { size: pageSize(operation), total, evidence: `answered: by ${by}` };
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
        return { kind: 'asked', why: `the answer lacks from: where an answer has the ${by}` };
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

/** `from`: a dotted place in the answer, or `header Link`. */
function toldAt({ metadata }: Operation, from: string): Told {
  const header = /^header ([A-Za-z0-9-]+)$/.exec(from)?.[1];
  const place = header === undefined ? { path: from } : { header };
  const [key = null] =
    [...metadata].find(([, one]) => placeText({ place: one }) === placeText({ place })) ?? [];
  return { key, place };
}
