import { expect, it } from 'vitest';
import type { RunEnd } from '../../src/app/app.ts';
import { auditEntity } from '../../src/app/audit-entity.ts';
import { askedRecord, refetchRecord } from '../../src/app/refetch-record.ts';
import { undoRun } from '../../src/app/undo-run.ts';
import { openApp } from '../../src/app/open-app.ts';
import { tellEnd } from '../../src/app/run-connector.ts';
import { sampleConnector } from '../../src/app/adopt-connector.ts';
import { systemClock } from '../../src/core/clock.ts';
import { readSettings, withParts } from '../../src/settings/load-settings.ts';
import { entityTarget } from '../../src/settings/choices.ts';
import type { ConnectorSettings } from '../../src/settings/settings.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import { openCliWorld } from '../support/cli-world.ts';
import { jsonLines } from '../support/run-cli.ts';

const connector = { name: 'newsletter' } as unknown as ConnectorSettings;
const report = { outcome: 'ok' } as RunReport;

async function endsOf(run: () => Promise<RunReport | null>): Promise<readonly RunEnd[]> {
  const ends: RunEnd[] = [];
  await tellEnd({ clock: systemClock, onRunEnd: (end) => void ends.push(end) }, connector, {}, run).catch(
    () => undefined,
  );
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
  await expect(tellEnd({ clock: systemClock }, connector, {}, () => Promise.reject(error))).rejects.toBe(
    error,
  );
});

it('reports nothing where there was nothing to do', async () => {
  expect(await endsOf(() => Promise.resolve(null))).toEqual([]);
});

it('reports no end of what is read into a temporary sink', async () => {
  await using world = await openCliWorld({ settings: '    include: [lists]\n' });
  const settings = withParts(readSettings({ file: world.config, env: world.env }), 'access');
  const target = entityTarget(settings, 'newsletter/lists');
  const newsletter = target.connector;
  const ends: string[] = [];
  await using app = await openApp({
    settings,
    clock: systemClock,
    command: 'a test',
    onRunEnd: ({ kind, connector: { sink } }) => void ends.push(`${kind} ${sink.name}`),
  });
  const asked = { onEvent: () => undefined, signal: new AbortController().signal };
  await app.sync(newsletter, { globs: { select: [], exclude: [] }, ...asked });
  expect(ends).toEqual(['ended main']);
  const audit = await auditEntity(app, target, { limit: 0, ...asked });
  expect(audit.differences).toMatchObject({ missing: { count: 0 }, extra: { count: 0 } });
  expect(await sampleConnector(app, newsletter, asked)).toMatchObject({ agrees: true });
  await expect(
    app.readAside(
      { ...newsletter, address: { kind: 'workspace', workspace: 'nowhere' } },
      {
        globs: { select: [], exclude: [] },
        ...asked,
      },
    ),
  ).rejects.toThrow();
  expect(ends).toEqual(['ended main']);
});

it('reports the end of a sync, a refetch and an undo to the same listener, and waits for its promise', async () => {
  await using world = await openCliWorld({ settings: '    include: [lists]\n' });
  const settings = withParts(readSettings({ file: world.config, env: world.env }), 'access');
  const target = entityTarget(settings, 'newsletter/lists');
  const ends: string[] = [];
  const options = {
    clock: systemClock,
    command: 'a test',
    onRunEnd: async (end: RunEnd) => {
      await systemClock.sleep(1);
      ends.push(end.kind === 'ended' ? end.report.kind : end.kind);
    },
  };
  await using app = await openApp({ settings, ...options });
  const { signal } = new AbortController();
  const globs = { select: [], exclude: [] };
  const { run } = await app.sync(target.connector, { globs, onEvent: () => undefined, signal });
  expect(ends).toEqual(['sync']);
  const [list] = jsonLines(await world.cli('export', 'newsletter/lists'));
  const asked = await askedRecord(target, [`id=${String(list?.['id'])}`], 'connector-sync');
  await refetchRecord(app, asked, { ...options, allowDeletes: false, signal });
  expect(ends).toEqual(['sync', 'refetch']);
  if (run === null) throw new Error('expected the sync to have a run');
  await undoRun(target.connector, run, { ...options, signal });
  expect(ends).toEqual(['sync', 'refetch', 'undo']);
});

it('waits five seconds at most for a listener whose promise stays open', async () => {
  const slept: number[] = [];
  const clock = {
    ...systemClock,
    sleep: (ms: number) => {
      slept.push(ms);
      return Promise.resolve();
    },
  };
  const never = new Promise<void>(() => undefined);
  await tellEnd({ clock, onRunEnd: () => never }, connector, {}, () => Promise.resolve(report));
  expect(slept).toEqual([5_000]);
});
