import { readdirSync, unlinkSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { Params } from '../../src/core/records.ts';
import { timeMs } from '../../src/core/clock.ts';
import type { FailureReport, RunReport } from '../../src/sinks/run-report.ts';
import { useHostedRuns } from '../support/hosted-runs.ts';
import type { HostileServer } from '../support/hostile-server.ts';
import { type HostileCall, type Reply, apiError, held, html, success } from '../support/hostile/replies.ts';
import { instantClock } from '../support/instant-clock.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { sampleSinks } from '../support/sample-sinks.ts';
import { chosenEntities, entityNamed, type SyncOnce } from '../support/sync-once.ts';

const mailing = builtInDefinition('email-marketing');
const hosted = useHostedRuns();

const page = (rows: readonly JsonObject[], call: HostileCall, cap = 1000): Reply => {
  const offset = Number(call.params['offset'] ?? 0);
  return success(rows.slice(offset, offset + cap), { links: [] });
};

const lists = (count: number): JsonObject[] =>
  Array.from({ length: count }, (_, index) => ({
    id: `list-${index}`,
    date_created: new Date(Date.UTC(2024, 0, 1) + index * 1000).toISOString(),
  }));

const campaigns = Array.from({ length: 30 }, (_, index) => ({
  id: `campaign-${index}`,
  status: 'sent',
  create_time: `2024-01-01T00:00:${index + 10}Z`,
}));

/** A service and a folder that several runs share; every run is one call of `run`. */
async function withService(
  respond: (call: HostileCall) => Reply,
  use: (
    run: (entities: readonly string[], more?: Partial<SyncOnce>) => Promise<RunReport>,
    server: HostileServer,
  ) => Promise<void>,
): Promise<void> {
  const { server, sync } = await hosted.open(mailing, respond);
  await use((entities, more) => sync(entities, { concurrency: 1, ...more }), server);
}

const stored = (entity: string): number => hosted.rows(mailing, entity).size;

describe('the run after a run that did not end well', () => {
  // Proves promise 8
  it('does not stay with a deleted partition: the one after it reads everything again', async () => {
    const known = lists(3);
    const stop = new AbortController();
    const clock = instantClock();
    const respond = (call: HostileCall): Reply => {
      if (call.entity === 'lists') return page(known, call);
      if (call.params['list_id'] !== 'list-2') return page([{ id: 'm' }], call);
      stop.abort(new Error('stopped'));
      return apiError(404, 'list not found');
    };
    await withService(respond, async (run) => {
      const chosen = ['lists', 'list_members'];
      expect((await run(chosen, { clock, signal: stop.signal })).outcome).toBe('interrupted');
      known.push(...lists(4).slice(3));
      const second = await run(chosen, { clock });
      expect({ outcome: second.outcome, isContinued: second.continues !== null }).toEqual({
        outcome: 'degraded',
        isContinued: true,
      });
      await run(chosen, { clock });
      expect(stored('lists')).toBe(4);
    });
  });

  // Proves promise 3
  it('starts from the beginning when children are to be read in another way', async () => {
    const stop = new AbortController();
    const asked = new Set<unknown>();
    const respond = (call: HostileCall): Reply => {
      if (call.entity === 'lists') return page(lists(3), call);
      asked.add(call.params['status']);
      stop.abort(new Error('stopped'));
      return page([{ id: 'm' }], call);
    };
    await withService(respond, async (run) => {
      const reading = (variants: readonly Params[]) => {
        const entities = new Map(chosenEntities(mailing, ['lists', 'list_members']));
        const { name } = entityNamed(mailing, 'list_members');
        entities.set(name, {
          variants,
          parents: [entityNamed(mailing, 'lists').name],
          fullEveryMs: 7 * 86_400_000,
          onSchemaChange: 'keepExtra',
        });
        return { entities };
      };
      await run([], { ...reading([{ status: 'subscribed' }]), signal: stop.signal });
      const second = await run([], reading([{ status: 'subscribed' }, { status: 'archived' }]));
      expect(second).toMatchObject({ outcome: 'ok', continues: null });
      expect([...asked]).toEqual(['subscribed', 'archived']);
    });
  });

  it('gets further in a listing that breaks off at the same number of pages each time', async () => {
    const members = Array.from({ length: 2000 }, (_, index): JsonObject => ({
      id: `m-${index}`,
      last_changed: new Date(Date.UTC(2024, 0, 1) + index * 1000).toISOString(),
    }));
    let left = 0;
    const respond = (call: HostileCall): Reply => {
      if (call.entity === 'lists') return page(lists(1), call);
      left -= 1;
      return left < 0 ? apiError(503, 'busy') : page(members, call, 100);
    };
    await withService(respond, async (run) => {
      for (let attempt = 0; attempt < 4; attempt += 1) {
        left = 8;
        await run(['lists', 'list_members']);
      }
      expect(stored('list_members')).toBe(2000);
    });
  });
});

describe('an entity that is down', () => {
  // Proves promise 8.1
  it('costs each listing one call and no wait where it answers in HTML, and is read by the next run', async () => {
    let isBroken = true;
    const clock = instantClock();
    const respond = (call: HostileCall): Reply => {
      if (call.entity === 'lists') return page(lists(13), call);
      if (call.entity === 'campaigns') return page(campaigns, call);
      return isBroken ? html(200) : page([{ id: 'm' }], call);
    };
    await withService(respond, async (run, server) => {
      const report = await run(['lists', 'list_members', 'campaigns'], { clock });
      const brokenCalls = server.calls.filter(({ entity }) => entity === 'list_members').length;
      expect([brokenCalls, clock.sleeps.length]).toEqual([13 + 5, 5]);
      expect(report).toMatchObject({ outcome: 'degraded', failures: { length: 13 } });
      expect(report.entities.find(({ entity }) => entity === 'list_members')).toMatchObject({ setAside: 13 });
      expect(stored('campaigns')).toBe(30);
      isBroken = false;
      expect(await run(['lists', 'list_members', 'campaigns'], { clock })).toMatchObject({ outcome: 'ok' });
      expect(stored('list_members')).toBe(13);
    });
  });

  // Proves promise 8
  it('does not take the others with it', async () => {
    let silentCalls = 0;
    let release = (): void => undefined;
    const midway = new Promise<void>((resolve) => (release = resolve));
    const respond = (call: HostileCall): Reply => {
      if (call.entity === 'campaigns') return page(campaigns, call);
      if (call.entity === 'lists') return page(lists(30), call);
      // One list answers while the silence is under way, however the walks happen to be ordered.
      if (call.entity === 'list_members') {
        const reply = page([{ id: 'm' }], call);
        return call.params['list_id'] === 'list-0' ? held(midway, reply) : reply;
      }
      silentCalls += 1;
      if (silentCalls === 60) release();
      return apiError(500, 'down');
    };
    await withService(respond, async (run) => {
      const report = await run(['campaigns', 'lists', 'list_members', 'unsubscribes'], { concurrency: 4 });
      expect(report.outcome).toBe('degraded');
      expect(report.entities.find(({ entity }) => entity === 'list_members')).toMatchObject({
        proofs: { single: 30 },
        setAside: 0,
      });
      expect(report.entities.find(({ entity }) => entity === 'unsubscribes')).toMatchObject({ setAside: 30 });
    });
  });
});

describe('JSONL files whose ledger is missing', () => {
  it('are kept under another ending', async () => {
    let rows: JsonObject[] = [{ id: 'a' }, { id: 'gone later' }];
    await withService(
      (call) => page(rows, call),
      async (run) => {
        const sink = sampleSinks.jsonl.options(hosted.folder());
        await run(['automations'], { sink });
        const lake = path.join(hosted.folder(), 'lake');
        for (const name of readdirSync(lake).filter((file) => file.startsWith('_ledger.db'))) {
          unlinkSync(path.join(lake, name));
        }
        rows = [];
        await run(['automations'], { sink });
        expect(readdirSync(path.join(lake, mailing.name, 'automations'))).toEqual([
          '000000000001.jsonl.unlisted',
        ]);
      },
    );
  });
});

const notes = builtInDefinition('workspace-notes');
const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

interface World {
  /** An edit of one page; its time is rounded down to the minute. */
  edit(block: string): void;
  /** Calls of a run some time after the last one, and the blocks that are stored then. */
  sync(laterMs: number): Promise<{ calls: Record<string, number>; blocks: number }>;
}

/** A notes service whose records are dated by a clock that is behind the one of its answers. */
async function withNotes(behindMs: number, work: (world: World) => Promise<void>): Promise<void> {
  const clock = instantClock(Date.parse('2026-03-01T12:00:10Z'));
  const blocks: string[] = [];
  let editedMs = 0;
  const pages = (): JsonObject[] => [
    pageOf('recent', editedMs),
    pageOf('old', Date.parse('2024-01-01T00:00:00Z')),
  ];
  const { server, sync } = await hosted.open(
    notes,
    ({ entity, params }) => {
      const last = { has_more: false, next_cursor: null };
      if (entity === 'blocks') {
        return success(params['block_id'] === 'recent' ? blocks.map(blockOf) : [], last);
      }
      const { sort } = params as { sort?: { direction?: string } };
      return success(sort?.direction === 'ascending' ? pages().toReversed() : pages(), last);
    },
    { dateMs: () => clock.now() },
  );
  await work({
    edit: (block) => {
      blocks.push(block);
      editedMs = Math.floor((clock.now() - behindMs) / minuteMs) * minuteMs;
    },
    sync: async (laterMs) => {
      clock.advance(laterMs);
      const before = server.calls.length;
      const report = await sync(['pages', 'blocks'], { clock });
      expect(report.outcome).toBe('ok');
      const calls: Record<string, number> = {};
      for (const { entity } of server.calls.slice(before)) calls[entity] = (calls[entity] ?? 0) + 1;
      return { calls, blocks: hosted.rows(notes, 'blocks').size };
    },
  });
}

function pageOf(id: string, editedMs: number): JsonObject {
  const created_time = '2024-01-01T00:00:00.000Z';
  const last_edited_time = new Date(editedMs).toISOString();
  return { object: 'page', id, created_time, last_edited_time, parent: { workspace: true }, properties: {} };
}

function blockOf(id: string): JsonObject {
  const created_time = '2024-01-01T00:00:00.000Z';
  const parent = { page_id: 'recent' };
  return { object: 'block', id, type: 'paragraph', created_time, has_children: false, parent };
}

describe("records whose clock is behind the service's Date", () => {
  // Proves promise 2
  it.each([
    ['an hour', hourMs],
    ['nearly a day', 23 * hourMs],
    ['not', 0],
  ])('shows a change in the minute of the last reading to the next run: %s', async (_name, behindMs) => {
    await withNotes(behindMs, async (world) => {
      world.edit('a');
      expect((await world.sync(5000)).blocks).toBe(1);
      // No time of the page tells this edit from the one before.
      world.edit('b');
      expect((await world.sync(10 * minuteMs)).blocks).toBe(2);
      world.edit('c');
      await world.sync(5000);
      world.edit('d');
      expect((await world.sync(10 * minuteMs)).blocks).toBe(4);
    });
  });

  // Proves promise 2
  it('reads the children of the newest record of a quiet account once more, and then no more', async () => {
    await withNotes(hourMs, async (world) => {
      world.edit('a');
      await world.sync(3 * hourMs);
      const calls = [];
      for (let run = 0; run < 12; run += 1) calls.push((await world.sync(hourMs)).calls);
      const [first, ...later] = calls;
      expect(first).toEqual({ pages: 1, blocks: 1 });
      expect(later).toEqual(later.map(() => ({ pages: 1 })));
    });
  });
});

/** A sync that takes longer is broken off: without a bound it would never end. */
const mostCalls = 3_000;

const member = (index: number): JsonObject => ({
  id: `member-${index}`,
  email_address: `someone${index}@example.test`,
  last_changed: new Date(Date.UTC(2024, 0, 1) + index * 1000).toISOString(),
});

type Sync = (isFull?: boolean) => Promise<{ report: RunReport; calls: number }>;

/** Two lists of 600 members; `last` stands behind the first one's members, other bytes in every answer. */
async function withMembers(last: (answer: number) => JsonObject, work: (sync: Sync) => Promise<void>) {
  const rows = Array.from({ length: 600 }, (_, index) => member(index));
  let isBent = false;
  let answers = 0;
  const respond = (call: HostileCall): Reply => {
    const start = Number(call.params['offset']);
    if (call.entity === 'lists') return success([{ id: 'bent' }, { id: 'good' }].slice(start), { links: [] });
    answers += 1;
    const shown = isBent && call.params['list_id'] === 'bent' ? [...rows, last(answers)] : rows;
    const sinceMs = timeMs(call.params['since_last_changed'] ?? null) ?? 0;
    const found = shown.filter((row) => (timeMs(row['last_changed'] ?? null) ?? 0) >= sinceMs);
    return success(found.slice(start, start + 200), { links: [] });
  };
  const { server, sync: run } = await hosted.open(mailing, respond);
  const sync: Sync = async (isFull = false) => {
    const before = server.calls.length;
    const report = await run(['lists', 'list_members'], { run: { isFull, maxCalls: mostCalls } });
    return { report, calls: server.calls.length - before };
  };
  expect(await sync()).toMatchObject({ report: { outcome: 'ok' } });
  isBent = true;
  await work(sync);
}

/** That a listing of few records has one in quarantine is another matter. */
function ofWalks({ failures }: RunReport): readonly FailureReport[] {
  return failures.filter(({ code }) => code !== 'QUARANTINE_LIMIT');
}

function isEndless({ entity, params, code, message }: FailureReport): boolean {
  expect({ entity, params, code, message }).toMatchObject({
    entity: 'list_members',
    params: { list_id: 'bent' },
    code: 'PAGING_BROKEN',
    message: expect.stringMatching(/^expected each page to lead .*what was read is kept/) as string,
  });
  return true;
}

const changedLast = { last_changed: '2025-01-01T00:00:00.000Z' };

describe('a listing whose last record differs in every answer', () => {
  // Proves promise 8.2
  it('is read to its end where only ignored fields of a refused record differ, in full and by its changes', async () => {
    const nameless = (answer: number): JsonObject => ({
      email_address: 'nameless@example.test',
      ...changedLast,
      _links: [{ rel: 'self', href: `https://example.test/?token=${answer}` }],
    });
    await withMembers(nameless, async (sync) => {
      for (const isFull of [false, true]) {
        const { report, calls } = await sync(isFull);
        expect({ isFull, failures: ofWalks(report) }).toEqual({ isFull, failures: [] });
        expect(calls).toBeLessThan(25);
      }
    });
  });

  // Proves promise 8.2
  it.each<[string, (answer: number) => JsonObject]>([
    ['another text without an id', (answer) => ({ full_name: `text ${answer}`, ...changedLast })],
    ['another content', (answer) => ({ id: 'last', full_name: `text ${answer}`, ...changedLast })],
  ])('ends as a failed walk beside the others, and what was read is kept: %s', async (_title, last) => {
    await withMembers(last, async (sync) => {
      // By its changes, the little that has changed may come in one page.
      const { report: ofChanges } = await sync();
      expect(ofWalks(ofChanges).every(isEndless)).toBe(true);
      const { report, calls } = await sync(true);
      expect({ outcome: report.outcome, failures: ofWalks(report).map(isEndless) }).toEqual({
        outcome: 'degraded',
        failures: [true],
      });
      expect(calls).toBeLessThan(mostCalls);
      expect(hosted.rows(mailing, 'list_members').size).toBeGreaterThanOrEqual(1_200);
    });
  });
});

describe('page caps', () => {
  interface World {
    /** Records that a page of members has at most, by the number of the call for members. */
    cap: (call: number) => number;
    /** Members of each list. */
    readonly sizes: readonly number[];
  }

  async function withLists(
    world: World,
    work: (sync: Sync) => Promise<void>,
    kind: keyof typeof sampleSinks = 'sqlite',
  ) {
    let calls = 0;
    const { sync } = await hosted.open(mailing, ({ entity, params }) => {
      const start = Number(params['offset']);
      if (entity === 'lists') {
        return success(world.sizes.map((_, index) => ({ id: `list-${index}` })).slice(start), { links: [] });
      }
      calls += 1;
      const listId = params['list_id'];
      const list = typeof listId === 'string' ? Number(listId.replace('list-', '')) : 0;
      const sinceMs = timeMs(params['since_last_changed'] ?? null) ?? 0;
      const rows = membersOf(world.sizes[list] ?? 0, sinceMs);
      return success(rows.slice(start, start + world.cap(calls)), { links: [] });
    });
    await work(async (isFull = false) => {
      calls = 0;
      const sink = sampleSinks[kind].options(hosted.folder());
      const report = await sync(['lists', 'list_members'], { sink, concurrency: 1, run: { isFull } });
      const { table } = entityNamed(mailing, 'list_members');
      return { report, calls, stored: sampleSinks[kind].rows(hosted.folder(), mailing.name, table).size };
    });
  }

  type Sync = (isFull?: boolean) => Promise<{ report: RunReport; calls: number; stored: number }>;

  function membersOf(size: number, sinceMs: number): readonly JsonObject[] {
    return Array.from({ length: size }, (_, index) => ({
      id: `member-${index}`,
      email_address: `someone${index}@example.test`,
      last_changed: new Date(Date.UTC(2025, 0, 1) + index * 60_000).toISOString(),
    })).filter((member) => Date.parse(member.last_changed) >= sinceMs);
  }

  function proofsOf({ entities }: RunReport): number {
    const proofs = entities.find(({ entity }) => entity === 'list_members')?.proofs;
    return Object.values(proofs ?? {}).reduce((sum, walks) => sum + walks, 0);
  }

  /**
   * One long list, many that are longer than the lower cap and shorter than half of the higher one, and another long
   * one.
   */
  const sizes = [300, ...Array.from({ length: 8 }, (_, index) => 41 + index), 220, 45, 12];
  const all = sizes.reduce((sum, size) => sum + size, 0);
  /**
   * The first long list takes seven calls, two of them behind its end, and each short one a call: the second long one
   * shows the lower cap behind its first page.
   */
  const falling = (call: number): number => (call <= 7 || call === 16 ? 100 : 40);
  /** The first long list shows it before any short one is read. */
  const fallingEarly = (call: number): number => (call <= 2 ? 100 : 40);

  describe('a page cap that falls during a run', () => {
    // Proves promise 3
    it.each([
      ['sqlite', 'after shorter ones were read', falling],
      ['jsonl', 'after shorter ones were read', falling],
      ['sqlite', 'before shorter ones are read', fallingEarly],
    ] as const)('misses no member where a longer list shows it: %s, %s', async (kind, _when, cap) => {
      await withLists(
        { sizes, cap },
        async (sync) => {
          const { report, stored } = await sync();
          expect({ outcome: report.outcome, stored, walks: proofsOf(report) }).toEqual({
            outcome: 'ok',
            stored: all,
            walks: sizes.length,
          });
        },
        kind,
      );
    });

    // Proves promise 3
    it('is found out by what is stored where no longer list shows it, and deletes nothing', async () => {
      const short = [300, 41, 42, 43, 44, 45];
      const world: World = { sizes: short, cap: () => 100 };
      await withLists(world, async (sync) => {
        const { stored } = await sync();
        world.cap = (call) => (call <= 7 ? 100 : 40);
        const { report, stored: after } = await sync(true);
        const members = report.entities.find(({ entity }) => entity === 'list_members');
        expect({ outcome: report.outcome, after, missing: members?.pending }).toEqual({
          outcome: 'ok',
          after: stored,
          missing: 0,
        });
        expect(members?.counts.unchanged).toBe(stored);
      });
    });
  });
});
