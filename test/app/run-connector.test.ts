import { expect, it } from 'vitest';
import type { RunEnd } from '../../src/app/app.ts';
import { tellEnd } from '../../src/app/run-connector.ts';
import type { ConnectorSettings } from '../../src/settings/settings.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';

const connector = { name: 'newsletter' } as unknown as ConnectorSettings;
const report = { outcome: 'ok' } as RunReport;

async function endsOf(run: () => Promise<RunReport | null>): Promise<readonly RunEnd[]> {
  const ends: RunEnd[] = [];
  await tellEnd({ onRunEnd: (end) => ends.push(end) }, connector, {}, run).catch(() => undefined);
  return ends;
}

it('reports the end of a run once, with its report or with the error that its caller gets', async () => {
  const error = new Error('busy');
  expect(await endsOf(() => Promise.resolve(report))).toEqual([
    { kind: 'ended', connector, asked: {}, report },
  ]);
  expect(await endsOf(() => Promise.reject(error))).toEqual([
    { kind: 'failed', connector, asked: {}, error },
  ]);
  await expect(tellEnd({}, connector, {}, () => Promise.reject(error))).rejects.toBe(error);
});

it('reports nothing where there was nothing to do', async () => {
  expect(await endsOf(() => Promise.resolve(null))).toEqual([]);
});
