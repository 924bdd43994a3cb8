import { compareTexts } from '../match-condition.ts';
import type { OrderRule, Position } from '../order-rule.ts';
import type { Bound } from '../sql-piece.ts';

/** Of the texts and bytes that rows are sorted by; more than that and fewer rows are kept. */
const mostChars = 16 * 1024 * 1024;

/** Keeps the first rows of an order among those that are given, at most so many; memory is bounded. */
export function bestRows(rule: OrderRule, most: number) {
  const compare = positionOrder(rule);
  const kept: Position[] = [];
  let chars = 0;
  let room = most;
  let wereDropped = false;
  return {
    compare,
    /** In their order. */
    rows: (): readonly Position[] => kept,
    /** The last row that is kept, where another one must come before it to be kept; else null. */
    worst: (): Position | null => (kept.length < room ? null : (kept.at(-1) ?? null)),
    /** Fewer rows are kept than were asked for, because what they are sorted by is long. */
    areCut: (): boolean => room < most && wereDropped,
    add: (position: Position): void => {
      let [from, to] = [0, kept.length];
      while (from < to) {
        const middle = (from + to) >> 1;
        const other = kept[middle];
        if (other !== undefined && compare(other, position) < 0) from = middle + 1;
        else to = middle;
      }
      kept.splice(from, 0, position);
      chars += charsOf(position);
      if (chars > mostChars) room = Math.max(1, Math.min(room, kept.length - 1));
      while (kept.length > room) {
        const dropped = kept.pop();
        wereDropped = true;
        if (dropped !== undefined) chars -= charsOf(dropped);
      }
    },
  };
}

function positionOrder({ keys, rows }: OrderRule): (left: Position, right: Position) => number {
  const signs = keys.map(({ direction }) => (direction === 'asc' ? 1 : -1));
  const rowSign = rows === 'asc' ? 1 : -1;
  return (left, right) => {
    for (const [index, sign] of signs.entries()) {
      const difference = compareKeys(left.values[index] ?? null, right.values[index] ?? null);
      if (difference !== 0) return difference * sign;
    }
    return (left.row - right.row) * rowSign;
  };
}

/** A key is of one kind in all rows. */
function compareKeys(left: Bound, right: Bound): number {
  if (left === null || right === null) return Number(right === null) - Number(left === null);
  if (typeof left === 'string' && typeof right === 'string') return compareTexts(left, right);
  if (Buffer.isBuffer(left) && Buffer.isBuffer(right)) return Buffer.compare(left, right);
  return left < right ? -1 : Number(left > right);
}

function charsOf({ values }: Position): number {
  let chars = 0;
  for (const value of values) {
    if (typeof value === 'string' || Buffer.isBuffer(value)) chars += value.length;
  }
  return chars;
}
