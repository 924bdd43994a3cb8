import type { MemberState } from './member-revisions.ts';

/** A list's members in some order: position (from 0) -> member index, without a table of them all. */
export interface MemberOrder {
  readonly size: number;
  indexAt(position: number): number;
}

export interface MemberOrders {
  /** As they joined: an edited member keeps its place. */
  readonly joined: () => MemberOrder;
  /** By last change: an edited member stands behind all that were not edited since. */
  readonly changed: () => MemberOrder;
  /** No member was touched: both orders are that of the indexes. */
  readonly areOne: boolean;
}

/** Worked out when first asked for, then kept: a page costs no more than the search for its place. */
export function memberOrders(memberCount: number, states: ReadonlyMap<number, MemberState>): MemberOrders {
  return {
    joined: once(() => {
      const original = [...states].filter(([index]) => index < memberCount);
      const gone = original.flatMap(([index, { isThere }]) => (isThere ? [] : [index]));
      const added = [...states].flatMap(([index, { isThere }]) =>
        index >= memberCount && isThere ? [index] : [],
      );
      return orderOf(memberCount, gone, Uint32Array.from(added).sort());
    }),
    changed: once(() => {
      const touched = [...states.keys()].filter((index) => index < memberCount);
      const last = [...states].filter(([, { isThere }]) => isThere);
      last.sort(([left, a], [right, b]) => a.changedAt - b.changedAt || left - right);
      return orderOf(
        memberCount,
        touched,
        Uint32Array.from(last, ([index]) => index),
      );
    }),
    areOne: states.size === 0,
  };
}

/** The indexes below `count` without those left out, ascending, and then the last ones. */
function orderOf(count: number, leftOut: readonly number[], last: Uint32Array): MemberOrder {
  const gaps = Uint32Array.from(leftOut).sort();
  const kept = count - gaps.length;
  return {
    size: kept + last.length,
    indexAt(position) {
      if (position >= kept) return last[position - kept] ?? count;
      // As many gaps lie before it as have no more than `position` kept indexes before them.
      let low = 0;
      let high = gaps.length;
      while (low < high) {
        const middle = Math.floor((low + high) / 2);
        if ((gaps[middle] ?? count) - middle <= position) low = middle + 1;
        else high = middle;
      }
      return position + low;
    },
  };
}

function once<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | null = null;
  return () => (made ??= { value: make() }).value;
}
