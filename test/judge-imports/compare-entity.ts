import { isJsonObject, type JsonObject, type JsonValue } from '../../src/core/json.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import { sqliteRows } from '../support/stored-rows.ts';
import { memberIn } from './imported.ts';
import type { MadeUpEntity } from './made-up-account.ts';
import { textOf } from './paging-kinds.ts';

export interface Difference {
  readonly lost: number;
  readonly superfluous: number;
  readonly example: string;
}

/**
 * What the service lists against what is stored, record by record and field by field; a record that is stored with
 * other contents is lost and superfluous. `moved`: keys of records that came, went or moved during the walk, which
 * prove nothing. `written`: the entity as the definition has it.
 */
export function compareEntity(
  database: string,
  entity: Entity,
  written: JsonObject,
  { scopes, listing }: MadeUpEntity,
  moved: ReadonlySet<string>,
): Difference | null {
  const parents = Array.isArray(written['parents']) ? written['parents'].filter(isJsonObject) : [];
  const injected = new Map(
    parents.flatMap((parent) =>
      Object.entries(memberIn(parent, 'inject')).map(([column, param]) => [column, textOf(param)] as const),
    ),
  );
  const sentBy = new Map(
    Object.entries(memberIn(written, 'rename')).map(([sent, column]) => [textOf(column), sent]),
  );
  const expected = new Map<string, number>();
  for (const { params, rows } of scopes.values()) {
    for (const { record } of rows) {
      if (moved.has(textOf(record[listing.key]))) continue;
      const above = [...injected].map(([column, param]) => [column, params[param] ?? null] as const);
      count(expected, whole(record, Object.fromEntries(above)), 1);
    }
  }
  for (const { columns, extra } of sqliteRows(database, 'mine', entity.table).values()) {
    const above = [...injected.keys()].map((column) => [column, textOrNull(columns[column])] as const);
    const own = Object.entries(columns)
      .filter(([column]) => !injected.has(column) && !(column === 'record_hash' && written['key'] === 'none'))
      .map(([column, value]) => [sentBy.get(column) ?? column, value] as const);
    const record = { ...Object.fromEntries(own), ...extra };
    if (moved.has(textOf(record[listing.key]))) continue;
    count(expected, whole(record, Object.fromEntries(above)), -1);
  }
  const off = [...expected].filter(([, times]) => times !== 0);
  const [first] = off;
  if (first === undefined) return null;
  const [lost, more] = [off.filter(([, times]) => times > 0), off.filter(([, times]) => times < 0)];
  return {
    lost: lost.length,
    superfluous: more.length,
    example: `${first[1] > 0 ? 'lost' : 'superfluous'} ${first[0].slice(0, 300)}`,
  };
}

function count(counts: Map<string, number>, text: string, change: 1 | -1): void {
  counts.set(text, (counts.get(text) ?? 0) + change);
}

/** Equal for equal contents; a column has no value for a field that is absent or null. */
function whole(record: JsonObject, above: JsonObject): string {
  const members = Object.entries(record).filter(([, value]) => value !== null);
  return JSON.stringify([sorted(Object.fromEntries(members)), sorted(above)]);
}

function sorted(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isJsonObject(value)) return typeof value === 'bigint' ? String(value) : value;
  const members = Object.entries(value).toSorted(([left], [right]) => (left < right ? -1 : 1));
  return Object.fromEntries(members.map(([name, one]) => [name, sorted(one)]));
}

function textOrNull(value: JsonValue | undefined): string | null {
  return value === undefined || value === null ? null : textOf(value);
}
