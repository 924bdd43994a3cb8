import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { timeMs } from '../../src/core/times.ts';
import type { FailureReport, RunReport } from '../../src/sinks/run-report.ts';
import type { HostileCall, Reply } from '../support/hostile/exchange.ts';
import { success } from '../support/hostile/replies.ts';
import { useHostedRuns } from '../support/hosted-runs.ts';
import { builtInDefinition } from '../support/sample-service.ts';

const mailing = builtInDefinition('email-marketing');
const notes = builtInDefinition('workspace-notes');
/** A sync that takes longer is broken off: without a bound it would never end. */
const mostCalls = 3_000;
const hosted = useHostedRuns();

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

describe('a listing of page tokens that never ends', () => {
  it.each([
    ['the same blocks again, with other contents', (answer: number) => blocks(0, answer)],
    ['pages in turn', (answer: number) => blocks((answer % 5) * 40, answer)],
  ])('ends as a failed walk of its page, and other pages are read: %s', async (_title, page) => {
    let answers = 0;
    const { sync } = await hosted.open(notes, (call) => {
      const end = { has_more: false, next_cursor: null };
      if (call.entity === 'pages') {
        return success(
          ['bent', 'good'].map((id) => ({
            object: 'page',
            id,
            parent: { type: 'workspace', workspace: true },
            properties: {},
            created_time: '2026-01-01T00:00:00.000Z',
            last_edited_time: '2026-01-01T00:00:00.000Z',
          })),
          end,
        );
      }
      if (call.params['block_id'] !== 'bent') return success(blocks(1_000, 0), end);
      answers += 1;
      return success(page(answers), { has_more: true, next_cursor: `token-${answers}` });
    });
    const report = await sync(['pages', 'blocks'], { run: { maxCalls: mostCalls } });
    expect(report).toMatchObject({
      outcome: 'degraded',
      failures: [{ entity: 'blocks', params: { block_id: 'bent' }, code: 'PAGING_BROKEN' }],
    });
    expect([...hosted.rows(notes, 'blocks').keys()].filter((key) => /block-1\d{3}/.test(key))).toHaveLength(
      40,
    );
  });
});

function blocks(from: number, version: number): readonly JsonObject[] {
  return Array.from({ length: 40 }, (_, index) => ({
    object: 'block',
    id: `block-${from + index}`,
    type: 'paragraph',
    created_time: '2026-01-01T00:00:00.000Z',
    has_children: false,
    parent: { type: 'page_id', page_id: 'good' },
    paragraph: { text: `version ${version}` },
  }));
}
