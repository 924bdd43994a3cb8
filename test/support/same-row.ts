import { isJsonObject, type JsonValue } from '../../src/core/json.ts';
import type { Row } from './expected-rows.ts';

/** True when two rows say the same, whatever the order in which objects name their members. */
export function sameRow(left: Row, right: Row): boolean {
  return JSON.stringify(left) === JSON.stringify(right) || sortedJson(left) === sortedJson(right);
}

function sortedJson(row: Row): string {
  return JSON.stringify(row, (_, value: JsonValue) =>
    isJsonObject(value)
      ? Object.fromEntries(Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1)))
      : value,
  );
}
