import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { timeMs } from '../../src/core/times.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import { success } from '../support/hostile/replies.ts';
import { useHostedRuns } from '../support/hosted-runs.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { sampleSinks } from '../support/sample-sinks.ts';
import { entityNamed } from '../support/sync-once.ts';

const mailing = builtInDefinition('email-marketing');
const hosted = useHostedRuns();

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
 * One long list, many that are longer than the lower cap and shorter than half of the higher one, and another long one.
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

  // Proves promise 3
  it('costs no call where the cap stays', async () => {
    await withLists({ sizes, cap: () => 100 }, async (sync) => {
      const first = await sync();
      const again = await sync(true);
      expect([first.calls, again.calls]).toEqual([7 + 8 + 6 + 2, 7 + 8 + 6 + 2]);
    });
  });
});
