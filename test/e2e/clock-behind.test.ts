import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { success } from '../support/hostile/replies.ts';
import { instantClock } from '../support/instant-clock.ts';
import { useHostedRuns } from '../support/hosted-runs.ts';
import { builtInDefinition } from '../support/sample-service.ts';

const notes = builtInDefinition('workspace-notes');
const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const hosted = useHostedRuns();

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

  it('does not read the children once more where the account has been quiet for over a day', async () => {
    await withNotes(hourMs, async (world) => {
      world.edit('a');
      await world.sync(25 * hourMs);
      expect((await world.sync(minuteMs)).calls).toEqual({ pages: 1 });
    });
  });
});
