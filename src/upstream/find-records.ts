import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import type { AnswerPath } from '../definitions/upstream/answer-place.ts';
import type { JsonAnswer } from './ask-upstream.ts';
import { valueAt } from './read-json.ts';
import { UpstreamFailure } from './upstream-failure.ts';

const mostNamed = 8;
const longestName = 40;

/**
 * The records of a page. Throws `UpstreamFailure`: where there is no array at the path, its text says what is there
 * instead. `hasAnswered`: the path has led to records before, so that it is the answer that is wrong, and not the
 * definition.
 */
export function findRecords(
  answer: JsonAnswer,
  path: AnswerPath,
  hasAnswered: boolean,
): readonly JsonObject[] {
  const { status } = answer;
  const found = valueAt(answer.value, path);
  if (!Array.isArray(found)) {
    const reason = hasAnswered ? 'brokenBody' : 'noRecords';
    throw new UpstreamFailure('unavailable', withoutRecords(answer, path), { reason, status });
  }
  const records: JsonObject[] = [];
  for (const record of found as readonly JsonValue[]) {
    if (!isJsonObject(record)) {
      const why = `expected objects as records, got ${kindOf(record)}`;
      throw new UpstreamFailure('unavailable', why, { reason: 'brokenBody', status });
    }
    records.push(record);
  }
  return records;
}

/** Names what the answer has, as far down as the path leads. */
function withoutRecords({ value, redact }: JsonAnswer, path: AnswerPath): string {
  let deepest = 0;
  while (deepest < path.length && valueAt(value, path.slice(0, deepest + 1)) !== undefined) deepest += 1;
  const there = valueAt(value, path.slice(0, deepest)) ?? null;
  const where = deepest === 0 ? 'the answer' : path.slice(0, deepest).join('.');
  const expected =
    path.length === 0 ? 'the answer to be an array of records' : `an array of records at ${path.join('.')}`;
  const got = deepest === path.length ? '' : 'nothing there: ';
  return `expected ${expected}, got ${got}${where} is ${kindOf(there)}${isJsonObject(there) ? ` ${redact(membersOf(there))}` : ''}`;
}

/** Arrays first: the records may be in one of them. */
function membersOf(value: JsonObject): string {
  const members = Object.entries(value);
  const isList = ([, member]: readonly [string, JsonValue]): boolean => Array.isArray(member);
  const named = [...members.filter(isList), ...members.filter((member) => !isList(member))]
    .slice(0, mostNamed)
    .map(([name, member]) => `${JSON.stringify(cut(name))} (${kindOf(member)})`);
  const more = members.length > mostNamed ? ` and ${members.length - mostNamed} more` : '';
  return named.length === 0 ? 'without members' : `with ${named.join(', ')}${more}`;
}

function cut(name: string): string {
  return name.length > longestName ? `${name.slice(0, longestName)}…` : name;
}

function kindOf(value: JsonValue): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (isJsonObject(value)) return 'an object';
  if (typeof value === 'string') return 'a text';
  return typeof value === 'boolean' ? String(value) : 'a number';
}
