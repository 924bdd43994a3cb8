import { readdirSync, unlinkSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { Params } from '../../src/core/records.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import type { HostileCall, Reply } from '../support/hostile/exchange.ts';
import { apiError, held, html, success } from '../support/hostile/replies.ts';
import type { HostileServer } from '../support/hostile-server.ts';
import { instantClock } from '../support/instant-clock.ts';
import { useHostedRuns } from '../support/hosted-runs.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { sampleSinks } from '../support/sample-sinks.ts';
import { chosenEntities, entityNamed, type SyncOnce } from '../support/sync-once.ts';

const mailing = builtInDefinition('email-marketing');
const hourMs = 60 * 60 * 1000;
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

  it('finishes work of more than a day that is stopped again and again', async () => {
    const clock = instantClock();
    let stop = new AbortController();
    let calls = 0;
    const respond = (call: HostileCall): Reply => {
      if (call.entity === 'lists') return page(lists(60), call);
      clock.advance(hourMs / 2);
      calls += 1;
      if (calls % 20 === 0) stop.abort(new Error('stopped'));
      return success([]);
    };
    await withService(respond, async (run) => {
      const outcomes: string[] = [];
      for (let attempt = 0; attempt < 6 && outcomes.at(-1) !== 'ok'; attempt += 1) {
        stop = new AbortController();
        outcomes.push((await run(['lists', 'list_members'], { clock, signal: stop.signal })).outcome);
      }
      expect(outcomes.at(-1)).toBe('ok');
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

describe('a service that cuts its pages by bytes', () => {
  const rows = Array.from({ length: 450 }, (_, index): JsonObject => ({
    id: `m-${index}`,
    last_changed: new Date(Date.UTC(2024, 0, 1) + index * 1000).toISOString(),
    note: index >= 285 && index < 340 ? 'x'.repeat(1000) : 'x',
  }));
  const cut = (from: number): JsonObject[] => {
    let bytes = 0;
    const fitting = rows.slice(from).findIndex((row) => (bytes += JSON.stringify(row).length) > 9000);
    return rows.slice(from, fitting === -1 ? undefined : from + Math.max(1, fitting));
  };

  it('is read to the end, though a page may stop just behind the last known record', async () => {
    await withService(
      (call) =>
        call.entity === 'lists' ? page(lists(1), call) : success(cut(Number(call.params['offset'] ?? 0))),
      async (run) => {
        expect(await run(['lists', 'list_members'])).toMatchObject({ outcome: 'ok' });
        expect(stored('list_members')).toBe(450);
      },
    );
  });

  it('is read to the end though another listing came in a longer page', async () => {
    const heavy = rows.map((row): JsonObject => ({ ...row, note: 'x'.repeat(300) }));
    const first = (call: HostileCall): Reply => success(cut(Number(call.params['offset'] ?? 0)));
    await withService(
      (call) => {
        if (call.entity === 'lists') return page(lists(2), call);
        return call.params['list_id'] === 'list-0' ? first(call) : page(heavy, call, 22);
      },
      async (run) => {
        expect(await run(['lists', 'list_members'])).toMatchObject({ outcome: 'ok' });
        expect(stored('list_members')).toBe(900);
      },
    );
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
