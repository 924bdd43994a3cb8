import { describe, expect, it } from 'vitest';
import { sealOf, beginState, readState, type WalkState } from '../../src/engine/walk.ts';
import type { Doubt, Partition, Proof } from '../../src/sinks/partition.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { entityNamed } from '../support/sync-once.ts';

const mailing = builtInDefinition('email-marketing');
const notes = builtInDefinition('workspace-notes');
const capMs = Date.UTC(2026, 4, 1);
const walked: WalkState = { ...beginState(capMs), read: 9, high: capMs - 1000 };
const ordered: Proof = { kind: 'seam', isOrdered: true };

function seal(
  name: string,
  more: {
    proof?: Proof;
    doubt?: Doubt;
    state?: WalkState;
    mode?: Partition['mode'];
    isFiltered?: boolean;
    clockDifferences?: readonly number[];
  } = {},
) {
  const definition = mailing.entities.has(entityName(name)) ? mailing : notes;
  const partition: Partition = {
    id: 1,
    entity: entityName(name),
    params: name === 'interests' ? { list_id: 'l', interest_category_id: 'c' } : {},
    inject: {},
    rank: 0,
    treeDepth: null,
    tree: null,
    position: null,
    mode: more.mode ?? 'full',
    storedRows: 0,
    clockDifferences: more.clockDifferences ?? [],
    watermark: null,
  };
  return (isBackfill: boolean) =>
    sealOf(
      {
        entity: entityNamed(definition, name),
        partition,
        isBackfill,
        isFiltered: more.isFiltered ?? false,
      },
      more.state ?? walked,
      { proof: more.proof ?? ordered, ...(more.doubt === undefined ? {} : { doubt: more.doubt }) },
    );
}

function entityName(name: string): Partition['entity'] {
  return name as Partition['entity'];
}

describe('the end of a full walk', () => {
  const unordered: Proof = { kind: 'seam', isOrdered: false };
  const refused: WalkState = { ...walked, refused: 1 };

  it.each([
    ['lists', {}, 'nothing'],
    ['lists', { proof: unordered }, 'get'],
    ['lists', { state: refused }, 'get'],
    ['lists', { state: { ...walked, isSorted: false } }, 'get'],
    ['list_members', {}, 'get'],
    ['interests', { proof: unordered }, 'get'],
    ['segment_members', {}, 'nothing'],
    ['segment_members', { proof: unordered }, 'walk'],
    ['segment_members', { proof: unordered, state: refused }, null],
    ['automations', { state: refused }, null],
    ['lists', { isFiltered: true }, 'get'],
    ['list_members', { isFiltered: true }, 'get'],
    ['segment_members', { isFiltered: true }, null],
    ['unsubscribes', {}, null],
    ['users', { proof: { kind: 'token', isOrdered: true } as const }, 'get'],
    ['comments', { proof: { kind: 'token', isOrdered: true } as const }, 'nothing'],
    ['comments', { state: { ...walked, partial: 1 } }, 'nothing'],
    ['blocks', { proof: { kind: 'token', isOrdered: true } as const }, 'get'],
    ['blocks', { state: { ...walked, partial: 1 } }, null],
  ])('concludes of %s after %j that missing records are deleted if %j agrees', (name, more, absence) => {
    expect(seal(name, more)(false).absence).toBe(absence);
  });

  it('moves the watermark to the highest change value, if the walk is proven', () => {
    expect(seal('list_members')(false).watermark).toBe('2026-04-30T23:59:59.000Z');
    expect(seal('list_members', { proof: unordered })(false).watermark).toBeNull();
    expect(seal('list_members', { state: { ...walked, isSorted: false } })(false)).toMatchObject({
      proof: unordered,
      watermark: null,
    });
    expect(seal('lists')(false).watermark).toBeNull();
  });

  // Proves promise 7.1
  it('leaves the watermark where records came in part and could not be asked for', () => {
    expect(seal('list_members', { state: { ...walked, partial: 2 } })(false).watermark).not.toBeNull();
    const state = { ...walked, partial: 2, unanswered: 1 };
    expect(seal('list_members', { state })(false).watermark).toBeNull();
  });

  it('keeps the watermark before the walk began by as much as the clock of the records may be behind', () => {
    const state: WalkState = { ...walked, high: capMs, behind: 5000 };
    expect(seal('list_members', { state })(false)).toMatchObject({
      watermark: '2026-04-30T23:59:55.000Z',
      clockDifferences: [5000],
    });
    const known = seal('list_members', { state, clockDifferences: [9000, 2000] })(false);
    expect(known).toMatchObject({
      watermark: '2026-04-30T23:59:58.000Z',
      clockDifferences: [9000, 2000, 5000],
    });
  });

  it('is proven by pages that came in another order only where no row ever leaves', () => {
    const state = { ...walked, isSorted: false };
    expect(seal('unsubscribes', { state })(false).proof).toEqual(ordered);
    expect(seal('lists', { state })(false).proof).toEqual(unordered);
  });
});

describe('what a walk may not conclude', () => {
  it('is anything about absence from an incremental walk', () => {
    const incremental = { mode: 'incremental', proof: { kind: 'keyset', isOrdered: true } } as const;
    expect(seal('list_members', incremental)(false)).toMatchObject({
      absence: null,
      watermark: '2026-04-30T23:59:59.000Z',
    });
  });

  it('is anything at all from an end that is in doubt', () => {
    const doubt: Doubt = { kind: 'total', total: 37, shown: 7 };
    for (const name of ['lists', 'list_members', 'segment_members']) {
      expect(seal(name, { doubt })(false)).toEqual({
        doubt,
        proof: { kind: 'seam', isOrdered: false },
        watermark: null,
        absence: null,
      });
    }
  });

  it('is anything at all from a backfill', () => {
    expect(seal('list_members')(true)).toEqual({ proof: ordered, watermark: null, absence: null });
  });

  it('is read back from a stored position', () => {
    expect(readState({ kind: 'offset', ...walked })).toEqual(walked);
  });
});
