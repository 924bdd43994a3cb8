import type { Operation } from './operation.ts';
import type { Parameter } from './parameter.ts';
import { wordsOf } from './parts.ts';

/** The parameter for the size of a page. */
export interface Size {
  readonly param: Parameter;
  /** What may be asked for at most. */
  readonly max: number;
  /** Where `max` is from. */
  readonly evidence: 'maximum' | 'description' | 'default' | 'guessed';
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

/** Null where the file has no such parameter. */
export function pageSize({ params }: Operation): Size | null {
  const found = params
    .filter(({ type, place }) => type === 'integer' && (place === 'query' || place === 'body'))
    .map((param) => ({ param, rank: names.indexOf(wordsOf(param.name).join(' ')) }))
    .filter(({ rank }) => rank >= 0)
    .toSorted((left, right) => left.rank - right.rank);
  const param = found[0]?.param;
  if (param === undefined) return null;
  const { maximum } = param.schema;
  const inText = /\bmax(?:imum)?(?:imum)?(?: of| is| value)?:? *(\d{1,6})\b/i.exec(param.description)?.[1];
  const [evidence, stated] =
    typeof maximum === 'number'
      ? (['maximum', maximum] as const)
      : inText !== undefined
        ? (['description', Number(inText)] as const)
        : typeof param.fallback === 'number'
          ? (['default', param.fallback] as const)
          : (['guessed', 100] as const);
  return { param, max: Math.min(10_000, Math.max(1, Math.trunc(stated))), evidence };
}
