import * as z from 'zod';
import { explainIn, purgeNoteIn } from '../../app/explain-row.ts';
import { fieldValue, recordKey } from '../../app/stored-fields.ts';
import { readJson } from '../../core/json-text.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { EntityTable } from '../../core/records.ts';
import { usage } from '../../core/usage-error.ts';
import { strictObject } from '../../definitions/schema-problems.ts';
import { suggestName } from '../../definitions/suggest-name.ts';
import { checkSince } from '../../export/open-changes.ts';
import { aboutRecords, answer, cutValue, fitting, jsonOf, mostAnswerChars } from '../answer.ts';
import { stateFacts, stateOf } from '../entity-states.ts';
import { columnsOf, openEntity, type ShownEntity } from '../shown-entities.ts';
import { tool } from '../tool.ts';
import { pathOf, readSort } from '../../search/query-texts.ts';
import type { StoredRecord } from '../../sinks/record-reader.ts';
import type { RecordReader } from '../../sinks/sink-access.ts';
import { explanationFacts, purgedText } from '../../wording/connector-text.ts';

interface How {
  /** The only ones that are shown; empty: all. */
  readonly fields: readonly string[];
  /** Characters of a value. */
  readonly most: number;
  /** Where long values begin. */
  readonly from?: number;
}

/** Of a value among others, and of one where the record is too long otherwise. */
const shortMost = 200;

/** The fields of a stored record that agents may see, by name; of a deleted one the key. Throws USAGE. */
export function shownRecord(
  record: StoredRecord,
  stored: EntityTable,
  shown: ShownEntity,
  how: How,
): Readonly<Record<string, JsonValue>> {
  const { fields, most, from = 0 } = how;
  const columns = columnsOf(shown, stored);
  checkFields(fields, [...columns.map(({ name }) => name), ...(shown.only === null ? ['_extra'] : [])]);
  const isAsked = (name: string): boolean => fields.length === 0 || fields.includes(name);
  // A null prototype keeps a field called `__proto__` what it is: data.
  const members = Object.create(null) as Record<string, JsonValue>;
  for (const [index, { name, type }] of stored.columns.entries()) {
    if (!columns.some((column) => column.name === name)) continue;
    const isKey = stored.key.includes(name);
    if (record.isDeleted ? !isKey : !isAsked(name) && !isKey) continue;
    members[name] = cutValue(fieldValue(type, record.values[index] ?? null), most, isKey ? 0 : from);
  }
  if (record.extra !== null && !record.isDeleted && shown.only === null && isAsked('_extra')) {
    members['_extra'] = cutValue(readJson(record.extra), most, from);
  }
  return members;
}

/** The same within an answer: long values are cut further where all of them do not fit. */
export function shownWithin(...given: Parameters<typeof shownRecord>): ReturnType<typeof shownRecord> {
  const [record, stored, shown, how] = given;
  const whole = shownRecord(...given);
  return jsonOf(whole).length <= mostAnswerChars || how.fields.length === 1
    ? whole
    : shownRecord(record, stored, shown, { ...how, most: Math.min(how.most, shortMost) });
}

function checkFields(fields: readonly string[], known: readonly string[]): void {
  for (const name of fields) {
    if (known.includes(name)) continue;
    throw usage(
      `fields: there is no field "${name}"${suggestName(name, known) || '.'} list_entities names them.`,
    );
  }
}

/** Characters of a value of a record that is asked for whole. */
const mostOfValue = 4_000;

export const entityInput = z
  .string()
  .max(200)
  .describe('<connector>/<entity> as list_entities names it, such as "newsletter/campaigns"');

const keyInput = z
  .record(z.string(), z.union([z.string(), z.number(), z.boolean()]))
  .describe('the fields of the key and their values, such as {"id": "c1"}; list_entities names the key');

export const fieldsInput = z
  .array(z.string().max(200))
  .max(200)
  .optional()
  .describe('only these fields; left out: all');

export const getRecord = tool({
  name: 'get',
  title: 'One record',
  description:
    'One stored record by its key, with its fields. Long values are cut; with one name in "fields" and "from" the rest of it is read.',
  input: strictObject({
    entity: entityInput,
    key: keyInput,
    fields: fieldsInput,
    from: z.int().min(0).optional().describe('the character at which cut values begin; 0 if left out'),
  }),
  run: async ({ shown }, { entity, key, fields = [], from = 0 }) => {
    const found = shown.named(entity);
    const { connector } = found.target;
    const keyText = keyTextOf(found, key);
    await using opened = await openEntity(found);
    const { reader, stored, state } = opened;
    const record = stored === null ? null : ((await reader?.record(connector.name, stored, keyText)) ?? null);
    if (record === null || stored === null) {
      return answer({
        entity,
        ...stateFacts(state),
        found: false,
        note: await noteOfMissing(reader, found, keyText),
      });
    }
    const most = fields.length === 1 ? mostAnswerChars : mostOfValue;
    return answer(
      {
        entity,
        ...stateFacts(state),
        found: true,
        ...(record.isDeleted ? { deleted: true } : {}),
        changed_at: record.changedAt,
        note: aboutRecords,
        record: shownWithin(record, stored, found, { fields, most, from }),
      },
      1,
    );
  },
});

export const explainRecord = tool({
  name: 'explain',
  title: 'History of one record',
  description:
    'Why a record is as it is: when it was first and last stored, by which run, when its listing was read, and whether and why it counts as deleted.',
  input: strictObject({ entity: entityInput, key: keyInput }),
  run: async ({ shown, program }, { entity, key }) => {
    const found = shown.named(entity);
    const keyText = keyTextOf(found, key);
    await using opened = await openEntity(found);
    const { reader, state } = opened;
    const { explanation = null } = reader === null ? {} : await explainIn(reader, found.target, keyText);
    if (explanation === null) {
      return answer({
        entity,
        ...stateFacts(state),
        found: false,
        note: await noteOfMissing(reader, found, keyText),
      });
    }
    const { row } = explanation;
    // Versions name the fields that changed, also excluded ones.
    const shownRow = found.only === null ? row : { ...row, versions: [] };
    const facts = explanationFacts(found.target, { ...explanation, row: shownRow }, program);
    return answer(
      {
        entity,
        ...stateFacts(state),
        found: true,
        note: aboutRecords,
        history: facts.map(([what, text]) => cutValue(`${what}: ${text}`, mostOfFact)),
      },
      1,
    );
  },
});

const mostOfFact = 1_000;

/** Why there is no record with this key. */
async function noteOfMissing(
  reader: RecordReader | null,
  { target }: ShownEntity,
  keyText: string,
): Promise<string> {
  const purged = reader === null ? null : await purgeNoteIn(reader, target, keyText);
  if (purged !== null) return `It ${purgedText(purged)}`;
  return 'No record with this key is stored. Where "complete" is true, the service had none as of "as_of".';
}

/** As the ledger knows the record. Throws USAGE that names the key. */
function keyTextOf({ target }: ShownEntity, key: z.output<typeof keyInput>): string {
  const pairs = Object.entries(key).map(([name, value]) => [name, String(value)] as const);
  if (pairs.length === 0) throw usage(`key: expected the values of ${target.table.key.join(', ')}.`);
  return recordKey(target.table, pairs, { flag: 'key', each: 'a member of "key"' }).keyText;
}

/** Characters of a value in a list. */
export const mostOfListedValue = 500;

export const changes = tool({
  name: 'changes',
  title: 'What changed',
  description:
    'Records of an entity that were added, changed or deleted here since a number or a time, oldest change first, each once, as it is now. Go on with "since" from "next" of the answer.',
  input: strictObject({
    entity: entityInput,
    since: z
      .union([z.int().min(0), z.string().max(40)])
      .describe('a number from an answer before, 0 for everything, or a time such as "2026-11-01T00:00:00Z"'),
    limit: z.int().min(1).max(200).optional().describe('how many records; 20 if left out'),
    fields: fieldsInput,
  }),
  run: async ({ shown }, { entity, since, limit = 20, fields = [] }, signal) => {
    const found = shown.named(entity);
    const { name } = found.target.connector;
    await using opened = await openEntity(found);
    const { reader, stored, state } = opened;
    if (reader === null || stored === null) {
      return answer({
        entity,
        ...stateFacts(state),
        records: [],
        more: false,
        note: 'Nothing is stored yet.',
      });
    }
    const newestSeq = await reader.newestSeq(name);
    const after = await numberOf(since, { reader, stored, found, newestSeq });
    const completeAfter = await reader.history.completeAfter(name, stored.entity);
    // By a time only what is stored is asked for, not what follows on a state that a reader has.
    const asked = typeof since === 'number' || /^\d+$/.test(since) ? after : 0;
    checkSince({ newestSeq, completeAfter }, found.target, asked, 'since');
    const read = await firstOf(reader.changes(name, stored, after), limit + 1, signal);
    const rows = read.slice(0, limit).map((record) => ({
      seq: record.seq,
      changed_at: record.changedAt,
      ...(record.isDeleted ? { deleted: true } : {}),
      record: shownRecord(record, stored, found, { fields, most: mostOfListedValue }),
    }));
    const fit = fitting(rows, jsonOf);
    const hasMore = fit.length < read.length;
    return answer(
      {
        entity,
        ...stateFacts(state),
        more: hasMore,
        next: { since: hasMore ? (fit.at(-1)?.seq ?? after) : newestSeq },
        note: aboutRecords,
        records: fit,
      },
      fit.length,
    );
  },
});

interface Searched {
  readonly reader: RecordReader;
  readonly stored: EntityTable;
  readonly found: ShownEntity;
  readonly newestSeq: number;
}

/** The number behind which the changes come. */
async function numberOf(since: number | string, searched: Searched): Promise<number> {
  if (typeof since === 'number') return since;
  if (/^\d+$/.test(since)) return Number(since);
  const ms = /^\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d)?)?$/.test(since) ? Date.parse(since) : Number.NaN;
  if (Number.isNaN(ms)) {
    throw usage(`since: expected a number or a time such as "2026-11-01T00:00:00Z", got "${since}".`);
  }
  return await numberBefore(new Date(ms).toISOString(), searched);
}

/** Numbers and times grow together, so the place is found by halves: some fifty reads, however many rows there are. */
async function numberBefore(time: string, { reader, stored, found, newestSeq }: Searched): Promise<number> {
  let [low, high] = [0, newestSeq];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const [next] = await firstOf(reader.changes(found.target.connector.name, stored, middle), 1);
    if (next !== undefined && next.changedAt < time) low = next.seq;
    else high = middle;
  }
  return low;
}

async function firstOf(
  batches: AsyncIterable<readonly StoredRecord[]>,
  most: number,
  signal?: AbortSignal,
): Promise<readonly StoredRecord[]> {
  const records: StoredRecord[] = [];
  for await (const batch of batches) {
    signal?.throwIfAborted();
    records.push(...batch.slice(0, most - records.length));
    if (records.length >= most) break;
  }
  return records;
}

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
      await searches.search({
        target: found.target,
        only: found.searched,
        withState: true,
        params: {
          query,
          limit: most,
          ...(cursor === undefined ? {} : { cursor }),
          ...(fields === undefined
            ? {}
            : { fields: fields.map((name) => pathOf(found.target.entity, name)) }),
        },
        signal,
        ofType: () => 'get, explain and changes read it.',
        ofNothing: 'freshness says when it was read.',
      });
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
