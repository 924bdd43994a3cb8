import { describe, expect, it } from 'vitest';
import { SyncError } from '../../src/core/errors.ts';
import type { EntityName, RunId } from '../../src/core/names.ts';
import {
  type GroupCommits,
  walkContext,
  walkPartition,
  type WalkContext,
  type WalkEnd,
} from '../../src/engine/walk.ts';
import type { RunEvent } from '../../src/core/events.ts';
import { runTally } from '../../src/engine/run-tally.ts';
import type { Partition } from '../../src/sinks/partition.ts';
import type { PageCommit } from '../../src/sinks/sink.ts';
import { type ListRequest, type SourcePage, readRecords } from '../../src/source/source.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { chosenEntities, entityNamed } from '../support/sync-once.ts';

const mailing = builtInDefinition('email-marketing');
const members = entityNamed(mailing, 'list_members');
const capMs = Date.UTC(2026, 4, 1);

/** Walks the members of one list, and gives what was asked for and stored beside the end. */
async function walkMembers(
  list: (request: ListRequest) => SourcePage,
  more: { readonly partition?: Partial<Partition>; readonly context?: Partial<WalkContext> } = {},
): Promise<{ end: WalkEnd; asked: ListRequest[]; stored: PageCommit[]; dropped: number }> {
  const asked: ListRequest[] = [];
  const stored: PageCommit[] = [];
  let dropped = 0;
  const commits: GroupCommits = {
    submit: (page) => {
      stored.push(page);
      return Promise.resolve({ counts: [], newlyDue: 0 });
    },
    waitFor: (waiting) => waiting,
    walkOpened: () => undefined,
    walkClosed: () => undefined,
  };
  const run = {
    id: 'r' as RunId,
    source: {
      connect: () => Promise.resolve(),
      list: async (request: ListRequest) => {
        asked.push(request);
        return await Promise.resolve(list(request));
      },
      get: () => Promise.resolve(null),
      stats: () => ({ calls: 0, retries: 0, waitedMs: 0, bytes: 0, serverTime: null }),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    },
    tally: runTally([members.name]),
    capMs,
    clock: { now: () => capMs, sleep: () => Promise.resolve() },
    onEvent: ({ kind }: RunEvent) => {
      if (kind === 'page-dropped') dropped += 1;
    },
    signal: new AbortController().signal,
    definition: mailing,
    entities: chosenEntities(mailing, ['list_members']),
    policies: new Map(),
    concurrency: 1,
    asked: { window: null },
  };
  const context: WalkContext = {
    ...walkContext(run, members, { commits, inFlight: { bytes: 0, maxBytes: 1e6 } }),
    ...more.context,
  };
  const end = await walkPartition(context, {
    id: 1,
    entity: 'list_members' as EntityName,
    params: { list_id: 'a1' },
    inject: { list_id: 'a1' },
    rank: 1,
    treeDepth: null,
    tree: null,
    position: null,
    mode: 'incremental',
    storedRows: 0,
    clockDifferences: [],
    watermark: '2026-04-01T00:00:30.500Z',
    ...more.partition,
  });
  return { end, asked, stored, dropped };
}

function page(...records: readonly { readonly id: string; readonly last_changed: string }[]): SourcePage {
  return { records: readRecords(records), next: null, serverTime: null, bytes: 100 };
}

const sortedByChange = { sort_field: 'last_changed', sort_dir: 'ASC' };

describe('a service that is too slow for large pages', () => {
  const failed = (code: 'TIMEOUT' | 'BODY_TOO_LARGE'): never => {
    throw new SyncError('a smaller page', { code, recovery: 'smaller-page' });
  };
  const full = { mode: 'full', watermark: null } as const;

  it('is asked for smaller ones in the other listings of the entity, which do not learn it by themselves', async () => {
    const slowPages = { halvings: 0 };
    let refused = 0;
    for (let listing = 0; listing < 18; listing += 1) {
      const { end } = await walkMembers(
        ({ params }) => (Number(params['count']) > 250 ? ((refused += 1), failed('TIMEOUT')) : page()),
        { partition: full, context: { slowPages } },
      );
      expect(end.kind).toBe('sealed');
    }
    expect(refused).toBe(2);
  });

  it('is asked at once for what others found out where a walk had begun with larger pages', async () => {
    const slowPages = { halvings: 0 };
    const { asked } = await walkMembers(
      ({ params }) => {
        slowPages.halvings = 3;
        return Number(params['count']) > 125 ? failed('TIMEOUT') : page();
      },
      { partition: full, context: { slowPages } },
    );
    expect(asked.map(({ params }) => params['count'])).toEqual([1000, 125]);
  });

  it('is asked for whole pages again where one was too large, which may be a single record', async () => {
    const slowPages = { halvings: 0 };
    const { asked } = await walkMembers(
      ({ params }) => (Number(params['count']) > 500 ? failed('BODY_TOO_LARGE') : page()),
      { partition: full, context: { slowPages } },
    );
    expect(asked.map(({ params }) => params['count'])).toEqual([1000, 500]);
    expect(slowPages.halvings).toBe(0);
  });

  it('ends a walk whose pages cannot be made smaller', async () => {
    const { end } = await walkMembers(() => failed('TIMEOUT'), { partition: full });
    expect(end).toMatchObject({ kind: 'set-aside', failure: { code: 'TIMEOUT' } });
  });
});

describe('a service that refuses the pages behind what seems to be the end', () => {
  const shown = (count: number, from = 0): SourcePage =>
    page(
      ...Array.from({ length: count }, (_, index) => ({
        id: `m${from + index}`,
        last_changed: '2026-04-02T00:00:00+00:00',
      })),
    );
  /** Four records, then refusals: of the pages behind, or of everything. */
  const refusing = async (status: number, isDown: boolean) =>
    await walkMembers(
      ({ params }) => {
        const offset = Number(params['offset']);
        isRefusing ||= offset > 3;
        if (offset < 4 && !(isDown && isRefusing)) return shown(4 - offset, offset);
        const code = status === 500 ? 'UPSTREAM' : 'REQUEST_REFUSED';
        throw new SyncError('refused', { code, recovery: 'retry', context: { status } });
      },
      { partition: { mode: 'full', watermark: null, storedRows: 20 } },
    );
  let isRefusing = false;

  it.each([500, 404])('has an end there where it still shows its first page (%i)', async (status) => {
    isRefusing = false;
    const { end } = await refusing(status, false);
    expect(end.kind).toBe('sealed');
  });

  it.each([500, 404])('has none where it refuses everything (%i)', async (status) => {
    isRefusing = false;
    const { end, stored } = await refusing(status, true);
    expect(end.kind).toBe('set-aside');
    expect(stored.every(({ seal }) => seal === null)).toBe(true);
  });
});

describe('a listing whose records move faster than pages can follow', () => {
  it('is begun again three times, and then set aside', async () => {
    let records = 0;
    const next = () => ({ id: `m${(records += 1)}`, last_changed: '2026-04-02T00:00:00+00:00' });
    const { end, asked } = await walkMembers(() => page(...Array.from({ length: 1000 }, next)), {
      partition: { mode: 'full', watermark: null },
    });
    expect(end).toMatchObject({
      kind: 'set-aside',
      failure: { code: 'SEAM_LOST', message: expect.stringContaining('begun again 3 times') },
    });
    expect(asked.filter(({ params }) => params['offset'] === 0)).toHaveLength(4);
  });
});

describe('a walk that reads only what changed', () => {
  it('asks from its watermark on, less the lookback, and stores where it stands', async () => {
    const { end, asked, stored } = await walkMembers(({ params }) =>
      params['offset'] === 0 ? page({ id: 'm1', last_changed: '2026-04-02T00:00:00+00:00' }) : page(),
    );
    expect(asked[0]?.params).toEqual({
      ...sortedByChange,
      list_id: 'a1',
      count: 1000,
      offset: 0,
      since_last_changed: '2026-03-31T23:59:30+00:00',
    });
    expect(end).toMatchObject({ kind: 'sealed', seal: { proof: { kind: 'keyset', isOrdered: true } } });
    expect(stored.at(-1)?.seal).toEqual({
      proof: { kind: 'keyset', isOrdered: true },
      watermark: '2026-04-02T00:00:00.000Z',
      absence: null,
      clockDifferences: [24 * 60 * 60 * 1000],
    });
    expect(stored[0]?.position).toMatchObject({ read: 1, cap: capMs, refused: 0 });
  });

  it('is read in full by the next run where the service refuses to be asked so', async () => {
    const refuse = (): never => {
      throw new SyncError('no such filter', { code: 'REQUEST_REFUSED', recovery: 'skip-partition' });
    };
    expect((await walkMembers(refuse)).end).toMatchObject({
      kind: 'set-aside',
      failure: { code: 'REQUEST_REFUSED', dropWatermark: true, dropPosition: true },
    });
    expect((await walkMembers(refuse, { partition: { mode: 'full' } })).end).toMatchObject({
      kind: 'set-aside',
      failure: { dropWatermark: false, dropPosition: false },
    });
  });

  it('does not ask for what changed in a full walk', async () => {
    const { asked, stored } = await walkMembers(() => page(), { partition: { mode: 'full' } });
    expect(asked[0]?.params).toEqual({ ...sortedByChange, list_id: 'a1', count: 1000, offset: 0 });
    expect(stored.at(-1)?.seal).toEqual({
      proof: { kind: 'single', isOrdered: true },
      watermark: null,
      absence: 'get',
      reach: 0,
    });
  });
});

describe('a page that must not be stored', () => {
  it('is dropped, and sets its walk aside', async () => {
    const changed = new SyncError('list_members has a new field', {
      code: 'SCHEMA_CHANGED',
      recovery: 'skip-entity',
    });
    const { end, stored, dropped } = await walkMembers(
      () => page({ id: 'm1', last_changed: '2026-04-02T00:00:00+00:00' }),
      {
        context: {
          preparePage: () => {
            throw changed;
          },
        },
      },
    );
    expect(end).toMatchObject({
      kind: 'set-aside',
      failure: { code: 'SCHEMA_CHANGED', recovery: 'skip-entity', dropPosition: false },
    });
    expect({ stored, dropped }).toEqual({ stored: [], dropped: 1 });
  });
});
