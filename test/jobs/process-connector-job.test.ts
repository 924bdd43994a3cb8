import type { Job } from 'bullmq';
import { describe, expect, it } from 'vitest';
import { SyncError } from '../../src/core/errors.ts';
import { parseConnectorJob } from '../../src/jobs/connector-job.ts';
import { gateErrors } from '../../src/jobs/gate-errors.ts';
import type { JobLog } from '../../src/jobs/job-log.ts';
import { createProcessor, type RunConnector } from '../../src/jobs/process-connector-job.ts';

const silent: JobLog = { info: () => undefined, warn: () => undefined, error: () => undefined };

describe('the processor', () => {
  it('declares three parameters, because only then the queue passes a signal', () => {
    expect(processorOf(() => Promise.resolve({ outcome: 'ok' })).length).toBe(3);
  });

  it('fails the job of a failed run', async () => {
    const processor = processorOf(() => Promise.resolve({ outcome: 'failed' }));
    await expect(processor(jobOf('newsletter'), 't', undefined)).rejects.toThrow(
      'newsletter: the run failed',
    );
  });

  it('gives only the code of an error to Redis', async () => {
    const processor = processorOf(() =>
      Promise.reject(new SyncError('jo@example.com was refused', { code: 'UPSTREAM', recovery: 'stop' })),
    );
    await expect(processor(jobOf('newsletter'), 't', undefined)).rejects.toThrow(/^newsletter: UPSTREAM$/);
  });

  it('completes the job when another process holds the connector', async () => {
    const processor = processorOf(() =>
      Promise.reject(new SyncError('held by another', { code: 'CONNECTOR_BUSY', recovery: 'stop' })),
    );
    expect(await processor(jobOf('newsletter'), 't', undefined)).toEqual({
      connector: 'newsletter',
      outcome: 'busy',
    });
  });

  it('leaves a connector alone that is no longer configured', async () => {
    const processor = processorOf(() => Promise.reject(new Error('must not be called')));
    expect(await processor(jobOf('gone'), 't', undefined)).toEqual({ connector: 'gone', outcome: 'unknown' });
  });

  it('refuses a payload with anything but a connector name', () => {
    expect(() => parseConnectorJob({ connector: 'newsletter', clientSecret: 'x' })).toThrow(/nothing else/);
    expect(() => parseConnectorJob({ connector: '../x' })).toThrow(/nothing else/);
  });
});

describe('the error gate', () => {
  it('logs a kind of error once in 30 s and then says how many it held back', () => {
    const lines: object[] = [];
    let nowMs = 1_000_000;
    const log: JobLog = { ...silent, error: (facts) => lines.push(facts) };
    const clock = { now: () => nowMs, sleep: () => Promise.resolve() };
    const gate = gateErrors(log, clock);
    for (let index = 0; index < 1000; index += 1) gate(new Error(`OOM command not allowed (${index})`));
    gate(new Error('NOAUTH Authentication required'));
    expect(lines).toHaveLength(2);
    nowMs += 30_000;
    gate(new Error('OOM command not allowed'));
    expect(lines[2]).toMatchObject({ kind: 'OOM', repeated: 999 });
  });
});

function processorOf(runConnector: RunConnector): ReturnType<typeof createProcessor> {
  return createProcessor({
    connectors: { has: (name) => name === 'newsletter' },
    runConnector,
    signal: new AbortController().signal,
    log: silent,
  });
}

function jobOf(connector: string): Job {
  return { data: { connector } } as Job;
}
