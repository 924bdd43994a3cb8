import * as z from 'zod';
import { strictObject } from '../../definitions/schema-problems.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import { pathOf, readSort } from '../../search/query-texts.ts';
import { aboutRecords, answer, cutValue, fitting, jsonOf } from '../answer.ts';
import { stateFacts, stateOf } from '../entity-states.ts';
import { tool } from '../tool.ts';
import { mostOfListedValue } from './changes.ts';
import { entityInput, fieldsInput } from './record-tools.ts';

export const search = tool({
  name: 'search',
  title: 'Find records',
  isSlow: true,
  description: `Stored records of an entity that a filter matches, without deleted ones. Filters are JSON: {"eq": {"status": "sent"}}, and also neq, gt, gte, lt, lte, in (a list), like (% is any text), keyword (a word of a text), fuzzy (a word with slips), contains, any (an element of a list meets a filter); joined by {"and": [..]}, {"or": [..]}, {"not": ..}. Example: {"and": [{"gte": {"send_time": "2026-01-01"}}, {"keyword": {"settings.subject_line": "summer"}}]}. It does not count or add up.`,
  input: strictObject({
    entity: entityInput,
    filter: z
      .record(z.string(), z.unknown())
      .optional()
      .describe('which records, such as {"eq": {"status": "sent"}}; left out: all'),
    sort: z
      .string()
      .max(1_000)
      .optional()
      .describe('fields with commas between, such as "send_time:desc,id"'),
    limit: z.int().min(1).max(100).optional().describe('how many records; 20 if left out'),
    fields: fieldsInput,
    cursor: z.string().max(10_000).optional().describe('to go on: from "next" of the answer before'),
  }),
  run: async ({ shown, searches }, given, signal) => {
    const { entity, filter, sort, limit = 20, fields, cursor } = given;
    const found = shown.named(entity);
    const query = {
      // `as`: it came as JSON.
      ...(filter === undefined ? {} : { filter: filter as JsonObject }),
      ...(sort === undefined ? {} : { sort: readSort(sort, 'sort') }),
    };
    const ask = async (most: number) =>
      await searches.search(
        found,
        {
          query,
          limit: most,
          ...(cursor === undefined ? {} : { cursor }),
          ...(fields === undefined
            ? {}
            : { fields: fields.map((name) => pathOf(found.target.entity, name)) }),
        },
        signal,
      );
    let page = await ask(limit);
    let records = page.data.map(shownFound);
    const fit = fitting(records, jsonOf);
    if (fit.length < records.length) {
      // Only the search knows the cursor behind the last record that fits.
      page = await ask(fit.length);
      records = page.data.map(shownFound);
    }
    const { has_more: hasMore, cursor: next } = page.meta;
    const { status = null, freshness = [] } = page.state ?? {};
    return answer(
      {
        entity,
        ...stateFacts(stateOf(found, status, freshness)),
        more: hasMore,
        ...(next === null ? {} : { next: { cursor: next } }),
        note: aboutRecords,
        records,
      },
      records.length,
    );
  },
});

function shownFound(record: JsonValue): JsonValue {
  if (!isJsonObject(record)) return record;
  const members = Object.create(null) as Record<string, JsonValue>;
  for (const [name, value] of Object.entries(record)) members[name] = cutValue(value, mostOfListedValue);
  return members;
}
