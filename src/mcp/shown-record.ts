import { fieldValue } from '../app/stored-fields.ts';
import { readJson } from '../core/json-text.ts';
import type { JsonValue } from '../core/json.ts';
import type { EntityTable } from '../core/records.ts';
import { usage } from '../core/usage-error.ts';
import { suggestName } from '../definitions/suggest-name.ts';
import type { StoredRecord } from '../sinks/record-reader.ts';
import { cutValue, jsonOf, mostAnswerChars } from './answer.ts';
import { columnsOf, type ShownEntity } from './shown-entities.ts';

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
