import * as z from 'zod';
import { overviewSorts, overviewStates } from './read-overview-page.ts';
import type { RecordQuery } from './record-page.ts';
import { leastShown, mostShown } from './timeline.ts';

/** What does not exist in an address counts as not given; several of one name as the first. */
const one = (value: unknown): unknown => (Array.isArray(value) ? value[0] : value);
const text = z.preprocess(one, z.string().max(200).catch(''));

const filter = z.object({
  q: text,
  state: z.preprocess(one, z.enum(overviewStates).nullable().catch(null)),
});

export const overviewQuery = filter.extend({
  sort: z.preprocess(one, z.enum(overviewSorts).catch('health')),
  page: z.preprocess(one, z.coerce.number().int().min(1).max(1_000_000).catch(1)),
});

export const connectorQuery = z.object({
  shown: z.preprocess(one, z.coerce.number().int().min(leastShown).max(mostShown).catch(leastShown)),
});

export const actQuery = filter.extend({ connector: text, run: text, target: text });

export const nameParam = z.object({ name: z.string().max(200) });

const recordQuery = z.record(z.string(), z.preprocess(one, z.string().max(1_000).catch('')));

/** `in=<connector>/<entity>&key.<name>=<value>`. */
export function readRecordQuery(query: unknown): RecordQuery {
  const given = Object.entries(recordQuery.parse(query));
  const key = given.flatMap(([name, value]) =>
    name.startsWith('key.') ? [[name.slice('key.'.length), value] as const] : [],
  );
  return { in: given.find(([name]) => name === 'in')?.[1].trim() ?? '', key: new Map(key) };
}
