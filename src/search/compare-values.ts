import type { JsonValue } from '../core/json.ts';
import { comparable } from './instants.ts';
import type { Ordering, Scalar } from './search-request.ts';

/**
 * Of one type and worth the same; an object or an array equals nothing. Numbers are exact beyond what a double holds, and times
 * are equal that name the same instant.
 */
export function equals(value: JsonValue, other: Scalar): boolean {
  if (isNumber(value) && isNumber(other)) return compareNumbers(value, other) === 0;
  if (typeof value === 'string' && typeof other === 'string') return comparable(value) === comparable(other);
  return value === other;
}

/** False where the two are not of one type, or have no order. */
export function isOrdered(value: JsonValue, ordering: Ordering, other: Scalar): boolean {
  const difference = compareScalars(value, other);
  if (difference === null) return false;
  switch (ordering) {
    case 'gt':
      return difference > 0;
    case 'gte':
      return difference >= 0;
    case 'lt':
      return difference < 0;
    case 'lte':
      return difference <= 0;
  }
}

function compareScalars(left: JsonValue, right: Scalar): number | null {
  if (isNumber(left) && isNumber(right)) return compareNumbers(left, right);
  if (typeof left === 'string' && typeof right === 'string') {
    return compareTexts(comparable(left), comparable(right));
  }
  if (typeof left === 'boolean' && typeof right === 'boolean') return Number(left) - Number(right);
  return null;
}

function isNumber(value: JsonValue): value is number | bigint {
  return typeof value === 'number' || typeof value === 'bigint';
}

function compareNumbers(left: number | bigint, right: number | bigint): number {
  if (left < right) return -1;
  return left > right ? 1 : 0;
}

/** By code point, which is the order of UTF-8's bytes and so of SQLite's BINARY. `<` compares UTF-16. */
function compareTexts(left: string, right: string): number {
  const length = Math.min(left.length, right.length);
  for (let index = 0; index < length; index += 1) {
    const difference = rank(left.charCodeAt(index)) - rank(right.charCodeAt(index));
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

/** Surrogates stand for code points beyond all others. */
function rank(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x1_0000 : unit;
}
