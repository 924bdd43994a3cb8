import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import {
  openCallGate,
  type CallLane,
  type CallTurn,
  openMachineSlots,
} from '../../src/upstream/call-gate.ts';
import { testProgram } from '../support/ensure-built.ts';
import {
  failureOf,
  listOf,
  never,
  openTestAccount,
  requestOf,
  things,
} from '../support/third-party/open-test-account.ts';
import { startThirdParty } from '../support/third-party/start-third-party.ts';

/** The system's waits on a time that the test moves. */
function movableClock() {
  let offset = 0;
  return {
    now: () => systemClock.now() + offset,
    sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms, signal),
    advance: (ms: number) => {
      offset += ms;
    },
  };
}

const limits = { concurrency: 4, requestsPerSecond: 10_000 };

/** Starts calls until one has to wait: gives those that started. */
async function fill(lane: CallLane, waitMs = 30): Promise<CallTurn[]> {
  const turns: CallTurn[] = [];
  for (;;) {
    const leaving = new AbortController();
    const next = lane.enter(leaving.signal).catch(() => null);
    const turn = await Promise.race([next, systemClock.sleep(waitMs).then(() => null)]);
    leaving.abort(new Error('enough'));
    const late = turn ?? (await next);
    if (late === null) return turns;
    turns.push(late);
  }
}

function endAll(turns: readonly CallTurn[]): void {
  for (const turn of turns) turn.end(true);
}

describe('the gate of calls', () => {
  it('is one for all callers of an account, and another for another account', async () => {
    const gate = openCallGate();
    expect(gate.lane('a', limits)).toBe(gate.lane('a', limits));
    const turns = await fill(gate.lane('a', limits));
    expect(turns).toHaveLength(4);
    expect(await fill(gate.lane('b', { ...limits, concurrency: 2 }))).toHaveLength(2);
    turns[0]?.end(true);
    turns[0]?.end(true);
    expect(await fill(gate.lane('a', limits))).toHaveLength(1);
  });

  it('halves the rate after a refusal, and counts those of calls that were sent before once', async () => {
    const clock = movableClock();
    const gate = openCallGate({ clock });
    const lane = gate.lane('a', { concurrency: 100, requestsPerSecond: 20 });
    lane.slowDown(0);
    lane.slowDown(0);
    const before = performance.now();
    const turns = await Promise.all(Array.from({ length: 4 }, () => lane.enter(never)));
    const waitedMs = performance.now() - before;
    // One call each 100 ms, and none together.
    expect(waitedMs).toBeGreaterThanOrEqual(290);
    expect(waitedMs).toBeLessThan(580);
    endAll(turns);
  });

  it('waits out a short pause, says how long a longer one is, and can be left at any time', async () => {
    const gate = openCallGate({ maxWaitMs: 200 });
    const lane = gate.lane('a', limits);
    const before = performance.now();
    lane.slowDown(80);
    (await lane.enter(never)).end(true);
    expect(performance.now() - before).toBeGreaterThanOrEqual(75);
    lane.pause(150);
    const leaving = new AbortController();
    const left = lane.enter(leaving.signal);
    leaving.abort(new Error('the caller left'));
    await expect(left).rejects.toThrow('the caller left');
    lane.pause(5_000);
    const failure = await failureOf(lane.enter(never));
    expect(failure).toMatchObject({ class: 'throttled', reason: 'gate', status: null });
    expect(failure.waitMs).toBeGreaterThan(4_500);
  });

  it('bounds the wait for calls that take long, and lets the caller leave it', async () => {
    const gate = openCallGate({ maxWaitMs: 50 });
    const lane = gate.lane('a', { ...limits, concurrency: 1 });
    const turn = await lane.enter(never);
    const leaving = new AbortController();
    const left = lane.enter(leaving.signal);
    leaving.abort(new Error('the caller left'));
    await expect(left).rejects.toThrow('the caller left');
    expect(await failureOf(lane.enter(never))).toMatchObject({
      class: 'throttled',
      reason: 'gate',
      waitMs: 1_000,
    });
    turn.end(true);
    (await lane.enter(never)).end(true);
  });

  it('keeps the rate', async () => {
    const gate = openCallGate();
    const lane = gate.lane('a', { concurrency: 100, requestsPerSecond: 50 });
    const before = performance.now();
    const turns = await Promise.all(Array.from({ length: 31 }, () => lane.enter(never)));
    // Twelve may start together, a quarter of a second's worth.
    expect(performance.now() - before).toBeGreaterThanOrEqual(350);
    endAll(turns);
  });

  // Proves promise 17.3
  it('shares the calls at a time with other processes of the machine, also after one was killed', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'slots-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const machineSlots = () => openMachineSlots(systemClock, folder);
    const gate = openCallGate({ machineSlots: machineSlots() });
    const other = openCallGate({ machineSlots: machineSlots(), maxWaitMs: 300 });
    const holder = spawn(
      process.execPath,
      [testProgram('upstream/slot-holder.mjs'), folder, 'a', String(limits.concurrency)],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    onTestFinished(() => void holder.kill('SIGKILL'));
    await once(holder.stdout, 'data');
    const turns = await Promise.all([1, 2].map(() => gate.lane('a', limits).enter(never)));
    const more = await fill(other.lane('a', limits), 300);
    // The other process holds one of four.
    expect(more).toHaveLength(1);
    expect(await failureOf(other.lane('a', limits).enter(never))).toMatchObject({ reason: 'gate' });
    expect(await fill(other.lane('b', limits), 300)).toHaveLength(limits.concurrency);
    holder.kill('SIGKILL');
    await once(holder, 'exit');
    const freed = await other.lane('a', limits).enter(never);
    endAll([freed, ...turns, ...more]);
    expect(await fill(gate.lane('a', limits), 300)).toHaveLength(limits.concurrency);
  });

  it('lets every call start where the folder of the locks cannot be used', async () => {
    const file = path.join(mkdtempSync(path.join(tmpdir(), 'slots-')), 'file');
    onTestFinished(() => rmSync(path.dirname(file), { recursive: true, force: true }));
    writeFileSync(file, '');
    const gate = openCallGate({ machineSlots: openMachineSlots(systemClock, file) });
    expect(await fill(gate.lane('a', limits), 300)).toHaveLength(limits.concurrency);
  });

  it('forgets an account that nothing has used for ten minutes', async () => {
    const clock = movableClock();
    const gate = openCallGate({ clock });
    const [idle, busy] = [gate.lane('idle', limits), gate.lane('busy', limits)];
    const turn = await busy.enter(never);
    clock.advance(700_000);
    gate.lane('other', limits);
    expect(gate.lane('busy', limits)).toBe(busy);
    expect(gate.lane('idle', limits)).not.toBe(idle);
    turn.end(true);
  });
});

describe('an account', () => {
  it('never has more calls open than its limit, and shares it over all its actions', async () => {
    let open = 0;
    let most = 0;
    const server = await startThirdParty(async () => {
      open += 1;
      most = Math.max(most, open);
      await systemClock.sleep(10);
      open -= 1;
      return { body: { items: [], id: '1', account: { id: 1 } } };
    });
    const account = openTestAccount({
      baseUrl: server.origin,
      upstream: { limits: { concurrency: 3, requestsPerSecond: 10_000 } },
    });
    await Promise.all(
      Array.from({ length: 10 }, (_none, index) => [
        account.list({ entity: things, params: {} }, never),
        account.get({ entity: things, params: { note_id: `n${index}` } }, never),
        account.check(never),
      ]).flat(),
    );
    expect(most).toBe(3);
  });

  it('pauses all calls after a 429, for as long as the service asks', async () => {
    const server = await startThirdParty((_request, index) =>
      index === 0 ? { status: 429, headers: { 'retry-after': '0.2' }, body: {} } : { body: { items: [] } },
    );
    const account = openTestAccount({ baseUrl: server.origin });
    const list = { entity: things, params: {} };
    const before = performance.now();
    expect(await failureOf(account.list(list, never))).toMatchObject({ class: 'throttled', waitMs: 200 });
    await account.list(list, never);
    expect(performance.now() - before).toBeGreaterThanOrEqual(195);
  });

  it('waits until the reset where an answer says that no calls remain', async () => {
    const server = await startThirdParty((_request, index) => ({
      headers:
        index === 0 ? { 'x-remaining': '0', 'x-reset': '150' } : { 'x-remaining': '9', 'x-reset': '90000' },
      body: { items: [] },
    }));
    const remaining = {
      header: 'x-remaining',
      reset: { header: 'x-reset', format: 'milliseconds' },
    } as const;
    const account = openTestAccount({
      baseUrl: server.origin,
      upstream: { remaining },
      list: listOf(requestOf('/items')),
    });
    const list = { entity: things, params: {} };
    const before = performance.now();
    for (let call = 0; call < 3; call += 1) await account.list(list, never);
    expect(performance.now() - before).toBeGreaterThanOrEqual(145);
    expect(performance.now() - before).toBeLessThan(60_000);
  });
});
