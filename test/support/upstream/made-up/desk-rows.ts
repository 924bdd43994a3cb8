import type { JsonObject } from '../../../../src/core/json.ts';
import { personAt, textOf } from '../../../../src/sample/sample-values.ts';

/** Kinds of records of the help desk, each listed in another way. */
export const deskEntities = [
  'agents',
  'tickets',
  'customers',
  'events',
  'articles',
  'invoices',
  'messages',
  'reviews',
  'parcels',
] as const;

export type DeskEntity = (typeof deskEntities)[number];

/** So many records of a kind, always the same. Ids grow. */
export function deskRows(entity: string, count: number): readonly JsonObject[] {
  return Array.from({ length: count }, (_, index) => {
    const { first, last, email } = personAt(entity.length, index);
    return {
      id: `${entity.slice(0, 2)}_${String(index + 1).padStart(5, '0')}`,
      title: `${first} ${last}`,
      email,
      state: index % 3 === 2 ? 'closed' : 'open',
      changed_at: new Date(Date.UTC(2026, 0, 1, 0, index)).toISOString(),
    };
  });
}

/** A place in a listing that rows which come and go elsewhere do not shift. */
export interface DeskCursors {
  /** Opaque text for the place before the row at this position. */
  at(rows: readonly JsonObject[], start: number): string;
  /** Null: the text was never given, or both rows beside the place are gone. */
  positionOf(rows: readonly JsonObject[], cursor: string): number | null;
  /**
   * The position after the row with this id; of a row that is gone, after where it was. Null: there was no such row.
   */
  positionAfter(rows: readonly JsonObject[], id: string): number | null;
}

export function openDeskCursors(): DeskCursors {
  const nextById = new Map<string, string | null>();
  const idAt = (rows: readonly JsonObject[], at: number): string | null => {
    const row = rows[at];
    return row === undefined ? null : textOf(row['id']);
  };
  const find = (rows: readonly JsonObject[], id: string | null): number =>
    id === null ? -1 : rows.findIndex((row) => row['id'] === id);

  const positionAfter = (rows: readonly JsonObject[], id: string): number | null => {
    const own = find(rows, id);
    if (own !== -1) return own + 1;
    const next = find(rows, nextById.get(id) ?? null);
    return next === -1 ? null : next;
  };

  return {
    at(rows, start) {
      const last = idAt(rows, start - 1);
      const next = idAt(rows, start);
      if (last !== null) nextById.set(last, next);
      return Buffer.from(JSON.stringify([last, next])).toString('base64url');
    },
    positionOf(rows, cursor) {
      const [last, next] = placeIn(cursor);
      if (last === null && next === null) return null;
      const after = last === null ? 0 : positionAfter(rows, last);
      if (after !== null) return after;
      const at = find(rows, next);
      return at === -1 ? null : at;
    },
    positionAfter,
  };
}

function placeIn(cursor: string): readonly [string | null, string | null] {
  try {
    const place = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as unknown;
    const [last, next] = Array.isArray(place) ? (place as unknown[]) : [];
    return [typeof last === 'string' ? last : null, typeof next === 'string' ? next : null];
  } catch {
    // Not a text that this service gave.
    return [null, null];
  }
}
