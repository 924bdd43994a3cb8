import * as z from 'zod';
import { strictObject } from '../../definitions/schema-problems.ts';
import type { EntityTable } from '../../core/records.ts';
import { usage } from '../../core/usage-error.ts';
import { checkSince } from '../../export/open-changes.ts';
import type { StoredRecord } from '../../sinks/record-reader.ts';
import type { RecordReader } from '../../sinks/sink-access.ts';
import { aboutRecords, answer, fitting, jsonOf } from '../answer.ts';
import { stateFacts } from '../entity-states.ts';
import { openEntity } from '../read-sinks.ts';
import { shownRecord } from '../shown-record.ts';
import type { ShownEntity } from '../shown-entities.ts';
import { tool } from '../tool.ts';
import { entityInput, fieldsInput } from './record-tools.ts';

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
