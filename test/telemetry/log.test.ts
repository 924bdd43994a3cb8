import { describe, expect, it } from 'vitest';
import { SyncError } from '../../src/core/errors.ts';
import type { RunEvent } from '../../src/core/events.ts';
import {
  isConnectorName,
  isDeclaredName,
  type ConnectorName,
  type EntityName,
} from '../../src/core/names.ts';
import { Secret } from '../../src/core/secret.ts';
import { logRunEvent, openLog, type Log } from '../../src/telemetry/log.ts';
import { createScrubber } from '../../src/telemetry/scrubber.ts';

describe('log lines', () => {
  it('contain only allow-listed properties of an error', async () => {
    const lines = await collect('trace');
    const hostile = Object.assign(new Error('call failed'), {
      code: 'ECONNRESET',
      config: { headers: { Authorization: 'Bearer planted-1' } },
      options: { auth: 'planted-2' },
      response: { body: ['planted-3'] },
    });
    lines.log.error({ err: hostile }, 'x');
    const failure = new SyncError('refused', {
      code: 'UPSTREAM',
      recovery: 'retry',
      context: { status: 500 },
      cause: hostile,
    });
    lines.log.error({ err: failure }, 'x');
    expect(lines.written.join('')).not.toContain('planted');
    expect(lines.parsed()).toMatchObject([
      { level: 'error', err: { type: 'Error', code: 'ECONNRESET', message: 'call failed' } },
      { err: { type: 'SyncError', code: 'UPSTREAM', recovery: 'retry', context: { status: 500 } } },
    ]);
  });

  it('stay one line each, whatever remote text holds', async () => {
    const lines = await collect('info');
    logRunEvent(lines.log, newsletter, {
      kind: 'walk-set-aside',
      entity: lists,
      params: { id: 'a\nb' },
      code: 'UPSTREAM',
      message: 'x\n{"level":"fatal"}\u001b[31m',
    });
    expect(lines.written).toHaveLength(1);
    expect(lines.written[0]?.trimEnd()).not.toMatch(/\p{Cc}/u);
    expect(lines.parsed()).toMatchObject([{ level: 'warn', event: 'walk-set-aside', connector: newsletter }]);
  });

  it.each<[RunEvent, string]>([
    [{ kind: 'throttled', waitMs: 5 }, 'warn'],
    [{ kind: 'commit-finished', pages: 1, ms: 1 }, 'debug'],
    [finished('ok'), 'info'],
    [finished('degraded'), 'warn'],
    [finished('failed'), 'error'],
  ])('have the level of their urgency: %o', async (event, level) => {
    const lines = await collect('trace');
    logRunEvent(lines.log, newsletter, event);
    expect(lines.parsed()).toMatchObject([{ level }]);
  });

  it('below the chosen level are not written', async () => {
    const lines = await collect('info');
    logRunEvent(lines.log, newsletter, { kind: 'commit-finished', pages: 1, ms: 1 });
    expect(lines.written).toEqual([]);
  });

  it('refuse a level that there is not, and name those there are', async () => {
    await expect(collect('loud')).rejects.toThrow(
      'expected one of trace, debug, info, warn, error, fatal, silent',
    );
  });
});

const newsletter = connectorName('newsletter');
const lists = entityName('lists');

function finished(outcome: string): RunEvent {
  return {
    kind: 'run-finished',
    connector: connectorName('newsletter'),
    run: 'r' as never,
    outcome,
    ms: 1,
    waitedMs: 0,
  };
}

async function collect(level: string): Promise<{
  readonly log: Log;
  readonly written: string[];
  parsed(): readonly unknown[];
}> {
  const written: string[] = [];
  const log = await openLog({ level, write: (line) => written.push(line) });
  return { log, written, parsed: () => written.map((line) => JSON.parse(line) as unknown) };
}

function connectorName(text: string): ConnectorName {
  if (!isConnectorName(text)) throw new Error(`${text} should be a connector name`);
  return text;
}

function entityName(text: string): EntityName {
  if (!isDeclaredName(text)) throw new Error(`${text} should be an entity name`);
  return text;
}

describe('the scrubber', () => {
  it('removes a secret in every spelling it takes', () => {
    const scrubber = createScrubber();
    const secret = 'p"ä s/s=w+o%rd';
    scrubber.register(new Secret(secret));
    const spellings = [
      secret,
      JSON.stringify({ secret }),
      `https://example.com/?secret=${encodeURIComponent(secret)}`,
      `Basic ${Buffer.from(secret).toString('base64')}`,
    ];
    for (const text of spellings) {
      expect(scrubber.scrub(text)).toContain('[secret]');
      for (const spelling of spellings) expect(scrubber.scrub(text)).not.toContain(spelling);
    }
  });

  it('removes the password of a secret URL wherever it stands alone', () => {
    const scrubber = createScrubber();
    scrubber.register(new Secret('redis://user:hunter%212@host:6379'));
    expect(scrubber.scrub('WRONGPASS hunter!2 or hunter%212')).toBe('WRONGPASS [secret] or [secret]');
  });

  it('removes a secret whole that contains another one', () => {
    const scrubber = createScrubber();
    scrubber.register(new Secret('abcd'));
    scrubber.register(new Secret('abcd-tail'));
    expect(scrubber.scrub('abcd-tail')).toBe('[secret]');
  });

  it('removes unregistered bearer tokens', () => {
    expect(createScrubber().scrub('{"authorization":"Bearer eyJ.x-y_z","next":1}')).toBe(
      '{"authorization":"Bearer [secret]","next":1}',
    );
  });

  it('leaves text alone when a secret is too short to be one', () => {
    const scrubber = createScrubber();
    scrubber.register(new Secret(''));
    scrubber.register(new Secret('a'));
    expect(scrubber.scrub('banana')).toBe('banana');
  });
});
