import * as z from 'zod';
import { strictObject } from '../../definitions/schema-problems.ts';
import { explainIn, purgeNoteIn } from '../../app/explain-row.ts';
import { recordKey } from '../../app/record-key.ts';
import { usage } from '../../core/usage-error.ts';
import type { RecordReader } from '../../sinks/sink-access.ts';
import { explanationFacts } from '../../wording/explanation-facts.ts';
import { purgedText } from '../../wording/purged-text.ts';
import { aboutRecords, answer, cutValue, mostAnswerChars } from '../answer.ts';
import { stateFacts } from '../entity-states.ts';
import { openEntity } from '../read-sinks.ts';
import { shownWithin } from '../shown-record.ts';
import type { ShownEntity } from '../shown-entities.ts';
import { tool } from '../tool.ts';

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
    const explanation = reader === null ? null : await explainIn(reader, found.target, keyText);
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
