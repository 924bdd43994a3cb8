import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import * as broken from '../support/hostile/broken-replies.ts';
import type { HostileCall, Reply } from '../support/hostile/exchange.ts';
import { pagedRows, type TokenBend } from '../support/hostile/paged-rows.ts';
import {
  apiError,
  gzipBomb,
  gzipped,
  html,
  json,
  redirect,
  success,
  successText,
  text,
  throttled,
} from '../support/hostile/replies.ts';
import { useHostedRuns } from '../support/hosted-runs.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { repeats, startSeed } from '../support/trials.ts';

const mailing = builtInDefinition('email-marketing');
const notes = builtInDefinition('workspace-notes');
const hosted = useHostedRuns();

/** Limits that let a stall be noticed within the test. */
const limits = {
  headersTimeoutMs: 400,
  bodyTimeoutMs: 400,
  attemptTimeoutMs: 1500,
  maxBodyBytes: 2_000_000,
};

const members = Array.from({ length: 450 }, (_, index): JsonObject => ({
  id: `member-${index}`,
  email_address: `someone${index}@example.test`,
  last_changed: new Date(Date.UTC(2024, 0, 1) + index * 1000).toISOString(),
  list_id: 'list-1',
}));

/** Syncs one list and its members from a service that answers member calls with `answer`. */
async function syncMembers(
  answer: (call: HostileCall, memberCall: number) => Reply,
  expireAt?: number,
): Promise<{ report: RunReport; stored: ReadonlySet<string>; calls: number }> {
  let memberCalls = 0;
  const { server, sync } = await hosted.open(mailing, (call) => {
    if (call.entity === 'lists') {
      return call.params['offset'] === 0 ? success([{ id: 'list-1' }], { links: [] }) : success([]);
    }
    memberCalls += 1;
    if (memberCalls === expireAt) server.expireTokens();
    return answer(call, memberCalls);
  });
  const report = await sync(['lists', 'list_members'], { limits });
  const rows = hosted.rows(mailing, 'list_members');
  return {
    report,
    stored: new Set([...rows.values()].map(({ columns }) => idOf(columns))),
    calls: server.calls.length,
  };
}

const passing: Record<string, Reply> = {
  '429 with seconds': throttled({ seconds: 2 }),
  '429 with a date': throttled({ dateIn: 5 }),
  '429 without Retry-After': throttled(null),
  529: throttled(null, 529),
  '403 as HTML': html(403),
  408: apiError(408, 'timeout'),
  409: apiError(409, 'conflict'),
  425: apiError(425, 'too early'),
  500: apiError(500, 'unexpected'),
  502: html(502),
  503: apiError(503, 'unavailable'),
  504: apiError(504, 'gateway timeout'),
  '200 as HTML': html(200),
  'bad JSON': text(200, '{"status":"success","result":[', { 'content-type': 'application/json' }),
  'invalid UTF-8': text(200, Buffer.from([0x7b, 0xff, 0xfe]), { 'content-type': 'application/json' }),
  'another status': json(200, { status: 'error', result: [], execution_metadata: {} }),
  'a result of the wrong kind': json(200, { status: 'success', result: 'none' }),
  'no result': json(200, { status: 'success' }),
  'another connector': json(200, {
    status: 'success',
    result: [],
    execution_metadata: { connector_instance_id: 'source_id:other', execution_time_ms: 1 },
  }),
  'reset before the headers': broken.resetBeforeHeaders,
  'reset after the headers': broken.resetAfterHeaders,
  'closed before the headers': broken.closeBeforeHeaders,
  'cut by length': broken.cutByLength,
  'cut in chunks': broken.cutInChunks,
  'cut by close': broken.cutByClose,
  'a stall before the headers': broken.stallBeforeHeaders,
  'a stall in the body': broken.stallInBody,
  'huge headers': broken.hugeHeaders(40_000),
  'not HTTP at all': broken.garbage,
  'a gzip bomb': gzipBomb(50_000_000),
};

describe('a sync from a service that fails once', () => {
  it.each(Object.entries(passing))('%s: all records arrive', async (_, fault) => {
    const service = pagedRows(members, { paging: 'offset', silentCap: 100 });
    const { report, stored } = await syncMembers((call, index) =>
      index === 3 ? fault : service.reply(call),
    );
    expect(report.failures).toEqual([]);
    expect(report.outcome).toBe('ok');
    expect(stored.size).toBe(members.length);
  });

  it('renews an expired token in the middle of a walk', async () => {
    const service = pagedRows(members, { paging: 'offset', silentCap: 100 });
    const { report, stored } = await syncMembers((call) => service.reply(call), 3);
    expect({ outcome: report.outcome, stored: stored.size }).toEqual({
      outcome: 'ok',
      stored: members.length,
    });
  });

  it('reads gzip', async () => {
    const { report, stored } = await syncMembers((call) =>
      gzipped(members.slice(Number(call.params['offset']))),
    );
    expect({ outcome: report.outcome, stored: stored.size }).toEqual({
      outcome: 'ok',
      stored: members.length,
    });
  });
});

const lasting: Record<string, readonly [Reply, string]> = {
  500: [apiError(500, 'unexpected'), 'UPSTREAM'],
  504: [apiError(504, 'gateway timeout'), 'TIMEOUT'],
  '200 as HTML': [html(200), 'BODY_INVALID'],
  'a reset': [broken.resetBeforeHeaders, 'NETWORK'],
  'a cut body': [broken.cutInChunks, 'NETWORK'],
  404: [apiError(404, 'list not found'), 'NOT_FOUND'],
  403: [apiError(403, 'you may not'), 'FORBIDDEN'],
  400: [apiError(400, 'no such parameter'), 'REQUEST_REFUSED'],
  'the marker of a shortened text': [
    success([
      {
        id: 'x',
        full_name:
          'A long name... [truncated — use `get` action with the record id to retrieve the full value]',
      },
    ]),
    'TRUNCATED_VALUE',
  ],
  'a body that is too large': [successText(`[${'{"id":"x"},'.repeat(300_000)}{"id":"y"}]`), 'BODY_TOO_LARGE'],
};

describe('a sync from a service that keeps failing', () => {
  // Proves promise 8
  it.each(Object.entries(lasting))(
    '%s: whole pages are kept, the walk is set aside and named',
    async (_, [fault, code]) => {
      const service = pagedRows(members, { paging: 'offset', silentCap: 100 });
      const { report, stored, calls } = await syncMembers((call, index) =>
        index >= 3 ? fault : service.reply(call),
      );
      expect(report.outcome).toBe('degraded');
      expect(report.failures).toMatchObject([
        { entity: 'list_members', params: { list_id: 'list-1' }, code },
      ]);
      // Two pages with ten records of overlap were stored whole before it began.
      expect(stored.size).toBe(190);
      expect(calls).toBeLessThan(60);
    },
  );

  it('stops at once where credentials, redirects or the quota say that nothing else can work', async () => {
    const stops: readonly (readonly [Reply, string])[] = [
      [apiError(401, 'bad token'), 'AUTH_FAILED'],
      [redirect(302, 'http://127.0.0.1:1/'), 'REDIRECTED'],
      [apiError(402, 'quota exceeded for this organization'), 'QUOTA_EXHAUSTED'],
    ];
    for (const [fault, code] of stops) {
      const service = pagedRows(members, { paging: 'offset', silentCap: 100 });
      const { report } = await syncMembers((call, index) => (index >= 3 ? fault : service.reply(call)));
      expect(report).toMatchObject({ outcome: 'failed', error: { code, recovery: 'stop' } });
      hosted.begin();
    }
  });
});

describe('a sync with many walks', () => {
  async function syncLists(count: number, entities: readonly string[], answer: (call: HostileCall) => Reply) {
    const lists = Array.from({ length: count }, (_, index) => ({ id: `list-${index}` }));
    const { server, sync } = await hosted.open(mailing, (call) =>
      call.entity === 'lists'
        ? success(lists.slice(Number(call.params['offset'])), { links: [] })
        : answer(call),
    );
    const report = await sync(['lists', ...entities], { limits });
    return { report, calls: server.calls.length };
  }

  it('ends when the API stops responding, instead of failing one walk after the other', async () => {
    const { report, calls } = await syncLists(300, ['list_members', 'segments'], () =>
      apiError(503, 'unavailable'),
    );
    expect(report).toMatchObject({ outcome: 'failed', error: { code: 'UPSTREAM', recovery: 'retry' } });
    expect(calls).toBeLessThan(300);
  });

  // Proves promise 8
  it('continues all others when one of them fails', async () => {
    const { report } = await syncLists(60, ['list_members'], (call) =>
      call.params['list_id'] === 'list-30'
        ? apiError(404, 'no such list')
        : success(call.params['offset'] === 0 ? [{ id: 'm' }] : []),
    );
    expect(report.outcome).toBe('degraded');
    expect(report.failures).toMatchObject([{ params: { list_id: 'list-30' }, code: 'NOT_FOUND' }]);
    expect(report.entities.find(({ entity }) => entity === 'list_members')).toMatchObject({
      proofs: { single: 59 },
      setAside: 1,
    });
  });
});

function idOf({ id }: JsonObject): string {
  return typeof id === 'string' ? id : '';
}

describe('a sync from a service whose rows move between pages', () => {
  const seed = startSeed();
  const trials = repeats('TRIALS', { share: 5, full: 100 });
  // Proves promise 3
  it(`never claims proof and misses a row that was there throughout (seed ${seed})`, async () => {
    const random = seededRandom(seed);
    for (let trial = 0; trial < trials; trial += 1) {
      const throughout = new Set(members.map(idOf));
      const violence = Math.floor(random() * 14);
      let fresh = 0;
      const service = pagedRows(members, {
        paging: 'offset',
        silentCap: 40 + Math.floor(random() * 100),
        beforePage: (rows) => {
          for (let change = Math.floor(random() * (violence + 1)); change > 0; change -= 1) {
            const [row] = rows.splice(Math.floor(random() * rows.length), 1);
            const stamp = new Date(Date.UTC(2025, 0, 1) + (fresh += 1) * 1000).toISOString();
            if (row === undefined || random() < 0.5) throughout.delete(row === undefined ? '' : idOf(row));
            else rows.push({ ...row, last_changed: stamp });
            if (random() < 0.3) rows.push({ id: `fresh-${fresh}`, last_changed: stamp });
          }
        },
      });
      const { report, stored } = await syncMembers((call) => service.reply(call));
      const walked = report.entities.find(({ entity }) => entity === 'list_members');
      const isProven = walked !== undefined && walked.unordered === 0 && walked.setAside === 0;
      const missed = isProven ? [...throughout].filter((id) => !stored.has(id)) : [];
      expect({ seed, trial, missed }).toEqual({ seed, trial, missed: [] });
      hosted.begin();
    }
  });
});

describe('a sync from a service with bent page tokens', () => {
  const users = Array.from({ length: 250 }, (_, index): JsonObject => ({
    object: 'user',
    type: 'person',
    id: `user-${index}`,
    name: `User ${index}`,
  }));

  async function syncUsers(bend: TokenBend | null): Promise<{ report: RunReport; stored: number }> {
    const service = pagedRows(users, { paging: 'token', silentCap: 40, ...(bend === null ? {} : { bend }) });
    const { sync } = await hosted.open(notes, (call) => service.reply(call));
    return { report: await sync(['users'], { limits }), stored: hosted.rows(notes, 'users').size };
  }

  it('reads through short and empty pages', async () => {
    expect(await syncUsers(null)).toMatchObject({ report: { outcome: 'ok' }, stored: 250 });
    expect(await syncUsers({ kind: 'empty-pages' })).toMatchObject({
      report: { outcome: 'ok' },
      stored: 250,
    });
  });

  it('restarts after an expired token, and gives up after three times', async () => {
    expect(await syncUsers({ kind: 'expired', fromCall: 2, times: 2 })).toMatchObject({
      report: { outcome: 'ok' },
      stored: 250,
    });
    hosted.begin();
    const { report } = await syncUsers({ kind: 'expired', fromCall: 2, times: 1000 });
    expect(report).toMatchObject({
      outcome: 'failed',
      error: { code: 'TOKEN_EXPIRED', recovery: 'retry' },
      failures: [{ entity: 'users', code: 'TOKEN_EXPIRED' }],
    });
  });

  it.each([
    { kind: 'repeated-token' },
    { kind: 'cycle', length: 3 },
    { kind: 'more-without-token' },
  ] as const)('ends with an error where the tokens lead nowhere: $kind', async (bend) => {
    const { report } = await syncUsers(bend);
    expect(report).toMatchObject({
      outcome: 'failed',
      error: { code: 'PAGING_BROKEN', recovery: 'stop' },
      failures: [{ entity: 'users', code: 'PAGING_BROKEN' }],
    });
  });
});
